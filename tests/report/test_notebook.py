"""What notebooks show of figures, results and explainers: right, short, escaped, and shown once."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from fans.evaluation import Evaluation
from fans.report.tables import entry
from fans.result import PNS
from tests.report.subjects import parsed
from tests.report.test_plots import curve

EVIL = "<script>alert('1')</script>"
ROWS = np.random.default_rng(0).normal(0, 1.5, (200, 3))


def model(x: Any) -> Any:
    return (x[:, 0] - x[:, 1] > 1).astype(float)


def cells(page: str) -> list[list[str]]:
    """The rows of all tables, as a reader sees them."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    return [[parsed(f"<p>{cell}</p>").text for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]


def two(**changes: Any) -> PNS:
    """The PNS of two subsets."""
    interval = np.array([[[0.8, 0.93], [0.9, 0.99], [0.85, 0.97]], [[math.nan] * 2] * 3])
    given: dict[str, Any] = {
        "pns": np.array([0.9, 0.004]),
        "pn": np.array([0.95, math.nan]),
        "ps": np.array([0.92, 1.0]),
        **dict.fromkeys(("p_ab", "p_nab", "ess_nc", "ess_sf"), np.zeros(2)),
        "changes": np.array([0.97, 0.0]),
        "holds": np.array([0.935, 1.0]),
        "se": np.zeros((2, 3)),
        "interval": interval,
        "share_se": np.zeros((2, 2)),
        "share_interval": np.array([[[0.91, 0.99], [0.88, 0.96]], [[0.0, 0.07], [0.93, 1.0]]]),
        "radius": np.array([0.5, 12345.0]),
        "tolerance": np.array([0.1, 0.25]),
        "phi": 1.0,
        "n_evaluations": 1234,
        "confidence": 0.9,
        "estimator": "weighted",
        "notes": ("", EVIL),
    }
    return PNS(**given | changes)


# --- Results ---------------------------------------------------------------------------------------------------------


def test_a_pns_is_a_row_for_each_input():
    page = two()._repr_html_()
    head, first, second = cells(page)
    assert head == ["input", "keep", "change", "both (PNS)", "PN", "PS", "tolerance", "radius", "note"]
    assert first == [
        *("0", "94 % [88, 96]", "97 % [91, 99]", "90 % [80, 93]"),
        *("0.95 [0.90, 0.99]", "0.92 [0.85, 0.97]", "0.1", "0.5", ""),
    ]
    assert second == ["1", "100 % [93, 100]", "0 % [0, 7]", "1 %", "undefined", "1.00", "0.25", "12,345", EVIL]
    text = parsed(page).text
    assert "90 % intervals in brackets; phi 1, 1,234 model rows." in text
    assert "<script" not in page
    assert repr(two()) == "PNS(inputs=2, pns=[0.90, 0.00])"
    assert "note" not in cells(two(notes=("", ""))._repr_html_())[0]


def test_a_pns_of_many_inputs_says_how_many_are_left_out():
    long = {name: np.repeat(value, 15, 0) for name, value in vars(two()).items() if isinstance(value, np.ndarray)}
    found = two(**long, notes=("",) * 30)
    assert len(cells(found._repr_html_())) == 21
    assert "10 more inputs are not shown." in parsed(found._repr_html_()).text
    assert repr(found) == "PNS(inputs=30, pns=[0.90, 0.90, 0.90, ...])"


def test_a_curve_is_a_row_for_each_size():
    page = replace(curve(5), ids=(EVIL, 1, 2, 3, 4))._repr_html_()
    assert "<script" not in page
    text = parsed(page).text
    assert f"{EVIL}: 1 of 3 features chosen, tolerance 0.1" in text
    assert "2 more inputs are not shown." in text
    rows = cells(page)
    assert rows[0] == ["size", "keep", "change", "both (PNS)"]
    assert rows[2] == ["✓ 1", "78 % [68, 83]", "74 % [64, 79]", "70 % [60, 75]"]
    assert len(rows) == 4 + 3 + 4
    assert page.count("<details open>") == 1
    assert repr(curve(5)) == "Curve(inputs=5, sizes=3, tolerances=2)"


