"""The server's routes: what is asked is checked, what is answered is JSON."""

import asyncio
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fans.errors import FansError, InputError, choose, extra
from fans.explainer import Explainer
from fans.explanation import Explanation
from fans.methods.base import Method
from fans.report.sentences import outcome
from fans.serve import pages, views
from fans.serve.asking import Asker, Busy, Superseded
from fans.serve.gallery import Asked, Gallery, whole
from fans.serve.safety import App, Guard, Refused
from fans.serve.source import Source

if TYPE_CHECKING:
    from fastapi import FastAPI

T = TypeVar("T")

MOST_KEPT = 64
"""Views, scores and other answers that are kept, of each kind."""

MOST_PREVIEWS = 100
NO_MODEL = (
    "This page has no model to ask, so that features cannot be clicked in and out; pass the one that explained "
    "them: explanation.serve(explainer)."
)
N_TRIALS = 8


class Kept:
    """A few answers, the least recently asked for forgotten first; each is found once, whoever asks."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._most, self._lock = most, threading.Lock()

    def get(self, key: Hashable) -> Any:
        """Return what is known; None where nothing is."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: Hashable, value: T) -> T:
        """Keep and return an answer."""
        with self._lock:
            self._known[key] = value
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return value


class Explorer:
    """What the routes ask of a source and its model."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._reading = threading.RLock()
        self.explainer, self.why = _explainer_of(source)
        self.asker = Asker(self.explainer)
        self.gallery = Gallery(source)
        self._views, self._explained, self._scores, self._curves = Kept(), Kept(), Kept(512), Kept()
        self._rivals, self._trials, self._previews = Kept(256), Kept(), Kept(512)

    def index(self, text: str) -> int:
        """Read the number of a record."""
        n = len(self.source)
        if not n:
            raise InputError("Expected a record, got none: the run is empty")
        return whole("i", text, 0, n - 1)

    def explanation(self, i: int) -> Explanation:
        """Return a record."""
        found = self._explained.get(i)
        if found is None:
            with self._reading:
                found = self._explained.put(i, self.source.explanation(i))
        return found  # type: ignore[no-any-return]

    def view(self, i: int) -> dict[str, Any]:
        """Return what is shown of a record at once."""
        found = self._views.get(i)
        if found is None:
            e = self.explanation(i)
            why = self.why or self._unanswerable(e, i)
            found = views.view(e, count=(i, len(self.source))) | {
                "run": self.source.title,
                "model": {"available": not why, "why": why},
                "rivals": [] if why else self.rivals,
            }
            self._views.put(i, found)
        return found  # type: ignore[no-any-return]

    @cached_property
    def rivals(self) -> list[dict[str, str]]:
        """Methods that can be put beside the explanation's own."""
        return [] if self.explainer is None else views.rivals(self.explainer)

    def _unanswerable(self, e: Explanation, i: int) -> str:
        """Say why a record's input cannot be given to the model again; "" where it can."""
        try:
            self._given(e, i)
        except FansError as error:
            return f"Features cannot be clicked in and out here. {error}."
        return ""

    def _given(self, e: Explanation, i: int) -> Any:
        """Return the input of a record as the explainer takes it."""
        assert self.explainer is not None
        told = getattr(self.source, "inputs", None)
        x = told(i) if told is not None else None
        return self.explainer.inputs_of(e) if x is None else x

    @cached_property
    def look(self) -> str:
        """What thumbnails of these records are: pictures, texts, lines, or none."""
        return str(self.preview(0)["shown"]["kind"]) if len(self.source) else "none"

    def preview(self, i: int) -> dict[str, Any]:
        """Return what the gallery shows of a record besides its figures."""
        found = self._previews.get(i)
        if found is None:
            e = self.explanation(i)
            names = e.chosen_names(0)[:3] if e.presenter.lists_features else []
            told = {"i": i, "outcome": outcome(e, 0), "names": names, "title": e.title(0)}
            found = self._previews.put(i, told | {"shown": views.plain(e.presenter.thumbnail(e, 0))})
        return found  # type: ignore[no-any-return]

    async def score(self, i: int, subset: tuple[int, ...], tolerance: float | None, channel: str) -> dict[str, Any]:
        """Return keep, change and both of a subset."""
        e = await asyncio.to_thread(self.explanation, i)
        if set(subset) == set(np.flatnonzero(e.subset[0]).tolist()) and tolerance is None:
            return {"figures": views.own_figures(e), "said": views.view_finding(e), "own": True}
        key = (i, subset, tolerance)
        known = self._scores.get(key)
        if known is not None:
            return known  # type: ignore[no-any-return]
        asked, mask = self._asked(tolerance), _mask(e, subset)

        def work() -> dict[str, Any]:
            found = asked.score(self._given(e, i), mask, target=e.target, ids=e.ids)
            said = views.said_of(e, found, subset)
            return self._scores.put(key, {"figures": views.figures(found), "said": said, "own": False})

        return await asyncio.wrap_future(self.asker.ask("live", channel, work))

    def _asked(self, tolerance: float | None) -> Explainer:
        """Return who is asked, at a tolerance of the reader's."""
        if self.explainer is None:
            raise InputError(NO_MODEL)
        if tolerance is None:
            return self.explainer
        other = copy(self.explainer)
        other.neighbourhood = replace(self.explainer.neighbourhood, tolerance=tolerance)
        return other

    async def trials(self, i: int, subset: tuple[int, ...], channel: str) -> dict[str, Any]:
        """Return some trials of a subset."""
        known = self._trials.get((i, subset))
        if known is not None:
            return known  # type: ignore[no-any-return]
        e, asked = await asyncio.to_thread(self.explanation, i), self._asked(None)

        def work() -> dict[str, Any]:
            mask = _mask(e, subset)
            found = asked.trials(self._given(e, i), mask, n=N_TRIALS, target=e.target, ids=e.ids)
            return self._trials.put((i, subset), views.trials(e, found))

        return await asyncio.wrap_future(self.asker.ask("live", f"trials/{channel}", work))

    async def curve(self, i: int, channel: str) -> dict[str, Any]:
        """Return PNS against size and tolerance: as it was kept, else the model is asked once."""
        known = self._curves.get(i)
        if known is not None:
            return known  # type: ignore[no-any-return]
        e = await asyncio.to_thread(self.explanation, i)

        def work() -> dict[str, Any]:
            found = self.source.curve(i)
            if found is None and self.explainer is None:
                return {"curve": None, "why": "No curve of PNS against size was kept, and there is no model to ask."}
            if found is None:
                assert self.explainer is not None
                found = self.explainer.curve(e, self._given(e, i))
            return self._curves.put(i, {"curve": found.to_json(0)})

        try:  # a source may ask the model as well
            return await asyncio.wrap_future(self.asker.ask("slow", f"curve/{channel}", work))
        except InputError as error:
            return {"curve": None, "why": f"There is no curve of PNS against size. {error}."}

    async def rival(self, i: int, method: str, channel: str) -> dict[str, Any]:
        """Return what another method says of an input, with the same draws."""
        known = self._rivals.get((i, method))
        if known is not None:
            return known  # type: ignore[no-any-return]
        e, asked = await asyncio.to_thread(self.explanation, i), self._asked(None)
        choose("`method`", method, [each["name"] for each in await asyncio.to_thread(lambda: self.rivals)])

        def work() -> dict[str, Any]:
            label = Method.registry[method].label  # type: ignore[attr-defined]
            found = asked.with_method(method)(self._given(e, i), target=e.target, ids=e.ids, progress=False)
            return self._rivals.put((i, method), views.rival(found) | {"label": label})

        return await asyncio.wrap_future(self.asker.ask("slow", f"{method}/{channel}", work))

    async def export(self, i: int, subset: tuple[int, ...] | None, state: Mapping[str, Any], channel: str) -> str:
        """Return the page of a record as one file."""
        told = await asyncio.to_thread(self.view, i)
        has_model = told["model"]["available"]
        told = told | {"state": dict(state), "curve": (await self.curve(i, channel)).get("curve")}
        told["model"] = {
            "available": False,
            "why": "This is a copy of the page: its sliders work, but there is no model to ask about other subsets.",
        }
        if has_model:
            chosen = tuple(told["subset"]) if subset is None else subset
            told["trials"] = await self.trials(i, chosen, channel)
            if subset is not None:
                tolerance = _tolerance_at(told["curve"], state.get("t"))
                asked = await self.score(i, subset, tolerance, channel)
                told["asked"] = {"subset": list(subset), "tolerance": tolerance, **asked}
        return pages.exported(f"{told['title']} - {told['run']}", told)

    def close(self) -> None:
        """Stop asking."""
        self.asker.close()


