"""`fans explain` on a user's own work, from the command line to the files that it leaves."""

import csv
import os
import signal
import subprocess
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import fans
from fans import own
from fans.errors import InputError
from fans.own.models import OnnxNetwork
from tests.own import made

pytestmark = pytest.mark.long("starts processes, which load torch and a model each")

EXACT = ("scores", "subset", "pns", "changes", "holds", "interval", "share_interval", "prediction", "tolerance")


def agree(results, expected):
    """The run's figures are those that the library gives when it is called by hand."""
    assert len(results) == len(expected)
    for i in range(len(expected)):
        found = results.explanation(i)
        assert found.ids == expected.ids[i : i + 1]
        for name in EXACT:
            np.testing.assert_array_equal(getattr(found, name)[0], getattr(expected, name)[i], err_msg=name)


def explained(folder, *words, n):
    """Run `fans explain` and return its results, after a look at what it said and wrote."""
    done = made.run(folder, *words, "--out", "run", "--format", "csv", "json", "parquet", "html")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    said = done.stdout
    if n > 4:  # priced first
        assert said.index("from 4 tried") < said.index("cells are done")
    results = own.Results(folder / "run")
    rows = list(csv.DictReader((folder / "run" / "results.csv").read_text().splitlines()))
    listed, packed = made.listed(folder / "run" / "results.json"), pd.read_parquet(folder / "run" / "results.parquet")
    assert len(rows) == len(listed) == len(packed) == len(results) == n
    for i in range(n):
        e = results.explanation(i)
        assert listed[i]["id"] == e.ids[0]
        assert listed[i]["pns"] == packed["pns"][i] == pytest.approx(float(e.pns[0]), abs=0)
        assert [listed[i]["keep"], listed[i]["change"]] == [float(e.holds[0]), float(e.changes[0])]
        assert listed[i]["keep_low"] == e.share_interval[0, 1, 0]
        assert listed[i]["change_high"] == e.share_interval[0, 0, 1]
        assert float(rows[i]["pns"]) == pytest.approx(float(e.pns[0]), rel=1e-5, abs=1e-12)
        assert listed[i]["chosen"] == list(packed["chosen"][i]) == e.chosen_names(0)
        assert rows[i]["sentence"] == listed[i]["sentence"] == e.sentences[0].replace("*", "")
        assert [f["name"] for f in listed[i]["features"]] == [f["name"] for f in packed["features"][i]]
    assert (folder / "run" / "index.html").read_text().count("<tr><td>") >= n
    return results


def test_a_csv_and_xgboost(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rows = made.write_table(tmp_path)
    frame = pd.read_csv(rows)
    x, y = frame[list(made.COLUMNS)], (frame["label"] == "ill").astype(int)
    xgboost.XGBClassifier(n_estimators=5, max_depth=2).fit(x, y).save_model(tmp_path / "model.json")
    words = ("model.json", "rows.csv", "--ids", "name", "--limit", 9, "--classes", "well", "ill", "--target", "ill")
    results = explained(tmp_path, *words, n=9)
    model = xgboost.Booster(model_file=tmp_path / "model.json")
    explainer = fans.Explainer(model, x.iloc[9:], target_names=["well", "ill"])
    agree(results, explainer(x.iloc[:9], target="ill", ids=list(frame["name"][:9])))
    assert results.feature_names == made.COLUMNS
    again = results.explainer()
    assert again is not None
    e = results.explanation(3)
    curve = results.curve(3)
    assert curve is not None
    np.testing.assert_array_equal(curve.pns, explainer.curve(e).pns)


def test_parquet_and_skops(tmp_path):
    skops = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    made.write_table(tmp_path)
    frame = made.table()
    x = frame[list(made.COLUMNS)]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, frame["label"])
    skops.dump(model, tmp_path / "model.skops")
    results = explained(tmp_path, "model.skops", "rows.parquet", "--limit", 5, n=5)
    agree(results, fans.Explainer(model, x.iloc[5:])(x.iloc[:5]))
    assert results.target_names == ("ill", "well")