def test_trials_tell_what_was_changed():
    explainer = fans.Explainer(model, ROWS, baseline=0.0, feature_names=["a", EVIL, "c"])
    found = explainer.trials(np.array([[3.0, 1.0, 1.0]]), ["c"], n=3)
    page = found._repr_html_()
    assert "<script" not in page
    head, *rows = cells(page)
    assert head == ["moved", "output before", "output", "nearness", "changed values, by place"]
    for k, row in enumerate(rows[: found.moved["changed"].shape[1]]):
        assert row[0] == ("yes" if found.moved["changed"][0, k] else "no")
        assert row[2] == f"{found.outputs['changed'][0, k]:g}"
        assert row[4] == f"[2] {found.before['changed'][0, k, 2]:.3g} → 0"
    for k, row in enumerate(rows[1 + found.moved["changed"].shape[1] :]):
        before = found.before["kept"][0, k]
        expected = [f"[{j}] {before[j]:.3g} → 0" for j in (0, 1) if before[j]]
        assert row[4] == (", ".join(expected) or "none")
    assert repr(found).startswith("TrialSample(inputs=1, trials={'changed': ")


def test_trials_of_frames_texts_and_images():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS, columns=["a", EVIL, "c"])
    tables = fans.Explainer(lambda x: model(np.asarray(x)), frame).trials(frame[:1], ["c"], n=2)._repr_html_()
    assert "<script" not in tables
    assert cells(tables)[0] == ["moved", "output before", "output", "nearness", "c", "a", EVIL]
    sample = fans.Explainer(lambda x: model(np.asarray(x)), frame).trials(frame[:1], ["c"], n=2)
    marked = re.findall(r"<td class=own>([^<]*)</td>", sample._repr_html_())
    assert len(marked) == sum(int((sample.inputs[side] != sample.before[side]).sum()) for side in sample.inputs)
    wide = pd.DataFrame(np.tile(ROWS, 4), columns=[f"x{k}" for k in range(12)])
    forty = fans.Explainer(lambda x: x[:, 0], np.tile(ROWS, 4), baseline=0.0).trials(np.ones(12), ["x12"], n=1)
    assert ", 7 more" in forty._repr_html_() or ", 6 more" in forty._repr_html_()
    many = fans.Explainer(lambda x: model(np.asarray(x)), wide).trials(wide[:1], ["x11"], n=2)._repr_html_()
    assert cells(many)[0][4:] == ["x11", "x0", "x1", "x2", "x3", "x4"]

    def bad(texts: Any) -> Any:
        return np.array([[0.1, 0.9] if "weak" in text else [0.9, 0.1] for text in texts])

    words = fans.Explainer(bad, ["a weak film", "a fine film"]).trials(["so <b>weak</b> a film"], ["weak"], n=2)
    assert "<b>weak" not in words._repr_html_()
    assert cells(words._repr_html_())[0][-1] == "text"
    torch = pytest.importorskip("torch")
    images = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    space = fans.spaces.Image(unit="pixel")
    drawn = fans.Explainer(lambda x: x[:, 0, 0, 0], images, space=space)
    sample = drawn.trials(images[:1], np.arange(36) < 3, n=2)
    page = parsed(sample._repr_html_())
    assert len(page.sources) == sum(moved.shape[1] for moved in sample.moved.values())
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)