def _explainer_of(source: Source) -> tuple[Explainer | None, str]:
    """Return who can be asked; else why nobody can."""
    try:
        found = source.explainer()
    except (FansError, OSError) as error:
        return None, f"There is no model to ask. {error}."
    if found is None:
        return None, getattr(source, "why_no_explainer", "") or NO_MODEL
    return found, ""


def _tolerance_at(curve: Mapping[str, Any] | None, t: int | None) -> float | None:
    """Return the tolerance at a place of a curve; None for the explanation's own."""
    if curve is None or t is None or t == curve["used"] or t >= len(curve["tolerances"]):
        return None
    return float(curve["tolerances"][t])


def _mask(e: Explanation, subset: tuple[int, ...]) -> Any:
    """Return a subset as booleans, one per feature."""
    mask = np.zeros(e.scores.shape[1], dtype=bool)
    n = len(mask)
    beyond = [f for f in subset if not 0 <= f < n or not e.present[0, f]]
    if beyond:
        raise InputError(f"Expected features that the input has, below {n:,}, got {beyond[0]}")
    mask[list(subset)] = True
    return mask[e.present[0]] if e.sparse else mask  # a sparse row alone has only its own columns


class Body:
    """A question's JSON, checked as it is read."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._given = json.loads(raw)
        except (ValueError, RecursionError):
            raise InputError("Expected JSON, got something else") from None
        if not isinstance(self._given, dict):
            raise InputError('Expected an object such as {"i": 0}, got something else')

    def whole(self, name: str) -> str:
        """Return a whole number, as text that is still to be checked."""
        value = self._given.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"Expected `{name}` as a whole number, got {str(value)[:40]!r}")
        return str(value) if abs(value) < 2**53 else "beyond"

    def text(self, name: str, default: str = "") -> str:
        """Return a short text."""
        value = self._given.get(name, default)
        if not isinstance(value, str) or len(value) > 80:
            raise InputError(f"Expected `{name}` as a text of at most 80 letters, got {str(value)[:40]!r}")
        return value

    def subset(self) -> tuple[int, ...]:
        """Return the features of a subset, in their order."""
        return features_of(self._given.get("subset"))

    def tolerance(self) -> float | None:
        """Return a tolerance, None where none was given."""
        value = self._given.get("tolerance")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"Expected `tolerance` as a number of at least 0, got {str(value)[:40]!r}")
        return float(value)


def features_of(given: Any) -> tuple[int, ...]:
    """Read a list of features."""
    is_list = isinstance(given, list) and len(given) <= 200_000
    if not is_list or any(isinstance(f, bool) or not isinstance(f, int) or not 0 <= f < 2**31 for f in given):
        raise InputError("Expected `subset` as a list of the numbers of features, got something else")
    return tuple(sorted(set(given)))


def application(source: Source, host: str = "127.0.0.1", token: str = "") -> tuple[App, Explorer]:
    """Return the server as an ASGI application, and what it asks."""
    try:
        from fastapi import FastAPI, Request
        from starlette.exceptions import HTTPException
        from starlette.responses import JSONResponse, Response
    except ImportError:
        raise extra("fastapi", "serve", "the explorer") from None
    explorer = Explorer(source)
    app = FastAPI(title="fans", docs_url=None, redoc_url=None, openapi_url=None)

    def refuse(status: int, sentence: str) -> Response:
        return JSONResponse({"error": sentence}, status)

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:  # noqa: ARG001
        words = {404: "There is nothing at this address.", 405: "This address answers another method."}
        return refuse(error.status_code, words.get(error.status_code, str(error.detail)))

    @app.exception_handler(FansError)
    async def told(request: Request, error: FansError) -> Response:  # noqa: ARG001
        if isinstance(error, Superseded):  # no failure: the page asked for something else since
            return JSONResponse({"superseded": str(error)})
        return refuse(503 if isinstance(error, Busy) else 400, str(error))

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:  # noqa: ARG001
        return refuse(error.status, str(error))

    async def failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
        return refuse(500, f"The model or the run failed: {type(error).__name__}: {str(error)[:300]}")

    for kind in (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, OSError, AttributeError):
        app.add_exception_handler(kind, failed)

    @app.get("/")
    async def index() -> Response:
        return Response(pages.static("index.html"), media_type=pages.KINDS["html"])

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in pages.FILES:
            raise HTTPException(404)
        return Response(pages.static(name), media_type=pages.KINDS[name.rpartition(".")[2]])

    @app.get("/favicon.ico")
    async def icon() -> Response:
        return Response(status_code=204)

    _add_reading(app, explorer)
    _add_asking(app, explorer)
    return Guard(app, host, token), explorer


def _add_reading(app: "FastAPI", explorer: Explorer) -> None:
    """Add the routes that read records."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    source = explorer.source

    async def answer(work: Callable[[], Any]) -> Response:
        return JSONResponse(await asyncio.to_thread(work))

    @app.get("/api/run")
    async def run() -> Response:
        return JSONResponse({"title": source.title, "n": len(source), "model": explorer.why})

    @app.get("/api/records")
    async def records(request: Request) -> Response:
        asked = Asked.of(request.query_params)
        return await answer(lambda: explorer.gallery.page(asked) | {"look": explorer.look})

    @app.get("/api/global")
    async def everything(request: Request) -> Response:
        target = request.query_params.get("target", "")
        if target and target not in explorer.gallery.classes:
            raise InputError(f"Expected a class that was explained, got {target[:40]!r}")
        return await answer(lambda: explorer.gallery.all(target))

    @app.get("/api/previews")
    async def previews(request: Request) -> Response:
        places = request.query_params.get("of", "").split(",")
        if len(places) > MOST_PREVIEWS:
            raise InputError(f"Expected at most {MOST_PREVIEWS} records, got {len(places)}")
        chosen = [explorer.index(text) for text in places]
        return await answer(lambda: {"previews": [explorer.preview(i) for i in chosen]})

    @app.get("/api/view")
    async def view(request: Request) -> Response:
        i = explorer.index(request.query_params.get("i", ""))
        return await answer(lambda: explorer.view(i))


