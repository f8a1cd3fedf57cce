"""Bad input on the command line: exit code 2, one sentence, and no folder that stands in the way of the next try."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from fans import cli
from tests.own import made


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with good models and data, in which some go bad."""
    from sklearn.linear_model import LogisticRegression
    from skops import io

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    made.write_module(tmp_path)
    made.write_table(tmp_path)
    made.write_pictures(tmp_path)
    frame = made.table()
    io.dump(LogisticRegression().fit(frame[list(made.COLUMNS)], frame["label"]), "model.skops")
    return tmp_path


def change(row, column, value):
    def changed():
        frame = made.table().astype({"age": object} if isinstance(value, str) else {})
        frame.loc[row, column] = value
        frame.to_csv("rows.csv", index=False)

    return changed


def onnx(side):
    def written():
        pytest.importorskip("onnx")
        made.onnx_pictures(Path("model.onnx"))
        Image.fromarray(np.zeros((side, side), np.uint8)).resize((side, side)).save("pictures/a.png")

    return written


def script():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 2)), torch.rand(2, 1, 3, 3)).save(
            "n.pt"
        )


def doubled_ids():
    pd.concat([made.table()] * 2).to_csv("rows.csv", index=False)


def add(path, text):
    def added():
        with open(path, "a") as file:
            file.write(text)

    return added


def emptied():
    (Path("rows.csv")).write_text("")


def nothing():
    """Change nothing: it is the command that is wrong."""


TABLE = ["model.skops", "rows.csv"]

CASES: dict[str, tuple[Callable[[], None], list[str], str]] = {
    "a line too long": (
        add("rows.csv", "1,2,3,4,5,6,7\n"),
        TABLE,
        "in line 92",
    ),
    "an empty file": (emptied, TABLE, "an empty file"),
    "a column gone": (
        nothing,
        [*TABLE, "--drop", "weight"],
        "got no 'weight'; do not --drop it",
    ),
    "a word among numbers": (change(70, "age", "old"), TABLE, "age|old|numbers"),
    "a missing value late": (change(3, "age", np.nan), [*TABLE, "--limit", "5"], "missing"),
    "infinity": (change(3, "age", np.inf), TABLE, "finite"),
    "ids twice": (doubled_ids, [*TABLE, "--ids", "name"], "got 'patient 0' 2 times"),
    "no such class": (nothing, [*TABLE, "--target", "dead"], "--target"),
    "a column as class": (nothing, [*TABLE, "--target", "label"], "--drop label"),
    "no inputs": (nothing, [*TABLE, "--limit", "0"], "--limit"),
    "no such method": (nothing, [*TABLE, "--method", "fan"], "did you mean 'fans'"),
    "too few names": (nothing, [*TABLE, "--classes", "a"], "target_names"),
    "no processes": (nothing, [*TABLE, "--workers", "0"], "workers"),
    "other background": (
        nothing,
        [*TABLE, "--background", "pictures"],
        "got image; name another",
    ),
    "a picture that is none": (add("pictures/x.png", "x"), ["mine:praised", "pictures"], "x.png"),
    "a network of another shape": (onnx(9), ["model.onnx", "pictures"], "of 8 x 8 pixels"),
    "columns for a network of pictures": (onnx(8), ["model.onnx", "rows.csv", "--drop", "name", "label"], "Expected"),
    "a script of another shape": (script, ["n.pt", "pictures"], "Expected a module that takes inputs of shape"),
    "pictures for columns": (nothing, ["model.skops", "pictures"], "Expected"),
    "no module": (nothing, ["min:praised", "rows.csv"], "Expected a module 'min'"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_and_exit_code_two(here, capsys, name):
    prepare, words, match = CASES[name]
    prepare()
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", *words, "--out", "run", "--effort", "low"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("fans: Expected ")
    assert said.count("\n") == 1
    assert len(said) < 900
    assert match in said or any(word in said for word in match.split("|"))
    assert not (here / "run").exists()


@pytest.mark.parametrize("size", ["0x8", "8", "8x8x8", "-1x3", "999999x9"])
def test_sizes_that_are_none(here, capsys, size):
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", "mine:praised", "pictures", "--out", "run", f"--size={size}"])
    assert caught.value.code == 2
    assert "Expected HxW" in capsys.readouterr().err
    assert not (here / "run").exists()


def test_a_run_folder_that_cannot_be_one(here, capsys):
    (here / "run").write_text("a file")
    code: object = None
    try:
        code = cli.main(["explain", "model.skops", "rows.csv", "--out", "run", "--limit", "1", "--effort", "low"])
    except SystemExit as stopped:
        code = stopped.code
    assert code in (1, 2)
    assert capsys.readouterr().err.startswith("fans: ")
    assert (here / "run").read_text() == "a file"
