"""The folder of a run, read lazily; whoever made it, nothing in it runs and nothing outside is reached by its names."""

import json
import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fans
from fans.errors import InputError
from fans.own import Results, store
from fans.own.store import Plan


def explainer():
    rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
    return fans.Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, effort="low"), rows


@pytest.fixture(scope="module")
def whole():
    made, rows = explainer()
    return made(rows[:10], ids=[f"row {i}" for i in range(10)])


PLAN = Plan("a model on rows", 10, 4, {"kind": "table"}, {}, {}, {}, {}, "The background.")


@pytest.fixture
def folder(tmp_path, whole):
    """A run of ten rows in three shards."""
    place = tmp_path / "run"
    (place / "shards").mkdir(parents=True)
    write_plan(place, PLAN)
    for number in range(3):
        at = PLAN.inputs(number)
        whole[at.start : at.stop].save(place / "shards" / store.shard_name(number))
    return place


def noted(monkeypatch):
    """Note which shards are read."""
    read, own = list[int](), store.read_shard

    def reading(folder, plan, number):
        read.append(number)
        return own(folder, plan, number)

    monkeypatch.setattr(store, "read_shard", reading)
    return read


def write_plan(place, plan):
    (place / "plan.json").write_text(json.dumps({"plan": plan.encoded(), "cells": []}))


def test_every_input_is_where_it_was(folder, whole):
    results = Results(folder)
    assert len(results) == 10
    assert results.title == "a model on rows"
    for i in (0, 3, 4, 9, -1):
        assert results.explanation(i).ids == whole[i].ids
        np.testing.assert_array_equal(results.explanation(i).scores, whole[i].scores)
    for i in (10, -11):
        with pytest.raises(IndexError, match="Expected an index below 10"):
            results.explanation(i)


def test_columns_are_those_of_the_explanations(folder, whole):
    columns = Results(folder).columns()
    assert columns["id"].tolist() == list(whole.ids)
    np.testing.assert_array_equal(columns["pns"], whole.pns)
    np.testing.assert_array_equal(columns["keep"], whole.holds)
    np.testing.assert_array_equal(columns["change"], whole.changes)
    np.testing.assert_array_equal(columns["prediction"], whole.prediction)
    np.testing.assert_array_equal(columns["intervals"][:, 0], whole.interval[:, 0])
    np.testing.assert_array_equal(columns["intervals"][:, 1], whole.share_interval[:, 1])
    np.testing.assert_array_equal(columns["intervals"][:, 2], whole.share_interval[:, 0])
    np.testing.assert_array_equal(columns["size"], whole.subset.sum(1))
    np.testing.assert_array_equal(np.unpackbits(columns["subset"], axis=1, count=3).astype(bool), whole.subset)
    assert columns["top"].tolist() == [", ".join(whole.chosen_names(i)) for i in range(10)]


def test_the_index_spares_the_shards_and_is_made_anew_where_it_is_of_others(folder, monkeypatch):
    columns = Results(folder).columns()
    store.write_index(folder, store.shards_there(folder, PLAN), columns)
    read = noted(monkeypatch)
    again = Results(folder).columns()
    assert read == [0]
    for name, column in columns.items():
        np.testing.assert_array_equal(again[name], column)
    (folder / "shards" / store.shard_name(2)).unlink()
    fewer = Results(folder)
    assert len(fewer) == len(fewer.columns()["pns"]) == 8


def test_only_a_few_shards_are_in_memory(tmp_path, whole, monkeypatch):
    plan = replace(PLAN, n=100, block=1)
    (tmp_path / "shards").mkdir()
    write_plan(tmp_path, plan)
    for number in range(100):
        whole[number % 10].save(tmp_path / "shards" / store.shard_name(number))
    results = Results(tmp_path)
    read = noted(monkeypatch)
    for _ in range(3):
        results.explanation(5)
    assert read == [5]
    for i in range(100):
        results.explanation(i)
    results.explanation(5)
    assert read.count(5) == 2


def test_what_is_done_so_far_can_be_read(folder):
    (folder / "shards" / store.shard_name(1)).unlink()
    results = Results(folder)
    assert len(results) == 6
    assert results.explanation(4).ids == ("row 8",)
    shutil.rmtree(folder / "shards")
    with pytest.raises(InputError, match="got none yet; give the command of the run again"):
        Results(folder)