def test_lightgbm_whose_file_has_no_blanks_in_names(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    made.write_table(tmp_path)
    frame = made.table()
    x, y = frame[list(made.COLUMNS)], (frame["label"] == "ill").astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=5, verbose=-1).fit(x, y)
    model.booster_.save_model(tmp_path / "model.txt")
    results = explained(tmp_path, "model.txt", "rows.csv", "--limit", 5, n=5)
    agree(results, fans.Explainer(model.booster_, x.iloc[5:])(x.iloc[:5]))


def test_a_table_and_onnx(tmp_path):
    pytest.importorskip("onnx")
    made.write_table(tmp_path)
    made.onnx_table(tmp_path / "model.onnx")
    results = explained(tmp_path, "model.onnx", "rows.csv", "--drop", "name", "label", "--limit", 5, n=5)
    x = made.table()[list(made.COLUMNS)].to_numpy()

    class ByHand:
        classes_ = ("ill", "well")  # as ZipMap sorts them

        def predict_proba(self, rows):
            p = 1 / (1 + np.exp(-4 * (np.asarray(rows)[:, 0] - np.asarray(rows)[:, 2])))
            return np.stack([p, 1 - p], 1)

    expected = fans.Explainer(ByHand(), x[5:], feature_names=list(made.COLUMNS))(x[:5])
    assert results.target_names == ("ill", "well")
    for i in range(5):
        found = results.explanation(i)
        assert (found.subset[0] == expected.subset[i]).all()
        np.testing.assert_allclose(found.pns[0], expected.pns[i], atol=0.02)
        np.testing.assert_allclose(found.prediction[0], expected.prediction[i], atol=1e-5)


@pytest.fixture
def pictures(tmp_path):
    """Pictures in files, and as arrays: what is explained, and the background."""
    place = made.write_pictures(tmp_path)
    x = made.pictures()[:, None].astype(np.float32) / np.float32(255)
    return place, x[:3], x


def ids(n):
    return [f"{i:02}.png" for i in range(n)]


@pytest.mark.parametrize("form", ["torchscript", "exported", "exported for batches of two"])
def test_pictures_and_torch(tmp_path, pictures, form):
    _, x, background = pictures
    model = made.Bright().eval()
    if form == "torchscript":
        name = "net.pt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.jit.script(model).save(str(tmp_path / name))
    else:
        name, free = "net.pt2", ({0: torch.export.Dim("batch")},) if form == "exported" else None
        torch.export.save(torch.export.export(model, (torch.rand(2, 1, 8, 8),), dynamic_shapes=free), tmp_path / name)
    results = explained(tmp_path, name, "pictures", "--limit", 3, "--effort", "low", n=3)
    expected = fans.Explainer(model, background, effort="low")(x, ids=ids(3))
    for i in range(3):
        found = results.explanation(i)
        assert found.ids == expected.ids[i : i + 1]
        np.testing.assert_allclose(found.prediction[0], expected.prediction[i], rtol=1e-6)
        np.testing.assert_allclose(found.scores[0], expected.scores[i], atol=1e-4)
        np.testing.assert_allclose(found.pns[0], expected.pns[i], atol=0.05)
    assert results.explainer() is None
    assert "named again" in results.why_no_explainer
    assert own.Results(tmp_path / "run", model=str(tmp_path / name)).explainer() is not None


@pytest.mark.parametrize("batch", [None, 5])
def test_pictures_and_onnx(tmp_path, pictures, batch):
    pytest.importorskip("onnx")
    _, x, background = pictures
    made.onnx_pictures(tmp_path / "net.onnx", batch)
    results = explained(tmp_path, "net.onnx", "pictures", "--limit", 3, "--effort", "low", n=3)
    model = made.Bright().eval()

    class NoGradients(torch.nn.Module):
        def forward(self, rows):
            return torch.from_numpy(model(rows.detach()).detach().numpy())

    expected = fans.Explainer(NoGradients(), background, effort="low")(x, ids=ids(3))
    for i in range(3):
        found = results.explanation(i)
        np.testing.assert_allclose(found.prediction[0], expected.prediction[i], rtol=1e-5)
        np.testing.assert_allclose(found.scores[0], expected.scores[i], atol=1e-3)
        assert found.target[0] == i % 2
    explainer = results.explainer()
    assert explainer is not None
    assert isinstance(explainer.task.predict.model, OnnxNetwork)


