"""`fans.own.Results`: a run of `fans explain`, read piece by piece and without trusting it."""

import bisect
import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

from fans.curve import Curve
from fans.errors import FansError, InputError
from fans.explainer import Explainer
from fans.explanation import Explanation
from fans.own import store
from fans.own.bound import Asked, bind
from fans.own.data import file_sha256
from fans.own.models import SAFE, is_module
from fans.types import Array

KEPT_SHARDS = 8
"""Shards in memory at a time."""

KEPT_CURVES = 256
"""Curves that were computed and are kept."""


class Results:
    """The explanations in the folder of a run: what is done of it, in the order of the data.

    One shard is read at a time and nothing in the folder is executed. Files that lead elsewhere, or are not what they
    should be, are refused with an `InputError`.

    Args:
        folder: of the run.
        model: the model, named anew: a file, or `module:object`. Without it a model is loaded only if its format holds
            nothing that runs, and if file and data are still those of the run, by their checksums.
        trust: files that may be loaded even if that runs what is in them.

    Attributes:
        title: what is explained, in words.
        why_no_explainer: after `explainer()` returned None, the sentence that says why; else "".
        modality: what kind of inputs these are.
        feature_names: of features that all inputs share, as a table's columns; else empty.
        target_names: of the model's outputs.
    """

    def __init__(self, folder: str | Path, *, model: str | None = None, trust: Sequence[str | Path] = ()) -> None:
        self.folder = Path(folder)
        self._model, self._trust = model, tuple(map(Path, trust))
        self.why_no_explainer = ""
        self._explainer: Explainer | None = None
        self.plan = store.Plan.read(self.folder)
        self.title = self.plan.title
        self._shards = store.shards_there(self.folder, self.plan)
        if not self._shards:
            raise InputError(
                f"Expected finished explanations in {self.folder}, got none yet; give the command of the run again, "
                "which goes on"
            )
        self._numbers = list(self._shards)
        counts = [len(self.plan.inputs(number)) for number in self._numbers]
        self._starts = [0, *itertools.accumulate(counts)]
        self._read = lru_cache(KEPT_SHARDS)(self._shard)
        self._computed = lru_cache(KEPT_CURVES)(self._curve)
        self._lock = threading.RLock()
        first = self._read(0)
        self.modality, self.target_names = first.modality, first.target_names
        self.feature_names = first.feature_names if first.elements.ndim < first.inputs.ndim else ()

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r}, inputs={len(self)} of {self.plan.n})"

    def columns(self) -> dict[str, Array]:
        """Return a few numbers of every input as arrays of one length, for lists, filters and sorting.

        `id`, `target`, `prediction`, `pns`, `keep`, `change`, `intervals` (`(N, 3, 2)` of pns, keep, change by low,
        high), `size` of the subset, `tolerance`, `subset` (packed: `np.unpackbits(subset[i], count=F)`), and `top`, the
        names of the first chosen features.
        """
        return dict(self._columns)

    @cached_property
    def _columns(self) -> dict[str, Array]:
        found = store.read_index(self.folder, self._shards, len(self))
        if found is None:
            found = store.joined([store.columns_of(self._shard(at)) for at in range(len(self._numbers))])
        return found

    def explanation(self, i: int) -> Explanation:
        """Return the explanation of input `i`."""
        at, row = self._place(i)
        return self._read(at)[row]

    def explainer(self) -> Explainer | None:
        """Return the explainer that made the run; None where it cannot be made, and `why_no_explainer` says why."""
        with self._lock:
            if self._explainer is None and not self.why_no_explainer:
                try:
                    self._explainer = self._made()
                except FansError as error:
                    self.why_no_explainer = str(error)
            return self._explainer

    def _made(self) -> Explainer:
        """Make the explainer anew from the files that the plan describes, if they still are what they were."""
        plan = self.plan
        with store.refusing(self.folder / store.PLAN, "a plan of `fans explain`"):
            asked = Asked.of_plan(plan, self._model, self._trust)
            known = {"data": plan.data["sha256"], "model": plan.model["sha256"]}
            known |= {"background": plan.background["sha256"]}
        form = "module:object" if is_module(asked.model) else Path(asked.model).suffix.lower()
        if self._model is None and form not in SAFE:
            raise InputError(
                f"Expected the model of this run named again (--model), got it only in the run's own folder, as "
                f"{Path(asked.model).name!r}: a {form} may run what is in it"
            )
        asked = replace(asked, data=self._there(asked.data, "data"))
        if asked.background is not None:
            asked = replace(asked, background=self._there(asked.background, "background"))
        if form != "module:object":
            asked = replace(asked, model=str(self._there(Path(asked.model), "model")))
        files = {"data": asked.data, "background": asked.background, "model": Path(asked.model)}
        for what, path in files.items():
            if path is not None and path.is_file() and file_sha256(path) != known[what]:
                raise _changed(what, path)
        bound = bind(asked)
        if bound.data.sha256 != known["data"]:
            raise _changed("data", asked.data)
        if asked.background is not None and bound.background_sha256 != known["background"]:
            raise _changed("background", asked.background)
        return bound.explainer

    def _there(self, path: Path, what: str) -> Path:
        """Return where a file of the run is: where it was, or beside the run's folder."""
        for place in (path, self.folder.resolve().parent / path.name):
            if place.exists():
                return place
        raise InputError(
            f"Expected the {what} of this run at {path}, or beside its folder, got nothing there; put it back, and "
            "what asks the model works again"
        )

    def curve(self, i: int) -> Curve | None:
        """Return PNS of input `i` against size and tolerance: stored, or computed if there is an explainer."""
        at, row = self._place(i)
        stored = store.read_curves(self.folder, self.plan, self._numbers[at])
        return stored[row] if stored is not None else self._computed(i)

    def _curve(self, i: int) -> Curve | None:
        explainer = self.explainer()
        return None if explainer is None else explainer.curve(self.explanation(i))

    def _place(self, i: int) -> tuple[int, int]:
        """Return at which shard, and where in it, an input is."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"Expected an index below {len(self)}, got {i}")
        i %= len(self)
        at = bisect.bisect_right(self._starts, i) - 1
        return at, i - self._starts[at]

    def _shard(self, at: int) -> Explanation:
        return store.read_shard(self.folder, self.plan, self._numbers[at])


def _changed(what: str, path: Path) -> InputError:
    return InputError(
        f"Expected the {what} that the run was made with, got {path}, which is another or has changed since; put the "
        "old one back, or make a new run"
    )