def test_files_of_other_names_and_links_are_left_alone(folder, tmp_path, whole):
    shards = folder / "shards"
    outside = whole[:4].save(tmp_path / "secret.safetensors")
    for name in ("..%2f00000.safetensors", "00009.safetensors", "0000.safetensors", "000000.safetensors", "x.py"):
        shutil.copy(outside, shards / name)
    assert store.shards_there(folder, PLAN).keys() == {0, 1, 2}
    (shards / store.shard_name(1)).unlink()
    (shards / store.shard_name(1)).symlink_to(outside)
    assert store.shards_there(folder, PLAN).keys() == {0, 2}
    with pytest.raises(InputError, match="a symbolic link"):
        store.read_shard(folder, PLAN, 1)
    (folder / "curves").symlink_to(tmp_path)
    shutil.copy(outside, tmp_path / store.shard_name(0))
    with pytest.raises(InputError, match="a symbolic link"):
        Results(folder).curve(0)
    moved = folder.with_name("moved")
    shards.rename(moved)
    shards.symlink_to(moved)
    with pytest.raises(InputError, match="got none yet"):
        Results(folder)


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "index.safetensors")
    assert len(Results(folder).columns()["pns"]) == 10
    (folder / "plan.json").unlink()
    os.mkfifo(folder / "plan.json")
    with pytest.raises(InputError, match="no regular file"):
        Results(folder)


