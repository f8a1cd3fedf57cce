"""Sections made up by hand: a table with names that are HTML, every form of chart, pictures, every verdict."""

import numpy as np

from fans.report.sections import Chart, Claim, Gallery, Line, Panel, Section
from fans.report.tables import Entry, Heading, Table, entry

EVIL = "</script><script>document.title = 'taken'</script>"


def table() -> Table:
    """Five methods of two groups, one folded, on two datasets."""
    rows = [
        ("Plain", "rivals"),
        (EVIL, "rivals"),
        ("Steady", "rivals"),
        ("Plain, our units", "our units"),
        ("FANS", "FANS"),
    ]
    entries = {
        (row, dataset, column): entry(np.array([10.0, 11, 12, 13, 14]) * (i + 1) + k)
        for i, (row, _) in enumerate(rows)
        for dataset in ("Digits", "Letters")
        for k, column in enumerate(("IR", "INF", "SPA"))
        if (row, column) != ("Steady", "IR")
    }
    entries["Plain", "Digits", "SPA"] = Entry(float("nan"), 0.0, 1.0, 5)
    return Table(
        "A table of <methods>",
        ["Digits", "Letters"],
        [Heading("IR", True, "what it is"), Heading("INF", False), Heading("SPA", True)],
        rows,
        entries,
        {("Plain", "Digits", "IR"): 61.0, ("FANS", "Digits", "INF"): 1.7e4},
        ["a note"],
        folded=["our units"],
        own=["FANS"],
    )


def section() -> Section:
    """All that a section can have."""
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    powers = [[at**k for at in x] for k in range(6)]
    many = [Line(f"rival {k}", x, y, [0.9 * v for v in y], [1.1 * v for v in y], [9] * 6) for k, y in enumerate(powers)]
    parts = Line("FANS", [0, 1], [3.0, float("nan")], [2.0, 0.0], [4.0, 1.0], ours=True, dots=True)
    times = Line("a", [1e1, 1e4], [1e-3, 1e2], labels=["x", "y"])
    two = [Line(EVIL, x, x), Line("FANS", x, [2 * at for at in x], ours=True)]
    panels = [
        Panel("Powers", "steps", "value", [*many, Line("FANS", x, [3 * at for at in x], ours=True)], log_y=True),
        Panel("Few", "steps", "value", two, marks=[(2.5, "here")]),
        Panel("Words", "without", "value", [parts], ticks=[(0, "all"), (1, "none")]),
    ]
    charts = [
        Chart("grown", "How it grows", panels, note="Made up."),
        Chart("times", "Times", [Panel("CIFAR10", "rows", "s", [times], log_x=True, log_y=True)]),
    ]
    scores = np.linspace(-1, 1, 32).reshape(1, 2, 4, 4)
    pictures = Gallery("maps", "Maps", ["a 7"], ["FANS", EVIL], np.ones((1, 4, 4)), scores)
    claims = [
        Claim("It grows.", "Section 5", "it does; by 2 [1, 3], N = 9", held=True),
        Claim(f"It falls {EVIL}.", "Section 5", "it does not", held=False),
        Claim("It stays.", "Section 6", "nobody knows", held=None),
    ]
    facts = {"Seed": "0", "Command": "fans run made-up"}
    return Section("made up", "Made up", claims, ["All <is> said."], [table()], charts, [pictures], facts)
