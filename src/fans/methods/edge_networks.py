"""Networks that score the edges of any graph after one training: ReFine and MixUpExplainer.

Both are trained on other nodes (or graphs) than those they explain, and keep what training cost apart. An edge's two
directions share the mean of their logits where they are tied.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from fans.engine import draws
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole
from fans.methods.base import Scores
from fans.methods.edges import TINY, OfLastLayer, TrainedOnEdges, answers, check_layers, embeddings, entropy, of_target
from fans.methods.problem import Problem
from fans.methods.rivals import Adam, check_classes, check_number
from fans.modalities.graph.space import FittedEdges
from fans.modalities.graph.union import Joined
from fans.modes import global_draws
from fans.task import Task


def by_feature(logits: Tensor, joined: Joined, shape: tuple[int, int]) -> Tensor:
    """Return the mean logit `(n, F)` of the edges `(M,)` of each feature; 0 where there is none."""
    n = shape[0] * shape[1]
    total = torch.zeros(n, dtype=logits.dtype).index_add(0, joined.feature, logits)
    count = torch.zeros(n, dtype=logits.dtype).index_add(0, joined.feature, torch.ones_like(logits))
    return (total / count.clamp(min=1)).view(shape)


def concrete(logits: Tensor, keys: Tensor, place: Tensor, temperature: float) -> Tensor:
    """Return a sample `(n, F)` of a relaxed Bernoulli of these logits; `keys` and `place` `(n,)` say of which draws."""
    n_features = logits.shape[1]
    u = draws.uniform(keys[:, None], place[:, None] * n_features + torch.arange(n_features))
    noise = (u.log() - (1 - u).log()).to(logits.dtype)
    return ((noise + logits) / temperature).sigmoid()


# --- MixUpExplainer --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixUpExplainer(OfLastLayer):
    """MixUpExplainer: score an edge by PGExplainer's network, trained on graphs mixed with others.

    A graph cut down to its mask is like none that the model has seen. So a node a is joined to another one b, drawn
    anew each epoch, by `n_links` random edges, and what of b is not its own explanation fills the place of what of a
    is not. With masks M, minimise by Adam the mean over nodes a of

        -log p_a(M_a; drop(1 - M_b); drop(links)) + size * sum M_a + entropy * mean H(M_a)

    and of the same with a and b changing places. The logit of an edge is a two-layer network's, of what the model's
    last layer makes of both its ends and of the explained node; M is a concrete sample of it in training, and its
    sigmoid, the score, afterwards.

    Differs from the paper's code: what is dropped is not made up for by a larger rest, the mask goes through one
    sigmoid, not two, before its price, and just `n_links` edges join two graphs.

    Args:
        n_train: nodes to learn from.
        n_epochs: over them.
        rate: of Adam.
        batch: pairs a step.
        size: price of an edge.
        entropy: price of undecided ones.
        temperature: of the samples.
        n_links: edges between the two graphs.
        drop: share of the other's edges, and of the links, that are left out.
    """

    name: ClassVar[str] = "mixup_explainer"
    label: ClassVar[str] = "MixUpExplainer"
    citation: ClassVar[str] = (
        "Zhang et al., MixupExplainer: Generalizing Explanations for Graph Neural Networks with Data Augmentation, "
        "KDD 2023"
    )

    batch: int = 16
    size: float = 0.05
    entropy: float = 1.0
    temperature: float = 1.0
    n_links: int = 5
    drop: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("batch", self.batch, 1)
        check_whole("n_links", self.n_links, 0)
        check_number("temperature", self.temperature, 0, above=True)
        for name in ("size", "entropy", "drop"):
            check_number(name, getattr(self, name), 0)
        if self.drop >= 1:
            raise InputError(f"Expected `drop` below 1, got {self.drop!r}")

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse models without a gradient, classes or layers to look into."""
        asker = f"method={self.name!r}"
        task.predict.check_gradients(asker, "a method that asks for outputs only, e.g. method='fans'")
        check_classes(task, asker)
        check_layers(task, asker, "reads what they make of nodes")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """None of its own: one row tells what the model makes of all nodes; training is apart."""
        return 0

    def training_cost(self, n_background: int) -> int:  # noqa: ARG002
        """Each node once, and four rows a pair; twice what the model makes of all nodes."""
        return 2 + self.n_train * (1 + 4 * self.n_epochs)

    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train on pairs of nodes."""
        self.draw_weights(network, seed)
        lessons = self.lessons(task, seed)
        seen = self.seen(lessons)

        def loss(index: Tensor, place: Tensor) -> Tensor:
            return self.loss(lessons, network, seen, index, place)

        if len(lessons) < 2:
            raise InputError(f"Expected at least 2 inputs with edges to train method={self.name!r} on, got 1")
        piece = max(1, lessons.task.predict.max_batch // 4)
        return self.descend(network, seed, len(lessons), loss, self.batch, piece)

    def loss(self, lessons: Problem, network: Any, seen: Sequence[Tensor], index: Tensor, place: Tensor) -> Tensor:
        """Return the mean loss of nodes `index` `(m,)`, each with another, drawn from positions `place` `(m,)`."""
        m, seed = len(index), lessons.seed
        other = draws.integers(self.key(seed, "other"), place, len(lessons) - 1)
        at = torch.cat([index, other + (other >= index)])
        both = lessons.part(at)  # the m nodes, then the m others
        space: Any = both.task.space
        joined: Joined = space.joined(both.place)
        logits = self._logits(network, joined, torch.cat([seen[i] for i in at.tolist()]), (2 * m, space.n_features))
        positions = torch.cat([2 * place, 2 * place + 1])
        mask = concrete(logits, self.key(seed, "mask").expand(2 * m), positions, self.temperature)
        rest = (1 - mask) * self._left(seed, "rest", positions, space.n_features).to(mask.dtype)
        links = self._links(joined, m, place, seed)
        links = torch.cat([links, links + int(joined.size.sum())], 1)  # all graphs come twice
        for_nodes, for_others = torch.cat([mask[:m], rest[m:]]), torch.cat([rest[:m], mask[m:]])
        p = answers(both, for_nodes, for_others, links=links, whole=True)
        explained = of_target(both, torch.cat([p[0][:m], p[1][m:]]))
        present = both.present
        decided = (entropy(mask) * present).sum(1) / present.sum(1).clamp(min=1)
        each = -explained.clamp(min=TINY).log() + self.size * (mask * present).sum(1) + self.entropy * decided
        total: Tensor = each.sum() / m
        return total

    def _left(self, seed: int, what: str, place: Tensor, n: int) -> Tensor:
        """Return what is not dropped, `(m, n)`."""
        return draws.bernoulli(self.key(seed, what).expand(len(place)), place, n, 1 - self.drop)

    def _links(self, joined: Joined, m: int, place: Tensor, seed: int) -> Tensor:
        """Return the edges `(2, links)`, in both directions, between the first m graphs and the last m."""
        positions = place[:, None] * self.n_links + torch.arange(self.n_links)
        ends = [
            (joined.first[side][:, None] + draws.integers(self.key(seed, what), positions, joined.size[side][:, None]))
            for what, side in (("from", slice(0, m)), ("to", slice(m, 2 * m)))
        ]
        left = self._left(seed, "links", place, self.n_links) if self.n_links else torch.ones(m, 0, dtype=torch.bool)
        one, other = (end[left] for end in ends)
        return torch.cat([torch.stack([one, other]), torch.stack([other, one])], 1)

    def _logits(self, network: Any, joined: Joined, seen: Tensor, shape: tuple[int, int]) -> Tensor:
        """Return the logit `(n, F)` of each edge of graphs whose nodes the model makes `seen` `(nodes, h)` of."""
        start, end = joined.edges
        parts = [seen[start], seen[end]]
        if (joined.target >= 0).all():
            parts.append(seen[joined.target[joined.feature // shape[1]]])
        return by_feature(network(torch.cat(parts, 1))[:, 0], joined, shape)

    def attribute(self, problem: Problem) -> Scores:
        """Score by the network, which is trained if that was not done. The rows are those of scoring."""
        task, space = problem.task, problem.task.space
        network = self.train(task, problem.seed)
        assert isinstance(space, FittedEdges)
        joined = space.joined(problem.place)
        seen = embeddings(task, problem.x, problem.place)
        logits = self._logits(network, joined, seen, (len(problem), space.n_features))
        return Scores.even(logits.sigmoid().double() * problem.present, 0)


# --- ReFine ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReFine(TrainedOnEdges):
    """ReFine: score an edge by its class's mask network, trained on many graphs and tuned a little to each.

    There is one network a class, which reads the graph and gives every edge a logit (`EdgeNetwork`). Trained together,
    with concrete samples M, on the sum of

    - fidelity, the mean of `-p(class | M)`;
    - `size` times the mean of M and `entropy` times the mean of H(M);
    - `contrast` times `-logsumexp_i(same_i / (temperature * all_i))`, where `same_i` and `all_i` add up the positive
      cosines between what the model says of graph i, cut down to the `ratio` of its edges that are highest, and of the
      other graphs of its class, or of all others.

    Then, for each node by itself, a copy of its class's network takes `n_steps` more, with plain sigmoids and what the
    mask leaves of the `ratio` highest edges. The sigmoid is the score.

    Differs from the paper, which is on graphs as wholes: a node's graph is the one it is computed from. What the model
    says are its raw outputs, not its last hidden layer; its own code lets no gradient through the positive pairs and
    sums the fidelity of a batch, ours does and takes the mean.

    Args:
        n_train: nodes to learn from.
        n_epochs: over them.
        rate: of Adam, in training.
        batch: nodes a step.
        width: of the networks.
        ratio: of the edges kept.
        contrast: weight of that term.
        temperature: of the contrast.
        size: price of the mask's mean.
        entropy: price of its entropy.
        n_steps: of tuning.
        step: of Adam, in tuning.
    """

    name: ClassVar[str] = "refine"
    label: ClassVar[str] = "ReFine"
    citation: ClassVar[str] = (
        "Wang et al., Towards Multi-Grained Explainability for Graph Neural Networks, NeurIPS 2021"
    )
    network_name: ClassVar[str] = "networks"
    size_names: ClassVar[str] = "columns and classes"

    rate: float = 1e-3
    batch: int = 32
    width: int = 50
    ratio: float = 0.4
    contrast: float = 5.0
    temperature: float = 0.1
    size: float = 1e-4
    entropy: float = 1e-2
    n_steps: int = 20
    step: float = 2e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch", "width"):
            check_whole(name, getattr(self, name), 1)
        check_whole("n_steps", self.n_steps, 0)
        for name in ("temperature", "step", "ratio"):
            check_number(name, getattr(self, name), 0, above=True)
        for name in ("contrast", "size", "entropy"):
            check_number(name, getattr(self, name), 0)
        if self.ratio > 1:
            raise InputError(f"Expected `ratio` of at most 1, got {self.ratio!r}")

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse models without a gradient or classes."""
        task.predict.check_gradients(f"method={self.name!r}", "a method that asks for outputs only, e.g. method='fans'")
        check_classes(task, f"method={self.name!r}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """A row a step of tuning; training is apart."""
        return self.n_steps

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """A row."""
        return 1

    def training_cost(self, n_background: int) -> int:  # noqa: ARG002
        """Each node once, and twice an epoch."""
        return self.n_train * (1 + self.n_epochs * (2 if self.contrast else 1))

    def sizes(self, task: Task) -> tuple[int, ...]:
        """Return the columns of a node and the classes."""
        space: Any = task.space
        return space.graphs[0].x.shape[1], task.outputs.shape[1]

    def build(self, sizes: Sequence[int]) -> nn.Module:
        """Return one network a class."""
        n_columns, n_classes = sizes
        with global_draws():
            return nn.ModuleList(EdgeNetwork(n_columns, self.width) for _ in range(n_classes))

    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train all classes' networks together."""
        self.draw_weights(network, seed)
        network.train()
        lessons = self.lessons(task, seed)

        def loss(index: Tensor, place: Tensor) -> Tensor:
            return self.loss(lessons.part(index), network, place)

        return self.descend(network, seed, len(lessons), loss, self.batch, self.batch)

    def loss(self, problem: Problem, network: Any, place: Tensor) -> Tensor:
        """Return the loss of some nodes, with samples drawn from positions `place` `(n,)`."""
        logits = self._logits(network, problem)
        mask = concrete(logits, self.key(problem.seed, "mask").expand(len(problem)), place, 1.0)
        loss = self._priced(problem, mask, answers(problem, mask)[0])
        if not self.contrast:
            return loss
        owner = torch.arange(len(problem))
        kept = problem.units.spread(mask * self._top(mask, problem.present), owner)
        rows = torch.lerp(problem.missing, problem.x, kept)
        said = problem.task.predict.differentiable(rows, problem.place, raw=True)
        return loss + self.contrast * contrast(said, problem.target, self.temperature)

    def _priced(self, problem: Problem, mask: Tensor, p: Tensor) -> Tensor:
        """Return the mean loss without the contrast, given the probabilities `(n, C)` under a mask."""
        present = problem.present
        n_edges = present.sum(1).clamp(min=1)
        size, undecided = ((what * present).sum(1) / n_edges for what in (mask, entropy(mask)))
        return (-of_target(problem, p) + self.size * size + self.entropy * undecided).mean()

    def _top(self, mask: Tensor, present: Tensor) -> Tensor:
        """Return 1 for the highest `ratio` of each graph's edges `(n, F)`, 0 for the others."""
        rank = mask.detach().masked_fill(~present, -1.0).argsort(dim=1, descending=True, stable=True).argsort(1)
        kept: Tensor = rank < (self.ratio * present.sum(1, keepdim=True)).ceil()
        return (kept & present).to(mask.dtype)

    def _logits(self, network: Any, problem: Problem) -> Tensor:
        """Return the logit `(n, F)` of each edge, by the network of its input's class."""
        space: Any = problem.task.space
        out = torch.zeros(len(problem), space.n_features)
        for target in sorted(set(problem.target.tolist())):
            at = (problem.target == target).nonzero()[:, 0]
            joined = space.joined(problem.place[at])
            out = out.index_put((at,), by_feature(network[target](joined), joined, (len(at), space.n_features)))
        return out

    def attribute(self, problem: Problem) -> Scores:
        """Tune a copy of the class's network to one node after another; training comes first, if it was not done."""
        network = self.train(problem.task, problem.seed)
        with problem.counting() as spent:
            scores = [self._tuned(network, problem.part(slice(i, i + 1))) for i in range(len(problem))]
        return Scores.even(torch.cat(scores).double() * problem.present, spent.n_rows // len(problem))

    def _tuned(self, network: Any, problem: Problem) -> Tensor:
        """Return the score `(1, F)` of one input's edges."""
        own = copy.deepcopy(network[int(problem.target[0])])
        mine = {int(problem.target[0]): own}
        parameters = [parameter.requires_grad_() for parameter in own.parameters()]
        optimiser = Adam(parameters, self.step)
        with torch.enable_grad():
            for _ in range(self.n_steps):
                mask = self._logits(mine, problem).sigmoid()
                kept = mask * self._top(mask, problem.present)
                loss = self._priced(problem, mask, answers(problem, kept)[0])
                optimiser.step(torch.autograd.grad(loss, parameters, materialize_grads=True))
        with torch.no_grad():
            return self._logits(mine, problem).sigmoid()


def contrast(said: Tensor, target: Tensor, temperature: float) -> Tensor:
    """Return `-logsumexp_i(same_i / (temperature * all_i))` of outputs `(n, C)`; 0 where no two share a class."""
    near = cosine_similarity(said[:, None], said[None], dim=2).relu() * (1 - torch.eye(len(said), dtype=said.dtype))
    alike = (target[:, None] == target).to(said.dtype)
    share = (near * alike).sum(1) / near.sum(1).clamp(min=TINY)
    return -torch.logsumexp(share / temperature, 0)


class EdgeNetwork(nn.Module):
    """What ReFine reads a graph with: two ARMA convolutions, and a network of two layers on both ends of an edge."""

    def __init__(self, n_columns: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(n_columns, width)
        self.passed = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))
        self.out = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, joined: Joined) -> Tensor:
        """Return the logit of each edge."""
        start, end = joined.edges
        hidden = self.first(joined.x)[joined.node].relu()
        degree = torch.zeros(len(hidden)).index_add(0, end, torch.ones(len(end)))
        root = degree.clamp(min=1).rsqrt()
        weight = (root[start] * root[end])[:, None]
        for passed, own, norm in zip(self.passed, self.own, self.norms, strict=True):
            heard = torch.zeros_like(hidden).index_add(0, end, weight * passed(hidden)[start])
            hidden = norm((heard + own(hidden)).relu())
        logits: Tensor = self.out(torch.cat([hidden[start], hidden[end]], 1))[:, 0]
        return logits