HEADERS = {
    "huge": struct.pack("<Q", 2**40) + b"{}",
    "beyond the file": struct.pack("<Q", 5000) + b"{}",
    "no JSON": struct.pack("<Q", 2) + b"{,",
    "nothing": b"",
    "text": b"<script>alert(1)</script>",
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers(folder, name):
    for number in (0, 1):
        (folder / "shards" / store.shard_name(number)).write_bytes(HEADERS[name])
    with pytest.raises(InputError, match=r"^Expected ") as caught:
        Results(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    (folder / "index.safetensors").write_bytes(HEADERS[name])
    shutil.rmtree(folder / "shards")


def broken(whole, **changed):
    found = replace(whole[:4])
    for name, value in changed.items():
        object.__setattr__(found, name, value)
    return found


LIES: dict[str, Any] = {
    "a target without a name": lambda _: {"target": np.full(4, 7)},
    "elements of no feature": lambda _: {"elements": np.full(3, 9)},
    "ids that are lists": lambda _: {"ids": ([1], [2], [3], [4])},
    "names that are numbers": lambda _: {"feature_names": (1, 2, 3)},
    "a subset of numbers": lambda _: {"subset": np.ones((4, 3))},
    "too few intervals": lambda e: {"interval": e.interval[:2]},
    "other inputs": lambda e: {"inputs": e.inputs[:2]},
    "evaluations of others": lambda _: {"evaluations": {"shared": np.array(1), "scoring": np.zeros(2)}},
}


@pytest.mark.parametrize("name", LIES)
def test_shards_that_do_not_hold_together(folder, whole, name):
    e = whole[:4]
    broken(e, **LIES[name](e)).save(folder / "shards" / store.shard_name(0))
    with pytest.raises(InputError, match=r"^Expected "):
        Results(folder)


def test_a_shard_of_another_length(folder, whole):
    whole[:3].save(folder / "shards" / store.shard_name(0))
    with pytest.raises(InputError, match="3 inputs instead of 4"):
        Results(folder)


def test_an_index_that_lies_is_not_believed(folder):
    columns = Results(folder).columns()
    shards = store.shards_there(folder, PLAN)
    short = {name: column[:5] for name, column in columns.items()}
    store.write_index(folder, shards, short)
    assert len(Results(folder).columns()["pns"]) == 10
    flat = dict(columns) | {"pns": np.zeros((10, 3))}
    store.write_index(folder, shards, flat)
    np.testing.assert_array_equal(Results(folder).columns()["pns"], columns["pns"])


PLANS = {
    "no JSON": "{",
    "another kind": json.dumps({"plan": PLAN.encoded() | {"kind": "table"}}),
    "a list": "[]",
    "no inputs": json.dumps({"plan": PLAN.encoded() | {"n": 0}}),
    "inputs that are words": json.dumps({"plan": PLAN.encoded() | {"block": "many"}}),
    "more inputs than there can be": json.dumps({"plan": PLAN.encoded() | {"n": 10**30}}),
    "a title that is a list": json.dumps({"plan": PLAN.encoded() | {"title": []}}),
    "nested": "[" * 100_000,
}


@pytest.mark.parametrize("name", PLANS)
def test_hostile_plans(folder, name):
    (folder / "plan.json").write_text(PLANS[name])
    with pytest.raises(InputError, match=r"^Expected the plan of a run of `fans explain`"):
        Results(folder)


def test_no_run(tmp_path):
    with pytest.raises(InputError, match="Expected a run of `fans explain` in"):
        Results(tmp_path)


# --- The explainer ---------------------------------------------------------------------------------------------------


@pytest.fixture
def own_run(tmp_path, monkeypatch):
    """A run of a booster, whose format holds nothing that runs; its data may move along with it."""
    xgboost = pytest.importorskip("xgboost")
    from fans.own import Asked, Reading, explain
    from tests.own import made

    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    made.write_table(place)
    frame = made.table()
    x, y = frame[list(made.COLUMNS)], (frame["label"] == "ill").astype(int)
    xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(x, y).save_model("model.json")
    asked = Asked("model.json", Path("rows.csv"), limit=3, effort="low", reading=Reading(ids="name"))
    explain(asked, place / "run", formats=[])
    return place


def test_the_explainer_is_made_anew_and_agrees(own_run):
    results = Results(own_run / "run")
    made, e = results.explainer(), results.explanation(1)
    assert made is not None
    assert results.explainer() is made
    again = made(made.inputs_of(e), ids=e.ids)
    np.testing.assert_array_equal(again.scores, e.scores)
    np.testing.assert_array_equal(again.pns, e.pns)


def test_a_run_that_was_moved_with_its_files_still_has_its_explainer(own_run):
    moved = own_run.rename(own_run.with_name("there"))
    assert Results(moved / "run").explainer() is not None
    (moved / "rows.csv").unlink()
    results = Results(moved / "run")
    assert results.explainer() is None
    assert "got nothing there; put it back" in results.why_no_explainer


@pytest.mark.parametrize("name", ["rows.csv", "model.json"])
def test_files_that_have_changed_since_are_not_used(own_run, name):
    with (own_run / name).open("a") as file:
        file.write("\n")
    results = Results(own_run / "run")
    assert results.explainer() is None
    assert "which is another or has changed since" in results.why_no_explainer
    assert results.curve(0) is None
    assert results.explanation(0).ids == ("patient 0",)


@pytest.mark.parametrize("model", ["evil:model", "evil.pkl", "evil.pt", "evil.pt2", "evil.joblib", "evil", "evil.so"])
def test_a_run_s_folder_names_nothing_that_runs(own_run, model, monkeypatch):
    """Nobody imports or unpickles anything because a folder says so."""
    went_off = own_run / "went off"
    (own_run / "evil.py").write_text(f"import os\nos.mkdir({str(went_off)!r})\nmodel = None\n")
    monkeypatch.syspath_prepend(own_run)
    path = own_run / "run" / "plan.json"
    plan = json.loads(path.read_text())
    plan["plan"]["paths"]["model"] = model
    path.write_text(json.dumps(plan))
    results = Results(own_run / "run")
    assert results.explainer() is None
    assert "named again (--model)" in results.why_no_explainer
    assert not went_off.exists()


def test_a_plan_cannot_have_other_files_read_as_data(own_run):
    """A file that the plan names must have the checksum that the plan has; its content shows up nowhere."""
    secret = own_run / "secret.csv"
    secret.write_text("password\nhunter2\n")
    path = own_run / "run" / "plan.json"
    plan = json.loads(path.read_text())
    plan["plan"]["paths"]["data"] = str(secret)
    path.write_text(json.dumps(plan))
    results = Results(own_run / "run")
    assert results.explainer() is None
    assert "hunter2" not in results.why_no_explainer
    assert "password" not in results.why_no_explainer


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {}},
        {"settings": {"classes": 1}},
        {"paths": {}},
        {"data": {}},
        {"settings": {"method": "x", "classes": []}},
    ],
)
def test_plans_that_say_nothing_of_use_leave_the_explanations(own_run, changed):
    path = own_run / "run" / "plan.json"
    plan = json.loads(path.read_text())
    plan["plan"] |= changed
    path.write_text(json.dumps(plan))
    results = Results(own_run / "run")
    assert results.explainer() is None
    assert results.why_no_explainer.startswith("Expected ")
    assert len(results) == 3