def test_texts_and_a_function(tmp_path):
    module = made.write_module(tmp_path)
    lines = [f"a {'good' if i % 2 else 'weak'} film, number {i}" for i in range(7)]
    (tmp_path / "texts.txt").write_text("\n\n".join(lines) + "\n")
    results = explained(tmp_path, f"{module}:praised", "texts.txt", n=7)

    def praised(texts):
        p = np.array([0.1 + 0.8 * ("good" in text) for text in texts])
        return np.stack([1 - p, p], 1)

    agree(results, fans.Explainer(praised, lines)(lines, ids=[2 * i + 1 for i in range(7)]))
    assert results.explanation(1).chosen_names(0) == ["good"]
    assert not results.explanation(0).subset.any()


def test_texts_in_a_column(tmp_path):
    module = made.write_module(tmp_path)
    texts = [f"a {'good' if i % 2 else 'weak'} film, number {i}" for i in range(5)]
    pd.DataFrame({"key": list("abcde"), "said": texts}).to_csv(tmp_path / "texts.csv", index=False)
    results = explained(tmp_path, f"{module}:praised", "texts.csv", "--text-column", "said", "--ids", "key", n=5)
    assert list(results.columns()["id"]) == list("abcde")
    assert results.columns()["top"].tolist() == ["", "good", "", "good", ""]


def test_a_graph_and_a_factory(tmp_path, monkeypatch):
    module = made.write_module(tmp_path)
    path = made.write_graph(tmp_path)
    results = explained(tmp_path, f"{module}:graph", "graph.npz", "--effort", "low", n=6)
    arrays = np.load(path)
    graph = SimpleNamespace(**{name: torch.from_numpy(arrays[name]) for name in ("x", "edge_index")})
    monkeypatch.syspath_prepend(tmp_path)
    from mine import graph as network  # type: ignore[import-not-found]

    agree(results, fans.Explainer(network(), graph, effort="low")(np.arange(6)))


def test_a_table_and_a_function_by_two_processes(tmp_path):
    module = made.write_module(tmp_path)
    made.write_table(tmp_path)
    words = (f"{module}:rows", "rows.csv", "--drop", "name", "label", "--background", "rows.parquet", "--curves")
    one, two = (made.run(tmp_path, *words, "--out", f"run{k}", "--workers", k) for k in (1, 2))
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert shards(tmp_path / "run1") == shards(tmp_path / "run2")
    results = own.Results(tmp_path / "run2")
    x = made.table()[list(made.COLUMNS)]
    explainer = fans.Explainer(lambda frame: (frame["age"] - frame["weight"] > 0).to_numpy(float), x)
    agree(results, explainer(x))
    assert results.explainer() is None
    curve = results.curve(70)
    assert curve is not None
    np.testing.assert_array_equal(curve.pns, explainer.curve(results.explanation(70)).pns)


