"""One model, or one explainer, for many threads and processes: the same numbers as alone."""

import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

import fans
from fans.spaces import GraphFeatures, Image

pytestmark = pytest.mark.filterwarnings("ignore::fans.FansWarning")

N_THREADS, N_ROUNDS = 8, 3
ROWS = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
IMAGES = torch.rand(8, 1, 12, 12, generator=torch.Generator().manual_seed(0))
ARRAYS = ("scores", "subset", "pns", "interval", "direction", "stability", "prediction", "tolerance")


def in_training(*layers: nn.Module) -> nn.Module:
    """A network whose dropout and batch norm make other numbers in training mode."""
    torch.manual_seed(0)
    made = nn.Sequential(*layers)
    for parameter in made.parameters():
        parameter.data = torch.randn_like(parameter)
    next(made.parameters()).requires_grad_(False)
    return made.train()


def table_network() -> nn.Module:
    return in_training(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))


def image_network() -> nn.Module:
    return in_training(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(400, 3))
    )


def state(model: nn.Module) -> tuple[list[Any], list[Tensor]]:
    flags = [part.training for part in model.modules()] + [p.requires_grad for p in model.parameters()]
    return flags, [value.clone() for value in model.state_dict().values()]


def same_state(one: Any, other: Any) -> bool:
    return one[0] == other[0] and all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