def test_an_evaluation_names_its_interval():
    values = {EVIL: np.arange(8.0), "few": np.array([1.0, 2.0, 4.0])}
    found = Evaluation(
        tuple(range(8)), values, {EVIL: True, "few": False}, {EVIL: 1200, "few": 7}, 3, {EVIL: 0.5, "few": 0.25}
    )
    page = found._repr_html_()
    assert "<script" not in page
    head, first, second = cells(page)
    assert head == ["metric", "mean", "95 % interval", "median", "better", "inputs", "model rows", "seconds"]
    one = entry(values[EVIL])
    assert first == [EVIL, "3.5", f"[{one.low:.4g}, {one.high:.4g}]", "3.5", "higher", "8", "1,200", "0.5"]
    assert second == ["few", "2.333", "", "2", "lower", "3", "7", "0.25"]
    assert "The interval is of the mean, by bootstrap over inputs, from 5 inputs on." in parsed(page).text
    assert "3 more model rows were spent once" in parsed(page).text
    assert str(found).splitlines()[0].split() == ["metric", "mean", "95", "%", "interval", "median", "better"]
    assert repr(found) == f"Evaluation(inputs=8, metrics={[EVIL, 'few']})"


# --- Explainers ------------------------------------------------------------------------------------------------------


class Evil:
    """A model whose name and text are hostile."""

    def __call__(self, x: Any) -> Any:
        return model(x)

    def __repr__(self) -> str:
        return EVIL


def test_an_explainer_is_a_diagram():
    explainer = fans.Explainer(Evil(), ROWS, feature_names=["a", EVIL, "c"], n_local=7, baseline=0.0, seed=3)
    page = explainer._repr_html_()
    assert page is not None
    assert "<script" not in page
    text = parsed(page).text
    for words in ("Evil model", "200 rows of 3 features (table) background", "7 copies near each input neighbourhood"):
        assert words in text
    settings = {row[0]: row[1] for row in cells(page)}
    assert settings["model"] == EVIL
    assert settings["features"] == f"a, {EVIL}, c"
    assert settings["a missing feature gets"] == "one fixed value for each feature"
    assert settings["n_local"] == "7"
    assert settings["confidence"] == "0.95"
    assert re.findall(r"<tr class=own><td>(\w+)</td>", page) == ["n_local"]
    assert page.count("<details class='part'>") == 6
    assert f"About {explainer.rows_an_input:,} model rows an input" in text
    assert repr(explainer) == "Explainer(model=Evil, inputs='table', features=3, method='fans', seed=3)"
    assert repr(fans.Explainer(model, ROWS)).startswith("Explainer(model=model, inputs='table', features=3")
    alone = fans.Explainer(lambda texts: [len(text) / 99 for text in texts], ["a film", "a plot"])._repr_html_()
    assert "text: every input has features of its own background" in parsed(alone or "").text
    assert "In blue" not in parsed(fans.Explainer(model, ROWS)._repr_html_() or "").text


def test_an_explainer_is_text_where_scikit_learn_is_to_show_text():
    sklearn = pytest.importorskip("sklearn")
    explainer = fans.Explainer(model, ROWS)
    with sklearn.config_context(display="text"):
        assert explainer._repr_html_() is None
    with sklearn.config_context(display="diagram"):
        assert explainer._repr_html_()


# --- Notebooks -------------------------------------------------------------------------------------------------------

NOTEBOOK = [
    "import numpy as np, fans\nrows = np.random.default_rng(0).normal(size=(60, 3))\n"
    "explainer = fans.Explainer(lambda x: x[:, 0], rows)\ne = explainer(rows[:2])",
    "e.plot()",
    "e.plot(kind='keep_change')",
    "f = e.plot()",
    "import matplotlib.pyplot as plt\nf",
    "%matplotlib inline\nexplainer.curve(e).plot()",
    "explainer.score(rows[:1], ['x1'])",
    "explainer",
    "plt.get_fignums()",
]


@pytest.mark.slow("starts a kernel")
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_shows_each_figure_once_with_and_without_magic():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in NOTEBOOK])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [[sorted(out.get("data", {})) for out in cell.outputs] for cell in notebook.cells]
    picture, page = [["image/png", "text/plain"]], [["text/html", "text/plain"]]
    assert shown == [[], picture, picture, [], picture, picture, page, page, [["text/plain"]]]
    assert notebook.cells[-1].outputs[0]["data"]["text/plain"] == "[]"
