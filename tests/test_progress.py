"""Long work says how far it is, and what it will cost."""

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import fans
from tests.planted import BACKGROUND, INPUTS, network, rule


def test_progress_reports_every_block():
    seen = []
    fans.Explainer(rule, BACKGROUND, max_batch=150)(INPUTS, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (9, 9)
    assert len(seen) > 1
    assert all(total == 9 for _, total in seen)


@pytest.mark.parametrize("effort", ["low", "normal", "high"])
def test_what_an_input_costs_is_told_beforehand(effort):
    for model, solver in ((rule, "auto"), (rule, "game"), (network(), "auto")):
        explainer = fans.Explainer(model, BACKGROUND, effort=effort, solver=solver)
        expected, found = explainer.rows_an_input, explainer(INPUTS)
        spent = np.sum([rows for phase, rows in found.evaluations.items() if phase != "shared"], axis=0)
        if found.settings["solver"] == "walks":  # fewer where the subset is settled early
            assert spent.max() <= expected
        else:
            assert spent.mean() / 1.3 < expected < 1.4 * spent.mean()


def test_the_bar_moves_within_one_input(monkeypatch):
    paper = io.StringIO()
    drawn = Console(file=paper, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda **_: drawn)
    shares = []
    update = Progress.update

    def watched(bar: Progress, task: Any, **how: Any) -> None:
        update(bar, task, **how)
        shares.append(bar.tasks[0].percentage)

    monkeypatch.setattr(Progress, "update", watched)
    explainer = fans.Explainer(network(), BACKGROUND, max_batch=16)
    explainer(INPUTS[:1], progress=True)
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert sum(20 < share < 80 for share in shares) > 10
    assert "explaining 1 input, about 1,826 model rows" in paper.getvalue()
    n_shares = len(shares)
    explainer.score(INPUTS[:1], [True] * 3 + [False] * 3)
    assert len(shares) == n_shares  # the bar is gone
