"""An overview as HTML: the notebook view, and one self-contained page."""

from html import escape
from pathlib import Path

from fans.files import write
from fans.report.html import HEAD, STYLE, emphasise, table
from fans.report.overview import Overview, Section, bracketed, legend, share_text, units
from fans.report.scenes import svg
from fans.report.sentences import number
from fans.report.swarms import picture


def fragment(found: Overview, top: int = 10) -> str:
    """Return an overview as HTML to embed: its sentences, and of each section the picture and the tables."""
    names = found.explanation.feature_names
    parts = [f"<p>{emphasise(escape(line), names)}</p>" for line in str(found).splitlines()]
    parts.append(f"<p class='facts'>{escape(legend(found.explanation))}</p>")
    if len(found.sections) > 1:
        parts.append(_side_by_side(found))
    parts += [_section(found, section, top) for section in found.sections]
    return STYLE + "\n".join(["<div class='fans' style='max-width: 66rem'>", *parts, "</div>\n"])


def page(found: Overview, path: str | Path, top: int = 10) -> Path:
    """Write an overview to one HTML file that needs nothing else."""
    return write(path, f"{HEAD}{fragment(found, top)}</html>\n")


def _section(found: Overview, section: Section, top: int) -> str:
    """Return the picture of a section and its tables."""
    column, columns = units(found.explanation, 1)[1], units(found.explanation, 2)[1]
    heads = (column, "in the subset of", "mean score", f"moves {section.output} by", "rank correlation", "its values")
    moved = "{:z.3f}".format if found.explanation.kind == "probability" else number
    rows = [
        (
            *(c.name, share_text(c.chosen), bracketed(c.score, moved), bracketed(c.size, moved)),
            *(bracketed(c.trend, "{:z.2f}".format), c.words),
        )
        for c in section.columns
    ]
    levels = [
        (c.name, level.name, level.span, f"{level.n:,}", bracketed(level.raised, moved))
        for c in section.columns
        for level in c.levels
    ]
    by_value = table((column, "values", "from, to", "rows", f"raise {section.output} by"), levels, (3, 4))
    drawn = svg(picture(found, top, section), f"{section.output}: the leading {columns}")
    by_column = table(heads, rows, range(1, 5))
    return f"<figure>{drawn}</figure>{by_column}<details><summary>By value</summary>{by_value}</details>"


def _side_by_side(found: Overview) -> str:
    """Return the shares of rows whose subset has a column, a class beside the other."""
    heads = ("in the subset of", *(section.output for section in found.sections))
    shares = [{c.feature: c.chosen for c in section.columns} for section in found.sections]
    order = sorted(shares[0], key=lambda f: -max(share[f].value for share in shares))
    names = found.explanation.feature_names
    return table(heads, [(names[f], *(share_text(share[f]) for share in shares)) for f in order], range(1, len(heads)))
