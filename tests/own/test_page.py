"""`docs/explain.md`: its commands and its snippets, as printed."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fans import cli

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}[^\n]*\n(.*?)```", PAGE, flags=re.S)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The reader's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    return tmp_path


def test_from_a_csv_and_xgboost_to_a_page_and_on_in_python(here, capsys):
    xgboost = pytest.importorskip("xgboost")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["age", "dose", "weight"])
    label = (frame["age"] > frame["dose"]).astype(int)
    xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(frame, label).save_model("model.json")
    frame.assign(patient=[f"p{i}" for i in range(40)], diagnosis=label).to_csv("patients.csv", index=False)
    install, command = blocks("sh")[0].strip().splitlines()
    assert install.startswith("pip install 'fans[explain]'")
    assert cli.main(command.split()[1:]) == 0
    said = capsys.readouterr().out
    assert "Left out, as the model does not know them: diagnosis." in said
    assert (here / "run" / "index.html").is_file()
    assert len((here / "run" / "results.csv").read_text().splitlines()) == 41
    known: dict[str, object] = {}
    exec(blocks("python")[2], known)  # noqa: S102 - our own page
    assert known["explainer"] is not None
    assert "p17" in capsys.readouterr().out


def test_a_function_that_makes_a_model(here, capsys):
    torch.save(torch.nn.Linear(4, 2).state_dict(), "weights.pt")
    np.savetxt("rows.csv", np.random.default_rng(0).normal(size=(60, 4)), delimiter=",", header="a,b,c,d", comments="")
    (here / "mine.py").write_text(blocks("python")[0])
    (command,) = blocks("sh")[1].strip().splitlines()
    assert cli.main([*command.split()[1:], "--limit", "2"]) == 0
    assert "2 of 60 rows; outputs: 0, 1" in capsys.readouterr().out


def test_a_graph(here):
    exec(blocks("python")[1], {})  # noqa: S102
    from fans.own.data import Reading, open_data
    from fans.own.wants import Wants

    assert open_data(here / "graph.npz", Reading(), Wants()).ids([0, 1]) == [0, 2]


def test_every_option_is_on_the_page(capsys):
    with pytest.raises(SystemExit):
        cli.main(["explain", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert not [option for option in options if f"`{option}" not in PAGE]
