"""What a run leaves for others to read: CSV, JSON and Parquet with a row for each input, and pages that open from disk.

Everything is written block by block, however many inputs there are.
"""

import csv
import importlib.util
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fans.errors import InputError, choose, extra
from fans.explanation import Explanation, join
from fans.files import write, writing
from fans.own import store
from fans.own.data import WORDS
from fans.own.store import Plan
from fans.report.html import HEAD, STYLE, anchored, emphasise
from fans.report.overview_page import fragment
from fans.report.sentences import MOST_NAMES, chosen_count, keep_change_both, outcome, percent, sentence, unit_word
from fans.version import __version__
from fans.wording import normal_quantile

FORMATS = ("csv", "html", "json", "parquet")

MOST_FEATURES = 20
"""Features of an input that files tell of, besides those of its subset: those with the highest scores."""

MOST_SEEN = 1000
"""Inputs that the global view is made of."""

MOST_LISTED = 500
"""Inputs that the first page lists."""

MOST_INSIDE, MOST_PAGED = 30, 320
"""Inputs that are shown in full on the first page where there are no more, and else on pages of their own."""

POLICY = (
    "<meta http-equiv='Content-Security-Policy' "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
"""Nothing on a page runs, and nothing is fetched, whatever an input is called."""

LOOK = (
    "<style>.fans h1 { font-size: 1.5rem } .fans .list td { vertical-align: top } .fans .said { white-space: nowrap }"
    ".fans .list td:last-child { min-width: 16rem }</style>"
)

Add = Callable[[list[dict[str, Any]]], None]
"""Takes the records of a block of inputs."""


def check_formats(formats: Collection[str]) -> None:
    """Raise if one of the formats is none, or cannot be written here: before hours of work, not after."""
    for name in formats:
        choose("--format", name, FORMATS)
    if "parquet" in formats and importlib.util.find_spec("pyarrow") is None:
        raise extra("pyarrow", "explain", "--format parquet")


def write_results(
    folder: Path, plan: Plan, formats: Collection[str], tell: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Write the results of a run in its folder, in one pass over its shards; return what was written."""
    check_formats(formats)
    writers = {"csv": _csv, "json": _json, "parquet": _parquet}
    shards, adds, pages = store.shards_there(folder, plan), list[Add](), _Pages(folder, plan)
    written = [folder / f"results.{name}" for name in FORMATS if name in formats and name != "html"]
    with ExitStack() as stack:
        for path in written:
            adds.append(stack.enter_context(writers[path.suffix[1:]](path)))

        def see(block: Explanation) -> None:
            rows = list(records(block)) if adds else []
            for add in adds:
                add(rows)
            if "html" in formats:
                pages.add(block)

        columns = store.collected(folder, plan, see)
    store.write_index(folder, shards, columns)
    if "html" in formats:
        written.append(pages.finish(columns))
    tell(f"Results: {', '.join(map(str, written))}" if written else f"Results in {folder}")
    return written


# --- A row for each input --------------------------------------------------------------------------------------------


def records(e: Explanation) -> Iterator[dict[str, Any]]:
    """Yield what is known of each input, as JSON can hold it: None where nothing was measured."""
    columns = store.columns_of(e)
    for i in range(len(e)):
        found = {
            "id": e.ids[i],
            "target": e.target_names[e.target[i]] if e.target_names else str(e.target[i]),
            "prediction": _number(e.prediction[i]),
        }
        for k, name in enumerate(("pns", "keep", "change")):
            low, high = columns["intervals"][i, k]
            found |= {name: _number(columns[name][i]), f"{name}_low": _number(low), f"{name}_high": _number(high)}
        found |= {"size": int(columns["size"][i]), "of": int(e.present[i].sum()), "tolerance": _number(e.tolerance[i])}
        found |= {"chosen": e.chosen_names(i), "sentence": sentence(e, i).replace("*", "")}
        yield found | {"features": _features(e, i)}


def _features(e: Explanation, i: int) -> list[dict[str, Any]]:
    """Return the leading features of an input, and all of its subset."""
    ranked = [int(f) for f in e.ranked(i)]
    shown = [f for k, f in enumerate(ranked) if k < MOST_FEATURES or e.subset[i, f]]
    return [
        {
            "name": e.name(i, f),
            "value": e.value(i, f),
            "score": _number(e.scores[i, f]),
            "score_se": None if e.scores_se is None else _number(e.scores_se[i, f]),
            "chosen": bool(e.subset[i, f]),
            "direction": _number(e.direction[i, f]),
            "stability": _number(e.stability[i, f]),
        }
        for f in shown
    ]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


@contextmanager
def _csv(path: Path) -> Iterator[Add]:
    """Write a line for each input; a text that a spreadsheet would take for a formula gets a ' in front."""
    with writing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        lines: Any = None

        def add(rows: list[dict[str, Any]]) -> None:
            nonlocal lines
            for record in rows:
                row = {name: value for name, value in record.items() if name != "features"}
                row["chosen"] = "; ".join(row["chosen"])
                if lines is None:
                    lines = csv.DictWriter(file, list(row))
                    lines.writeheader()
                lines.writerow({name: _harmless(value) for name, value in row.items()})

        yield add
        file.flush()


def _harmless(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


@contextmanager
def _json(path: Path) -> Iterator[Add]:
    """Write one list, an input a line."""
    with writing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        between = "[\n"

        def add(rows: list[dict[str, Any]]) -> None:
            nonlocal between
            for record in rows:
                file.write(between + json.dumps(record, allow_nan=False))
                between = ",\n"

        yield add
        file.write(("[" if between == "[\n" else "") + "\n]\n")
        file.flush()


@contextmanager
def _parquet(path: Path) -> Iterator[Add]:
    """Write a row for each input, its features as a list of structs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, text = pa.float64(), pa.string()
    feature = {"name": text, "value": text, "score": number, "score_se": number, "chosen": pa.bool_()}
    feature |= {"direction": number, "stability": number}
    with writing(path) as temporary, ExitStack() as stack:
        writer: Any = None

        def add(found: list[dict[str, Any]]) -> None:
            nonlocal writer
            rows = [row | {"id": str(row["id"])} for row in found]
            if writer is None:
                kinds = {name: number for name, value in rows[0].items() if isinstance(value, float) or value is None}
                kinds |= {"id": text, "target": text, "size": pa.int32(), "of": pa.int32(), "sentence": text}
                kinds |= {"chosen": pa.list_(text), "features": pa.list_(pa.struct(list(feature.items())))}
                schema = pa.schema([(name, kinds[name]) for name in rows[0]])
                writer = stack.enter_context(pq.ParquetWriter(temporary, schema))
            writer.write_table(pa.Table.from_pylist(rows, writer.schema))

        yield add


# --- Pages -----------------------------------------------------------------------------------------------------------


class _Pages:
    """Collects what the pages show while the shards go by, and no more than that."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self._things = WORDS.get(str(plan.data.get("kind")), ("input", "inputs"))[1]
        self._every = -(-plan.n // MOST_SEEN)
        self._seen: list[Explanation] = []
        self._rows: list[str] = []
        self._inside: list[str] = []
        self._n = 0
        self._first: Explanation | None = None

    def add(self, e: Explanation) -> None:
        """Take a block of inputs."""
        self._first = self._first or e[0]
        if e.modality == "table":
            places = np.flatnonzero((self._n + np.arange(len(e))) % self._every == 0)
            self._seen += [e[places]] if len(places) else []
        anchors = [f"input-{self._n + i}" for i in range(len(e))]
        page = ""
        if self.plan.n <= MOST_INSIDE:
            self._inside.append(anchored(e, anchors))
        elif self._n < MOST_PAGED:
            page = f"pages/{self._n // self.plan.block:05}.html"
            self._write_page(page, e, anchors)
        linked = self.plan.n <= MOST_INSIDE or self._n < MOST_PAGED
        for i in range(min(len(e), MOST_LISTED - self._n)):
            self._rows.append(_row(e, i, f"{page}#{anchors[i]}" if linked else ""))
        self._n += len(e)

    def _write_page(self, name: str, e: Explanation, anchors: list[str]) -> None:
        path = self.folder / name
        if path.parent.is_symlink():
            raise InputError(f"Expected a folder of the run, got {path.parent}, a symbolic link; delete it")
        path.parent.mkdir(exist_ok=True)
        back = "<div class='fans'><p><a href='../index.html'>All inputs</a></p></div>"
        write(path, f"{HEAD}{POLICY}{STYLE}\n{back}{anchored(e, anchors)}{back}</html>\n")

    def finish(self, columns: Mapping[str, Any]) -> Path:
        """Write the first page and return it."""
        assert self._first is not None
        parts = [f"<h1>{escape(self.plan.title)}</h1>", *self._about(self._first)]
        parts += ["<p>" + escape(_summary(columns, self._first, self._things)) + "</p>"]
        parts += ["</div>", *self._overview(), "<div class='fans'>", "<h2>Each input</h2>", self._list(), "</div>"]
        content = "\n".join([HEAD + POLICY + STYLE + LOOK, "<div class='fans'>", *parts, *self._inside, "</html>\n"])
        return write(self.folder / "index.html", content)

    def _about(self, e: Explanation) -> list[str]:
        """Say what was asked."""
        plan, given = self.plan, self.plan.settings
        of = int(plan.data.get("inputs", plan.n))
        n = f"{self._n:,} of {of:,}" if of != self._n else f"{self._n:,}"
        facts = [f"{n} {self._things} explained", f"method {e.method}", f"effort {given.get('effort')}"]
        facts += [f"seed {e.seed}", f"fans {__version__}"]
        if self._n < plan.n:
            facts.insert(1, f"{plan.n - self._n:,} not done yet")
        return [f"<p class='facts'>{escape('; '.join(facts))}. {escape(plan.words)}</p>"]

    def _overview(self) -> list[str]:
        """Return the global view of a table's rows, at most so many of them, evenly spread."""
        if not self._seen or sum(map(len, self._seen)) < 2:
            return []
        places, start = list[list[int]](), 0
        for part in self._seen:
            places.append(list(range(start, start + len(part))))
            start += len(part)
        all_of_them = join(self._seen, places)
        note = f" (every {self._every}th row)" if self._every > 1 else ""
        return [f"<div class='fans'><h2>All rows together{note}</h2></div>", fragment(all_of_them.overview())]

    def _list(self) -> str:
        heads = ("input", "prediction", "keep", "change", "both", "subset")
        head = "".join(f"<th{' class=n' if name in heads[2:5] else ''}>{name}</th>" for name in heads)
        left = self._n - len(self._rows)
        where = "all of them are in the results beside this page, and <code>fans serve</code> shows each"
        rest = f"<p class='facts'>{left:,} more inputs are not listed here; {where}.</p>" if left else ""
        return f"<table class='list'><tr>{head}</tr>{''.join(self._rows)}</table>{rest}"


def _row(e: Explanation, i: int, link: str) -> str:
    """Return one line of the list."""
    name = escape(e.title(i))
    linked = f"<a href='{escape(link)}'>{name}</a>" if link else name
    names = e.chosen_names(i)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    chosen = escape(", ".join(names[:MOST_NAMES]) + more) or "nothing changes it"
    if e.presenter.together(e, i):  # pixels, of which none is worth a name
        chosen = escape(chosen_count(e, i))
    keep, change, both, between = keep_change_both(e, i) if names else ("", "", "", "")
    both = f"{both} {between}".strip()
    shares = "".join(f"<td class='n'>{escape(text)}</td>" for text in (keep, change, both))
    said = emphasise(escape(outcome(e, i)), [])
    return f"<tr><td>{linked}</td><td class='said'>{said}</td>{shares}<td>{chosen}</td></tr>"


def _summary(columns: Mapping[str, Any], e: Explanation, things: str) -> str:
    """Say in a sentence what was found over all inputs."""
    some = columns["size"] > 0
    sizes, pns = columns["size"][some], columns["pns"][some]
    if not len(sizes):
        return "No subset was found that changes any of the predictions."
    quarter, middle, most = (float(np.quantile(sizes, q)) for q in (0.25, 0.5, 0.75))
    half = normal_quantile(e.confidence) * float(np.nanstd(pns, ddof=1)) / len(pns) ** 0.5 if len(pns) > 1 else math.nan
    between = "" if math.isnan(half) else f" ± {half:.2f} ({percent(e.confidence)})"
    return (
        f"A subset that changes the prediction was found for {len(sizes):,} of {len(some):,} {things}; it has "
        f"{middle:.0f} {unit_word(e, round(middle))} in the median (half of them {quarter:.0f} to {most:.0f}), and a "
        f"mean PNS (both) of {float(np.nanmean(pns)):.2f}{between}."
    )
