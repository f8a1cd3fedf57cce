"""What a report has to say of one study, as plain values: claims of the paper beside what was found, tables, figures.

A study makes a `Section` of its records; whoever shows it (a terminal, files beside the records, one page for all
studies) needs nothing else.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fans.report.colours import FAINT, INK, LINES, coloured
from fans.report.figures import literal, new_figure, wrapped
from fans.report.tables import FEW, Entry, Table, number
from fans.types import Array

OURS = "#1c2733"
"""The colour of our own line."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, and what was found here.

    Attributes:
        says: the paper's claim, in a sentence.
        source: where in the paper it stands.
        found: what these records say of it, with N and interval, in a sentence.
        held: whether it holds here; None where these records cannot tell.
    """

    says: str
    source: str
    found: str
    held: bool | None

    @property
    def verdict(self) -> str:
        """The same in a word or two."""
        return {True: "holds here", False: "does not hold here", None: "not settled here"}[self.held]


@dataclass(frozen=True)
class Line:
    """A line of a figure.

    Attributes:
        name: in the legend.
        x, y: its points.
        low, high: ends of their 95 % intervals; empty where there are none.
        n: inputs of each point, of which `y` is the mean; 0 where it is none.
        ours: whether it stands out.
        dots: whether points are apart, not joined.
        labels: of points, e.g. a setting; empty where there are none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    n: Sequence[int] = ()
    ours: bool = False
    dots: bool = False
    labels: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, points: Mapping[float, Entry], *, ours: bool = False, dots: bool = False) -> "Line":
        """Return a line of entries by x, in the order of x."""
        found = sorted(points.items())
        entries = [entry for _, entry in found]
        interval = all(entry.n >= FEW for entry in entries)
        return cls(
            name,
            [float(x) for x, _ in found],
            [entry.value for entry in entries],
            [entry.low for entry in entries] if interval else (),
            [entry.high for entry in entries] if interval else (),
            [entry.n for entry in entries],
            ours=ours,
            dots=dots,
        )


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above it.
        x, y: what the axes are.
        lines: in it.
        log_x, log_y: whether an axis is logarithmic.
        marks: places on the x axis with a word each: defaults, the paper's choice.
        ticks: words at places of the x axis instead of numbers.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[float, str]] = ()
    ticks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Chart:
    """A figure of panels.

    Attributes:
        name: of its files.
        title: of the figure.
        panels: in order.
        columns: panels side by side.
        note: what a reader has to know.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 2
    note: str = ""

    @property
    def said(self) -> str:
        """The note, and what bands and bars are where it does not say so and there are any."""
        banded = any(len(line.low) for panel in self.panels for line in panel.lines)
        named = "95 %" in self.note or not banded
        return self.note if named else f"{self.note} Bands and bars: 95 % intervals over inputs.".lstrip()

    @property
    def names(self) -> list[str]:
        """Return the names of all lines, each once, ours last."""
        ours = {line.name: line.ours for panel in self.panels for line in panel.lines}
        return sorted(ours, key=lambda name: ours[name])

    def colours(self) -> dict[str, tuple[str, str]]:
        """Return the colour and the dash of each line, the same in all panels."""
        ours = {line.name for panel in self.panels for line in panel.lines if line.ours}
        others = [name for name in self.names if name not in ours]
        styles = [(colour, dash) for dash in ("-", "--", ":") for colour in LINES]
        found = {name: styles[i % len(styles)] for i, name in enumerate(others)}
        own = [(OURS, dash) for dash in ("-", "--", ":", "-.")]
        return found | {name: own[i % len(own)] for i, name in enumerate(n for n in self.names if n in ours)}

    def comma_separated(self) -> str:
        """Return every point as a line of CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["panel", "line", "x axis", "x", "y axis", "y", "low", "high", "n", "label"])
        for panel in self.panels:
            for line in panel.lines:
                for i, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
                    ends = (repr(float(line.low[i])), repr(float(line.high[i]))) if len(line.low) else ("", "")
                    about = (line.n[i] if len(line.n) else "", line.labels[i] if len(line.labels) else "")
                    writer.writerow(
                        [panel.title, line.name, panel.x, repr(float(x)), panel.y, repr(float(y)), *ends, *about]
                    )
        return out.getvalue()

    def drawn(self, kind: str) -> bytes:
        """Return the figure as a file of a kind: svg, pdf or png."""
        columns = min(self.columns, len(self.panels))
        rows = -(-len(self.panels) // columns)
        tall = max(3.0 * rows + 0.5, 0.22 * len(self.names) + 0.9)  # the legend stands beside the panels
        figure = new_figure("figures", (4.1 * columns + 2.3, tall))
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(self.panels) :]:
            axis.set_axis_off()
        colours, handles = self.colours(), {}
        for axis, panel in zip(axes, self.panels, strict=False):
            for line in panel.lines:
                colour, dash = colours[line.name]
                style = {"color": colour, "lw": 2.2 if line.ours else 1.3, "zorder": 3 if line.ours else 2}
                shape = "none" if line.dots else dash
                (handles[line.name],) = axis.plot(
                    line.x, line.y, ls=shape, marker="o" if line.dots else ".", ms=5, label=literal(line.name), **style
                )
                if len(line.low) and line.dots:
                    axis.vlines(line.x, line.low, line.high, color=colour, lw=1.2)
                elif len(line.low):
                    axis.fill_between(line.x, line.low, line.high, color=colour, alpha=0.12, lw=0)
            _finish(axis, panel)
        figure.legend(
            *([handles[name] for name in self.names], [literal(name) for name in self.names]),
            loc="outside right upper",
            frameon=False,
            fontsize=8,
        )
        figure.suptitle(literal(self.title), fontsize=10, color=INK, x=0.01, ha="left")
        if self.said:
            figure.supxlabel(wrapped(figure, self.said), fontsize=7, color=FAINT, x=0.01, ha="left")
        return _as_file(figure, kind)