def shards(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_killed_and_run_again_it_ends_with_the_same_bytes(tmp_path):
    module = made.write_module(tmp_path)
    made.write_table(tmp_path, 200)
    words = (f"{module}:rows", "rows.csv", "--drop", "name", "label", "--effort", "low", "--out")
    assert made.run(tmp_path, *words, "whole").returncode == 0
    started = subprocess.Popen(made.command(*words, "killed"), cwd=tmp_path, env=environment(MS="30"))  # noqa: S603
    deadline = time.monotonic() + 120
    first = tmp_path / "killed" / "shards" / "00000.safetensors"
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()
    some = shards(tmp_path / "killed")
    assert 0 < len([name for name in some if not name.startswith(".")]) < 4
    half_way = own.Results(tmp_path / "killed")
    assert 0 < len(half_way) < 200
    again = made.run(tmp_path, *words, "killed")
    assert again.returncode == 0, again.stderr
    assert {k: v for k, v in shards(tmp_path / "killed").items() if not k.startswith(".")} == shards(tmp_path / "whole")
    assert len(own.Results(tmp_path / "killed")) == 200


def environment(**more):
    return os.environ | {"OMP_NUM_THREADS": "1"} | more


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A table and a function, to be explained in this process."""
    made.write_module(tmp_path)
    made.write_table(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    reading = own.Reading(drop=("name", "label"))
    return own.Asked("mine:rows", Path("rows.csv"), limit=70, effort="low", reading=reading)


def test_lost_and_damaged_shards_are_computed_again(asked, tmp_path):
    said: list[str] = []
    out = own.explain(asked, tmp_path / "run", tell=said.append)
    before = shards(out)
    (out / "shards" / "00000.safetensors").unlink()
    (out / "shards" / "00001.safetensors").write_bytes(b"nothing")
    own.explain(asked, out, tell=said.append)
    assert shards(out) == before
    assert any("2 of the shards are damaged or gone" in line for line in said)


def test_another_question_in_the_same_folder_is_refused_and_nothing_is_lost(asked, tmp_path):
    out = own.explain(asked, tmp_path / "run")
    before = shards(out)
    for other in (replace(asked, seed=1), replace(asked, limit=71), replace(asked, effort="normal")):
        with pytest.raises(InputError, match="to hold this experiment, got another"):
            own.explain(other, out)
    Path("rows.csv").write_text(Path("rows.csv").read_text().replace("0.126", "0.127"))
    with pytest.raises(InputError, match=r"`data\.sha256` is"):
        own.explain(asked, out)
    assert shards(out) == before


def test_the_folder_may_be_asked_for_other_formats_without_the_model_being_asked(asked, tmp_path, monkeypatch):
    out = own.explain(asked, tmp_path / "run", formats=["csv"])
    assert not (out / "index.html").exists()
    import mine

    rows = own.Results(out).columns()
    monkeypatch.setattr(mine, "rows", lambda frame: np.zeros(len(frame)))  # asked of the background alone
    own.explain(asked, out, formats=["json", "html"])
    assert (out / "index.html").exists()
    assert [one["pns"] for one in made.listed(out / "results.json")] == rows["pns"].tolist()


def test_a_block_that_fails_costs_no_other(tmp_path):
    made.write_module(tmp_path)
    frame = made.table()[list(made.COLUMNS)]
    frame.loc[80, "age"] = 7777
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.iloc[:60].to_csv(tmp_path / "others.csv", index=False)
    words = ("mine:fails_at_seven", "rows.csv", "--out", "run2", "--background", "others.csv", "--effort", "low")
    done = made.run(tmp_path, *words)
    assert done.returncode == 1
    assert "got 1 that failed" in done.stderr
    assert "ValueError: seven" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(own.Results(tmp_path / "run2")) == 64
    assert (tmp_path / "run2" / "index.html").exists()


def test_target_that_is_a_column_says_how_to_leave_it_out(asked):
    with pytest.raises(InputError, match="got 'label', a column of the data; leave a column out with --drop label"):
        own.explain(replace(asked, target="label"), Path("run"))


def test_every_row_is_explained_by_its_own_name_whatever_the_rest(asked, tmp_path):
    """A row's figures depend on its own id, not on which others are in the file."""
    out = own.explain(asked, tmp_path / "run")
    few = own.explain(replace(asked, limit=3, background=Path("rows.csv")), tmp_path / "few")
    many = own.explain(replace(asked, background=Path("rows.csv")), tmp_path / "many")
    for i in range(3):
        one, other = own.Results(few).explanation(i), own.Results(many).explanation(i)
        assert one.pns[0] == pytest.approx(other.pns[0], abs=1e-12)
    assert len(own.Results(out)) == 70