def _add_asking(app: "FastAPI", explorer: Explorer) -> None:
    """Add the routes that ask the model."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    @app.post("/api/score")
    async def score(request: Request) -> Response:
        body = Body(await request.body())
        i, subset = explorer.index(body.whole("i")), body.subset()
        found = await explorer.score(i, subset, body.tolerance(), body.text("channel"))
        return JSONResponse(found)

    @app.post("/api/curve")
    async def curve(request: Request) -> Response:
        body = Body(await request.body())
        return JSONResponse(await explorer.curve(explorer.index(body.whole("i")), body.text("channel")))

    @app.post("/api/trials")
    async def trials(request: Request) -> Response:
        body = Body(await request.body())
        found = await explorer.trials(explorer.index(body.whole("i")), body.subset(), body.text("channel"))
        return JSONResponse(found)

    @app.post("/api/method")
    async def method(request: Request) -> Response:
        body = Body(await request.body())
        i, name = explorer.index(body.whole("i")), body.text("method")
        return JSONResponse(await explorer.rival(i, name, body.text("channel")))

    @app.get("/api/export")
    async def export(request: Request) -> Response:
        query = request.query_params
        i = explorer.index(query.get("i", ""))
        given = query.get("subset")
        parts = [] if given in (None, "") else given.split(".")
        subset = None if given is None else features_of([whole("subset", part, 0) for part in parts])
        state = {name: whole(name, query[name], 0) for name in ("k", "t") if name in query}
        text = await explorer.export(i, subset, state, "export")
        name = f'attachment; filename="fans-{i}.html"'
        return Response(text, media_type=pages.KINDS["html"], headers={"content-disposition": name})