def _finish(ax: Any, panel: Panel) -> None:
    """Set what is around the lines."""
    ax.set_title(literal(panel.title), fontsize=9, color=INK)
    ax.set_xlabel(literal(panel.x), fontsize=8.5, color=INK)
    ax.set_ylabel(literal(panel.y), fontsize=8.5, color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8, colors=FAINT)
    if panel.log_x:
        ax.set_xscale("log")
    if panel.log_y:
        ax.set_yscale("log")
    if panel.ticks:
        ax.set_xticks([at for at, _ in panel.ticks], [literal(word) for _, word in panel.ticks], fontsize=8)
    for at, word in panel.marks:
        ax.axvline(at, color=FAINT, lw=0.8, ls=":")
        style = {"fontsize": 7, "color": FAINT, "rotation": 90, "ha": "right", "va": "bottom", "zorder": 1}
        ax.annotate(literal(word), (at, 0.02), xycoords=("data", "axes fraction"), **style)


@dataclass(frozen=True)
class Gallery:
    """Pictures in rows and columns, on one colour scale.

    Attributes:
        name: of its files.
        title: of the figure.
        rows: what was explained.
        columns: what each picture beside it is, a method say.
        images: `(rows, H, W)` what was explained, grey from 0 (black) to 1.
        scores: `(rows, columns, H, W)` from -1 to 1, 1 the most that any picture reaches: one scale for all.
        note: what a reader has to know.
    """

    name: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    images: Array
    scores: Array
    note: str = ""

    def comma_separated(self) -> str:
        """Return every pixel as a line of CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["input", "picture", "row", "column", "value"])
        for i, row in enumerate(self.rows):
            for name, picture in zip(("input", *self.columns), (self.images[i], *self.scores[i]), strict=True):
                for (y, x), value in _pixels(picture):
                    writer.writerow([row, name, y, x, f"{value:.4g}"])
        return out.getvalue()

    def drawn(self, kind: str) -> bytes:
        """Return the figure as a file of a kind: svg, pdf or png."""
        n_columns = 1 + len(self.columns)
        figure = new_figure("figures", (0.95 * n_columns + 0.6, 1.0 * len(self.rows) + 0.9))
        axes = figure.subplots(len(self.rows), n_columns, squeeze=False)
        for i, row in enumerate(self.rows):
            pictures = [coloured(scores) for scores in self.scores[i]]
            for j, name in enumerate(("input", *self.columns)):
                axis = axes[i][j]
                if j:
                    axis.imshow(pictures[j - 1], interpolation="nearest")
                else:
                    axis.imshow(self.images[i], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                    axis.set_ylabel(literal(row), fontsize=7, color=INK)
                axis.set(xticks=[], yticks=[])
                axis.spines[:].set_color("#c6cfd8")
                if not i:
                    axis.set_title(literal(name), fontsize=7, color=INK)
        figure.suptitle(literal(self.title), fontsize=9, color=INK, x=0.01, ha="left")
        if self.note:
            figure.supxlabel(wrapped(figure, self.note), fontsize=7, color=FAINT, x=0.01, ha="left")
        return _as_file(figure, kind)


def _pixels(picture: Array) -> "list[tuple[tuple[int, int], float]]":
    """Return each pixel's row and column with its value."""
    height, width = picture.shape
    return [((y, x), float(picture[y, x])) for y in range(height) for x in range(width)]


def _as_file(figure: Any, kind: str) -> bytes:
    """Return a figure of matplotlib as a file, the same each time."""
    import matplotlib as mpl

    written = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "fans"}):  # names within the file are random otherwise
        figure.savefig(written, format=kind, dpi=130, metadata=undated.get(kind, {}))
    return written.getvalue()


def drawn_files(figure: Chart | Gallery) -> dict[str, bytes]:
    """Return a figure as files by name: vectors, pixels and numbers."""
    files = {f"{figure.name}.{kind}": figure.drawn(kind) for kind in ("svg", "pdf", "png")}
    return files | {f"{figure.name}.csv": figure.comma_separated().encode()}


@dataclass(frozen=True)
class Section:
    """All that is said of a study.

    Attributes:
        name: of the study.
        title: of the section.
        claims: of the paper, with what was found.
        summary: sentences that say what came out.
        tables, charts, galleries: of it.
        facts: what it was made by: seed, inputs, model rows, processor, versions, command; by name.
    """

    name: str
    title: str
    claims: Sequence[Claim] = ()
    summary: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    galleries: Sequence[Gallery] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> list[Chart | Gallery]:
        """Return its charts and galleries."""
        return [*self.charts, *self.galleries]


def stated(entry: Entry) -> str:
    """Return a mean with its interval and N, e.g. `0.612 [0.590, 0.634], N = 64`."""
    interval = f" [{number(entry.low)}, {number(entry.high)}]" if entry.n >= FEW else ""
    return f"{number(entry.value)}{interval}, N = {entry.n}"


BRACKETS = "In brackets: 95 % intervals over inputs."


def brackets(section: Section) -> str:
    """Return what brackets are where the sentences of a section have any."""
    said = [*(claim.found for claim in section.claims), *section.summary]
    return BRACKETS if any(" [" in sentence for sentence in said) else ""


def section_text(section: Section) -> str:
    """Return what a section says, for a terminal."""
    lines = [section.title, ""]
    lines += [f"The paper ({c.source}): {c.says}\n  {c.verdict}: {c.found}" for c in section.claims]
    lines += ["", *section.summary] if section.summary else []
    lines += ["", brackets(section)] if brackets(section) else []
    return "\n".join(lines) + "\n"