def same(one: fans.Explanation, other: fans.Explanation) -> bool:
    arrays = all(np.array_equal(getattr(one, n), getattr(other, n), equal_nan=True) for n in ARRAYS)
    return arrays and all(np.array_equal(rows, other.evaluations[k]) for k, rows in one.evaluations.items())


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Do it in many threads that start together."""
    start = threading.Barrier(N_THREADS)

    def one(i: int) -> Any:
        start.wait()
        return [work((i + shift) % N_THREADS) for shift in range(N_ROUNDS)]

    with ThreadPoolExecutor(N_THREADS) as pool:
        return [found for some in pool.map(one, range(N_THREADS)) for found in some]


@pytest.mark.parametrize(
    ("network", "inputs", "settings"),
    [
        (table_network, ROWS, {}),
        (table_network, ROWS, {"method": "deep_lift"}),
        (table_network, ROWS, {"solver": "walks", "effort": "low"}),
        (image_network, IMAGES, {"space": Image("patch"), "n_local": 9, "n_sweep": 50}),
        (image_network, IMAGES, {"method": "guided_backprop", "n_local": 9, "n_sweep": 50}),
        (image_network, IMAGES, {"method": "cimi", "n_epochs": 1, "n_local": 9, "n_sweep": 50}),
    ],
    ids=["chain", "deep_lift", "walks", "images", "guided_backprop", "cimi"],
)
def test_threads_share_an_explainer(network, inputs, settings):
    model = network()
    before = state(model)
    serial = fans.Explainer(model, inputs, **settings)
    expected = [serial(inputs[i : i + 1], ids=[i]) for i in range(N_THREADS)]
    shared = fans.Explainer(model, inputs, **settings)
    order = [(i + shift) % N_THREADS for i in range(N_THREADS) for shift in range(N_ROUNDS)]
    found = at_once(lambda i: shared(inputs[i : i + 1], ids=[i]))
    wrong = [i for i, one in zip(order, found, strict=True) if not same(one, expected[i])]
    assert not wrong
    assert same_state(state(model), before)
    own = sum(int(one.n_evaluations.sum()) for one in found)
    assert shared.task.predict.n_rows >= own
    assert {int(one.evaluations["shared"]) for one in found} == {int(expected[0].evaluations["shared"])}


def test_two_explainers_and_a_metric_share_a_module():
    model = image_network()
    before = state(model)
    made = [fans.Explainer(m, IMAGES, n_local=9, n_sweep=50) for m in (model, nn.Sequential(model, nn.Softmax(1)))]
    explained = made[0](IMAGES[:2])

    def judged(_: int) -> Any:
        return fans.evaluate(explained, ["infidelity"], model=model)["infidelity"]

    expected = [made[i % 2](IMAGES[i : i + 1], ids=[i]) for i in range(N_THREADS)]
    value = judged(0)

    def work(i: int) -> bool:
        if i % 4 == 3:
            return np.array_equal(judged(i), value)
        return same(made[i % 2](IMAGES[i : i + 1], ids=[i]), expected[i])

    assert all(at_once(work))
    assert same_state(state(model), before)


def test_counts_are_of_each_call():
    explainer = fans.Explainer(table_network(), ROWS, n_local=9)
    subset = [True, True, False, False, False]
    expected = [explainer.score(ROWS[: i + 1], subset).n_evaluations for i in range(N_THREADS)]
    assert len(set(expected)) == N_THREADS
    before = explainer.task.predict.n_rows
    found = at_once(lambda i: (i, explainer.score(ROWS[: i + 1], subset).n_evaluations))
    assert all(n == expected[i] for i, n in found)
    assert explainer.task.predict.n_rows - before == sum(n for _, n in found)


def test_a_module_in_training_mode_is_not_trained_by_asking_whether_it_has_a_gradient():
    """A batch norm refuses one row in training mode, and learns from several."""
    model = table_network()
    before = state(model)
    assert fans.Explainer(model, ROWS).method.solver == "chain"  # type: ignore[attr-defined]
    assert same_state(state(model), before)


def test_warnings_that_are_kept_quiet_in_one_thread_are_not_lost_to_all(recwarn):
    explainer = fans.Explainer(table_network(), ROWS, n_local=2)
    at_once(lambda i: explainer.heatmaps(ROWS[i : i + 1]))
    recwarn.clear()
    with pytest.warns(fans.FansWarning, match="told"):
        fans.errors.warn("This is told")


# --- Graphs ----------------------------------------------------------------------------------------------------------


def graph() -> Any:
    geometric = pytest.importorskip("torch_geometric")
    rng = np.random.default_rng(1)
    pairs = sorted({tuple(sorted(rng.choice(24, 2, replace=False).tolist())) for _ in range(45)})
    edges = torch.tensor([[u, v] for a, b in pairs for u, v in ((a, b), (b, a))]).T
    return geometric.data.Data(x=torch.from_numpy(rng.normal(size=(24, 4))).float(), edge_index=edges)


class Convolutions(nn.Module):
    """Two layers that remember edges, with dropout."""

    def __init__(self) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = GCNConv(4, 8, cached=True), GCNConv(8, 3, cached=True)
        self.relu, self.dropout = nn.ReLU(), nn.Dropout()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        hidden = self.dropout(self.relu(self.first(x, edge_index, edge_weight)))
        out: Tensor = 4 * self.second(hidden, edge_index, edge_weight)
        return out


def nodes(given: Any) -> list[int]:
    return [int(n) for n in torch.unique(given.edge_index[1])[:N_THREADS]]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "game"},
        {"method": "gnn_explainer", "n_steps": 5},
        {"method": "pg_explainer", "n_train": 4, "n_epochs": 1},
    ],
    ids=["chain", "game", "gnn_explainer", "pg_explainer"],
)
def test_threads_share_a_graph(settings):
    data = graph()
    model = Convolutions().train()
    few: dict[str, Any] = {"n_local": 9, "n_sweep": 50}
    before, names = state(model), nodes(data)
    serial = fans.Explainer(model, data, **few, **settings)
    expected = [serial(name) for name in names]
    shared = fans.Explainer(model, data, **few, **settings)
    found = at_once(lambda i: (i, shared([names[i]])))
    assert not [i for i, one in found if not same(one, expected[i])]
    assert same_state(state(model), before)
    assert all(layer.cached for layer in (model.first, model.second))


# --- Processes -------------------------------------------------------------------------------------------------------


def plain(rows: Any) -> Any:
    return 1 / (1 + np.exp(-rows[:, 0] * rows[:, 1]))


def of_words(rows: Any) -> Any:
    return np.asarray(rows.sum(1)).ravel() / 6


def forest() -> Any:
    return RandomForestClassifier(5, random_state=0).fit(ROWS, ROWS[:, 0] > 0)


def sparse_rows() -> Any:
    rng = np.random.default_rng(0)
    return csr_array(np.where(rng.random((30, 12)) < 0.4, rng.random((30, 12)), 0))


def frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "word": np.where(ROWS[:, 2] > 0, "x", "y")})


def of_frame(rows: Any) -> Any:
    return np.asarray(rows["a"] * (rows["word"] == "x"))


CASES: dict[str, Callable[[], tuple[Any, Any, Any, dict[str, Any]]]] = {
    "forest": lambda: (forest(), ROWS, ROWS[:2], {}),
    "callable": lambda: (plain, ROWS, ROWS[:2], {"solver": "game"}),
    "frame": lambda: (of_frame, frame(), frame()[:2], {}),
    "module": lambda: (table_network(), ROWS, ROWS[:2], {}),
    "blank": lambda: (image_network(), IMAGES, IMAGES[:2], {"n_local": 9, "n_sweep": 50}),
    "superpixels": lambda: (image_network(), IMAGES, IMAGES[:2], {"space": Image("superpixel"), "baseline": "blur"}),
    "trained": lambda: (image_network(), IMAGES, IMAGES[:2], {"method": "cimi", "n_epochs": 1, "n_local": 9}),
    "sparse": lambda: (of_words, sparse_rows(), sparse_rows()[:2], {"task": "regression"}),
    "edges": lambda: (Convolutions(), graph(), nodes(graph())[:3], {"n_local": 9, "n_sweep": 50}),
    "edges, game": lambda: (Convolutions(), graph(), nodes(graph())[:3], {"n_local": 9, "solver": "game"}),
    "columns": lambda: (Convolutions(), graph(), nodes(graph())[:3], {"space": GraphFeatures(), "n_local": 9}),
    "refine": lambda: (
        *(Convolutions(), graph(), nodes(graph())[:3]),
        {"method": "refine", "n_train": 4, "n_epochs": 1, "n_steps": 2, "n_local": 9, "n_sweep": 50},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pickled_explainer_says_the_same(name):
    model, background, x, settings = CASES[name]()
    explainer = fans.Explainer(model, background, **settings)
    fresh = pickle.loads(pickle.dumps(explainer))  # noqa: S301
    expected = explainer(x)
    used = pickle.loads(pickle.dumps(explainer))  # noqa: S301
    for again in (fresh, used):
        assert same(again(x), expected)
    assert used.task.predict.n_rows > explainer.task.predict.n_rows  # its own count goes on


def explained(explainer: fans.Explainer, x: Any) -> fans.Explanation:
    return explainer(x)


def test_other_processes_say_the_same():
    work = [CASES[name]() for name in ("module", "edges, game", "sparse")]
    made = [(fans.Explainer(model, background, **settings), x) for model, background, x, settings in work]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = [pool.submit(explained, *pair) for pair in made]
        for (explainer, x), future in zip(made, found, strict=True):
            assert same(future.result(), explainer(x))
