"""Training of the graph networks: full batches, seeded, and resumable to the same weights after a kill at any epoch."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fans.datasets.graphs import Graph, geometric, load_graph
from fans.errors import Interrupted, choose
from fans.networks.base import Card, Network, network, read_progress, save, write_progress
from fans.types import Array
from fans.version import __version__


@dataclass(frozen=True)
class GraphRecipe:
    """How a graph network is trained.

    Attributes:
        network: the registered architecture.
        split: of the graph's nodes.
        epochs: each a step of Adam on all training nodes.
        rate: the learning rate at first; it falls linearly to zero.
        decay: weight decay.
        shuffle: whether training nodes of one class exchange their features in every epoch: where the structure makes
            the class, a network that cannot know a node by its features learns the structure.
    """

    network: str
    split: str
    epochs: int
    rate: float = 0.01
    decay: float = 0.0
    shuffle: bool = False


GRAPH_RECIPES = {
    "ba_community": (GraphRecipe("gcn_ba_community", "published", 6000, shuffle=True),),
    "citeseer": tuple(GraphRecipe("gcn_citeseer", s, 200, rate=0.002, decay=0.02) for s in ("larger", "planetoid")),
    "pubmed": (
        GraphRecipe("gcn_pubmed", "larger", 200, decay=5e-4),
        GraphRecipe("gcn_pubmed", "planetoid", 200, decay=5e-3),
    ),
}
"""By dataset, one a split, that of the committed checkpoint first."""

_ENTRIES = 40
"""Of a history, and lines told."""


@dataclass
class _State:
    """Everything an epoch needs: stored whole, so that a resumed run ends in the same weights."""

    model: Network
    optimiser: torch.optim.Adam
    epoch: int
    seconds: float
    history: list[dict[str, float]]
    best: dict[str, float]
    """The entry of the epoch with the least loss on the validation nodes."""
    weights: dict[str, Tensor]
    """Of that epoch."""


def train_graph(
    dataset: str,
    folder: Path,
    *,
    seed: int = 0,
    split: str | None = None,
    recipe: GraphRecipe | None = None,
    tell: Callable[[str], None] = lambda _: None,
    every: int = 100,
) -> Path:
    """Train the network of a graph and write its checkpoint and card into `folder`; return the checkpoint.

    The weights are those of the epoch with the least loss on the validation nodes; test nodes are looked at once, at
    the end. Progress is stored every `every` epochs. What is drawn is a function of the seed and the epoch alone, so a
    run that was killed goes on and ends as if nothing had happened.

    Args:
        dataset: `"ba_community"`, `"citeseer"` or `"pubmed"`.
        folder: for the checkpoint.
        seed: of initialisation, dropout and exchanged features.
        split: of the nodes; by default that of the committed checkpoint.
        recipe: by default that of dataset and split in `GRAPH_RECIPES`.
        tell: takes lines of progress.
        every: epochs between two stores.

    Raises:
        Interrupted: Ctrl-C; the message says how to go on.
    """
    recipe = recipe or _recipe(dataset, split)
    graph = load_graph(dataset, recipe.split)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{dataset}.training.safetensors"
    identity = json.dumps({"dataset": dataset, "seed": seed, "recipe": asdict(recipe), "n": len(graph)})
    state = _begin(recipe, seed, partial, identity, tell)
    try:
        _run(state, recipe, seed, graph, tell, every, lambda: _store(state, partial, identity))
    except KeyboardInterrupt:
        kept = "goes on where progress was last stored" if partial.is_file() else "starts again: nothing was stored yet"
        raise Interrupted(f"Interrupted at epoch {state.epoch}; the same command {kept}") from None
    path = _finish(state, recipe, dataset, seed, folder, graph, tell)
    partial.unlink(missing_ok=True)
    return path


def _recipe(dataset: str, split: str | None) -> GraphRecipe:
    known = {recipe.split: recipe for recipe in GRAPH_RECIPES[choose("the dataset", dataset, GRAPH_RECIPES)]}
    return known[choose("`split`", split or next(iter(known)), known)]


def _run(
    state: _State,
    recipe: GraphRecipe,
    seed: int,
    graph: Graph,
    tell: Callable[[str], None],
    every: int,
    store: Callable[[], None],
) -> None:
    """Take all the epochs that are left."""
    began = time.monotonic() - state.seconds
    edges, labels = torch.from_numpy(graph.edge_index), torch.from_numpy(graph.y)
    thinned = max(1, recipe.epochs // _ENTRIES)
    while state.epoch < recipe.epochs:
        loss = _step(state, recipe, graph, edges, labels, seed)
        entry = {"epoch": state.epoch, "loss": loss, **_validate(state.model, graph)}
        if not state.best or entry["loss_val"] < state.best["loss_val"]:
            state.best, state.weights = entry, {k: v.clone() for k, v in state.model.state_dict().items()}
        state.seconds = time.monotonic() - began
        if state.epoch % thinned == 0:
            state.history.append(entry)
            left = state.seconds / state.epoch * (recipe.epochs - state.epoch)
            tell(
                f"epoch {state.epoch} of {recipe.epochs}: loss {loss:.3f}, {entry['accuracy_val']:.2%} of "
                f"{graph.val_mask.sum()} validation nodes, {state.seconds:.0f} s so far, about {left:.0f} s left"
            )
        if state.epoch % every == 0:
            store()


def _step(state: _State, recipe: GraphRecipe, graph: Graph, edges: Tensor, labels: Tensor, seed: int) -> float:
    """Take the step of an epoch and return its loss."""
    random = np.random.default_rng([seed, state.epoch])
    x = graph.x[exchanged(graph, random)] if recipe.shuffle else graph.x
    for group in state.optimiser.param_groups:
        group["lr"] = recipe.rate * (1 - state.epoch / recipe.epochs)
    state.model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**63)))
        logits = state.model(torch.from_numpy(x), edges)
    loss = cross_entropy(logits[graph.train_mask], labels[graph.train_mask])
    state.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    state.optimiser.step()
    state.epoch += 1
    return loss.item()


def exchanged(graph: Graph, random: np.random.Generator) -> Array:
    """Return whose features each node gets, `(n,)`: training nodes those of one of their class, others their own."""
    taken = np.arange(len(graph))
    for c in range(len(graph.classes)):
        alike = np.flatnonzero(graph.train_mask & (graph.y == c))
        taken[alike] = random.permutation(alike)
    return taken


def _validate(model: Network, graph: Graph) -> dict[str, float]:
    """Return loss and accuracy on the validation nodes."""
    logits, labels = _logits(model, graph)[graph.val_mask], torch.from_numpy(graph.y[graph.val_mask])
    right = (logits.argmax(1) == labels).double().mean()
    return {"loss_val": cross_entropy(logits, labels).item(), "accuracy_val": right.item()}


def _logits(model: Network, graph: Graph) -> Tensor:
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(*graph.tensors())
    return logits


def measure_graph(model: Network, graph: Graph, mask: Array) -> float:
    """Return the share of the nodes in `mask` that the model gets right."""
    predicted = _logits(model, graph).argmax(1).numpy()
    return float((predicted == graph.y)[mask].mean())


def _begin(recipe: GraphRecipe, seed: int, partial: Path, identity: str, tell: Callable[[str], None]) -> _State:
    """Return a fresh state, or the one stored by an earlier run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(recipe.network)
    state = _State(model, torch.optim.Adam(model.parameters(), weight_decay=recipe.decay), 0, 0.0, [], {}, {})
    if not partial.is_file():
        return state
    kept, tensors = read_progress(partial, identity)
    model.load_state_dict(_under("model.", tensors))
    state.weights = _under("best.", tensors)
    state.epoch, state.seconds = int(kept["epoch"]), float(kept["seconds"])
    state.history, state.best = json.loads(kept["history"]), json.loads(kept["best"])
    for name, parameter in model.named_parameters():
        moments = {key: tensors[f"{key}.{name}"] for key in ("exp_avg", "exp_avg_sq")}
        state.optimiser.state[parameter] = {"step": torch.tensor(float(state.epoch)), **moments}
    tell(f"going on at epoch {state.epoch} of an earlier run ({state.seconds:.0f} s)")
    return state


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _store(state: _State, partial: Path, identity: str) -> None:
    tensors = {f"model.{k}": v for k, v in state.model.state_dict().items()}
    tensors |= {f"best.{k}": v for k, v in state.weights.items()}
    for name, parameter in state.model.named_parameters():
        tensors |= {f"{key}.{name}": state.optimiser.state[parameter][key] for key in ("exp_avg", "exp_avg_sq")}
    kept = {"epoch": str(state.epoch), "seconds": str(state.seconds)}
    kept |= {"history": json.dumps(state.history), "best": json.dumps(state.best)}
    write_progress(partial, identity, kept, tensors)


def _finish(
    state: _State,
    recipe: GraphRecipe,
    dataset: str,
    seed: int,
    folder: Path,
    graph: Graph,
    tell: Callable[[str], None],
) -> Path:
    """Measure the best weights on the test nodes and store them."""
    state.model.load_state_dict(state.weights)
    accuracy, n_test = measure_graph(state.model, graph, graph.test_mask), int(graph.test_mask.sum())
    history = [entry for entry in state.history if entry["epoch"] != state.best["epoch"]] + [state.best]
    card = Card(
        name=dataset,
        network=recipe.network,
        dataset=dataset,
        accuracy=accuracy,
        n_test=n_test,
        seed=seed,
        seconds=round(state.seconds, 1),
        recipe=asdict(recipe),
        history=sorted(history, key=lambda entry: entry["epoch"]),
        versions={
            "fans": __version__,
            "torch": torch.__version__,
            "torch_geometric": geometric("training").__version__,
            "numpy": np.__version__,
        },
    )
    path = save(state.weights, card, folder)
    tell(
        f"{accuracy:.2%} of {n_test} test nodes, with the weights of epoch {state.best['epoch']:.0f}; "
        f"wrote {path} and its card"
    )
    return path
