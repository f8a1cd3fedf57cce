"""`fans.Explanation`: which features were necessary and sufficient for each prediction."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from fans.errors import InputError
from fans.joining import in_order, tuples_in_order
from fans.types import Array, Kind

if TYPE_CHECKING:
    from fans.modalities.present import Presenter
    from fans.report.overview import Overview


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """What a method says of each feature of some inputs, and which inputs those are: frozen, validated, sliceable.

    Attributes:
        scores: `(B, F)` importance of each feature; higher is more important.
        scores_se: `(B, F)` their standard errors, or None where the method has none.
        history: `(B, steps)` what the method maximised at each step, NaN after its last; None if it took no steps.
        per_element: whether a feature's score is the mean of its elements', not that of all of them together; None if
            that is not known, as of explanations that were saved before it was kept.
        per_pixel: whether each channel of a pixel carries the score of the whole pixel.
        target: `(B,)` the explained class (0 for a regressor).
        prediction: `(B,)` the model's output for that class.
        modality: what kind of inputs these are.
        inputs: `(B, *input)` the explained inputs, NaN where a value is missing, categories as codes.
        elements: `(*input)` which feature each element of an input belongs to; `(B, *input)` where each has its own,
            -1 where an input has fewer elements than others.
        element_names, categories: names of the elements, and what the codes of categorical ones stand for.
        kinds: which elements are times, in microseconds (`"date"`, `"date UTC"`, `"duration"`), or categories whose
            codes are in their order (`"ordered"`), by position.
        kind: whether the explained output is a probability.
        evaluations: model rows `(B,)` by phase; "shared" counts those spent once for all inputs.
        seconds: wall time of all of it.
        edges: `(B, *input, 2)` the nodes that each element of a graph joins, -1 where an input has fewer; else None.
        nodes: `(B,)` the explained nodes of a graph, -1 for graphs as wholes; else None.
        node_names: of all nodes, where the user gave them.
        sparse: whether an input has only those features in which it is not 0.
        details: what else the modality keeps to show inputs by, by name: one entry for each input.
    """

    scores: Array
    scores_se: Array | None
    history: Array | None
    target: Array
    prediction: Array
    ids: tuple[int | str, ...]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    method: str
    settings: Mapping[str, Any]
    seed: int
    seconds: float
    evaluations: Mapping[str, Array]
    kind: Kind
    modality: str
    inputs: Array
    elements: Array
    element_names: tuple[str, ...]
    categories: Mapping[str, Sequence[str]]
    edges: Array | None = None
    nodes: Array | None = None
    node_names: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    sparse: bool = False
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    per_element: bool | None = None
    per_pixel: bool = False

    _PER_INPUT: ClassVar[tuple[str, ...]] = (
        *("scores", "scores_se", "history", "target", "prediction", "inputs", "ids", "edges", "nodes"),
    )

    def __post_init__(self) -> None:
        n, n_features = self.scores.shape
        self._check_shapes({"target": (n,), "prediction": (n,)})
        if len(self.feature_names) != n_features or len(self.ids) != n:
            raise InputError(f"Expected {n_features} names and {n} ids, got {len(self.feature_names)}, {len(self.ids)}")

    def _check_shapes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"Expected `{name}` of shape {shape}, got {getattr(self, name).shape}")

    @property
    def n_evaluations(self) -> Array:
        """Model rows spent on each input, `(B,)`; those shared by all inputs are in `evaluations["shared"]`."""
        own = [rows for phase, rows in self.evaluations.items() if phase != "shared"]
        return np.sum(own, axis=0) if own else np.zeros(len(self), dtype=np.int64)

    @property
    def heatmap(self) -> Array:
        """Scores in the input's own shape, `(B, *input)`: every element carries its feature's score."""
        if self.elements.ndim < self.inputs.ndim:
            return np.take(self.scores, self.elements, axis=1)
        elements = self.elements.reshape(len(self), -1)
        flat = np.take_along_axis(self.scores, elements, 1)
        return np.where(elements < 0, flat.dtype.type(0), flat).reshape(self.inputs.shape)

    @property
    def parts(self) -> Array:
        """What each element adds to the output, `(B, *input)`: its share where a score is that of several together.

        A feature's score is that of all its elements together, unless they were scored themselves (`per_element`); a
        pixel's may be that of all its channels (`per_pixel`). Sums of these over elements mean something.
        """
        if self.per_pixel:
            axis = self.channel_axis
            return self.heatmap / (1 if axis is None else self.inputs.shape[1 + axis])
        if self.per_element:
            return self.heatmap
        return replace(self, scores=self.scores / self._n_elements).heatmap

    @property
    def _n_elements(self) -> Array:
        """How many elements each feature has, `(B, F)` or `(1, F)`, at least 1."""
        rows = self.elements.reshape(-1 if self.elements.ndim == self.inputs.ndim else 1, self.inputs[0].size)
        n_features = self.scores.shape[1]
        return (
            np.stack([np.bincount(row[row >= 0], minlength=n_features) for row in rows]).clip(min=1).astype(np.float64)
        )

    @property
    def present(self) -> Array:
        """Which features exist in each input, `(B, F)`: an image may have fewer superpixels than were asked for.

        Of sparse rows those that are not 0.
        """
        if self.sparse:
            return np.asarray(self.inputs != 0)
        if self.elements.ndim < self.inputs.ndim:
            return np.ones(self.scores.shape, dtype=bool)
        found = np.zeros(self.scores.shape, dtype=bool)
        of_element = self.elements.reshape(len(self), -1)
        inputs, places = np.nonzero(of_element >= 0)
        found[inputs, of_element[inputs, places]] = True
        return found

    @property
    def channel_axis(self) -> int | None:
        """Which axis of one image holds its channels; None if it has none.

        All channels of a pixel belong to one feature, so that the features do not vary along it; or each channel is a
        feature. Where that leaves both ends open, it is the last axis if only that one has at most four entries, else
        the first.
        """
        if self.inputs.ndim == 3:
            return None
        elements = self.elements if self.elements.ndim == 3 else self.elements[0]
        constant = [axis for axis in (0, 2) if (elements == elements.take([0], axis)).all()]
        if len(constant) == 1:
            (axis,) = constant
            by_channel = elements.shape[2 - axis] <= 4 < elements.shape[axis]  # and varies along that alone
            return 2 - axis if by_channel and (elements == elements.take([0], 1)).all() else axis
        first, last = self.inputs.shape[1], self.inputs.shape[3]
        return 2 if first > 4 >= last else 0

    def value(self, i: int, feature: int) -> str:
        """Return the value of a feature in input `i` as text."""
        return self.presenter.value(self, i, feature)

    def ranked(self, i: int = 0) -> Array:
        """Return the features that input `i` has, from the most important to the least."""
        order: Array = np.argsort(-self.scores[i], kind="stable")
        return np.compress(self[i].present[0, order], order)

    def name(self, i: int, feature: int) -> str:
        """Return how a feature of input `i` is called; an edge by the nodes that it joins."""
        return self.presenter.name(self, i, feature)

    def node_name(self, node: int) -> str:
        """Return how a node of a graph is called: as the user named it, else by its number."""
        return self.node_names[node] if self.node_names else str(node)

    def title(self, i: int = 0) -> str:
        """Return how input `i` is called: by its id, e.g. `row 17` where that is a number; a node by its name."""
        return self.presenter.title(self, i)

    @property
    def presenter(self) -> "Presenter":
        """Who shows it in words, pictures and pages: that of its modality."""
        from fans.modalities.registry import presenter_of

        return presenter_of(self.modality)

    def target_name(self, i: int = 0) -> str:
        """Return how the explained output of input `i` is called: `P(malignant)`; a regressor's by its own name."""
        if self.kind == "output":
            if len(self.target_names) > 1:
                return f"output {self.target_names[self.target[i]]}"
            return next((name for name in self.target_names if name != "0"), "the output")
        return f"P({self.target_names[self.target[i]]})"

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int | slice | Sequence[int] | Array) -> Self:
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                raise IndexError(f"Expected an index below {len(self)}, got {index}")
            index = [int(index) % len(self)]
        chosen = np.arange(len(self))[index]
        taken: dict[str, Any] = {
            "evaluations": {k: v if k == "shared" else v[chosen] for k, v in self.evaluations.items()},
            "details": {name: tuple(entries[i] for i in chosen) for name, entries in self.details.items()},
        }
        for name in self.per_input:
            value = getattr(self, name)
            if isinstance(value, tuple):
                taken[name] = tuple(value[i] for i in chosen)
            elif value is not None:
                taken[name] = value[chosen]
        return replace(self, **taken)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(method={self.method!r}, inputs={len(self)}, features={self.scores.shape[1]})"

    @property
    def per_input(self) -> tuple[str, ...]:
        """Fields that have an entry for each input."""
        return (*self._PER_INPUT, "elements") if self.elements.ndim == self.inputs.ndim else self._PER_INPUT


@dataclass(frozen=True, kw_only=True)
class Explanation(Attribution):
    """Which features were necessary and sufficient for each prediction: an attribution with subsets and their PNS.

    Attributes:
        subset: `(B, F)` bool, the smallest that has nearly the highest PNS; empty where nothing changes the prediction.
        direction: `(B, F)` by how much perturbing the feature moves the explained output on average, signed; NaN where
            it was not measured.
        stability: `(B, F)` share of resampled draws in which the feature is in the subset.
        pns, pn, ps: `(B,)` strict estimates for `subset`, from draws that had no part in choosing it.
        changes: `(B,)` share of nearby trials in which perturbing the subset changes the prediction.
        holds: `(B,)` share of nearby trials in which perturbing everything else leaves it.
        interval: `(B, 3, 2)` of pns, pn, ps by low, high, at `confidence`.
        share_interval: `(B, 2, 2)` of changes, holds by low, high, likewise; NaN in explanations that were saved before
            it was kept.
        ess: `(B, 2)` effective number of samples behind PN and PS.
        radius, tolerance: `(B,)` the neighbourhood's size and the change still counted as none.
        change: what counted as a changed prediction.
        notes: one sentence per input on what could not be estimated, or "".
    """

    subset: Array
    direction: Array
    stability: Array
    pns: Array
    pn: Array
    ps: Array
    changes: Array
    holds: Array
    interval: Array
    share_interval: Array
    ess: Array
    radius: Array
    tolerance: Array
    confidence: float
    change: str
    notes: tuple[str, ...]

    _PER_INPUT: ClassVar[tuple[str, ...]] = (
        *(*Attribution._PER_INPUT, "subset", "direction", "stability", "pns", "pn", "ps", "changes", "holds"),
        *("interval", "share_interval", "ess", "radius", "tolerance", "notes"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        n, n_features = self.scores.shape
        expected: dict[str, tuple[int, ...]] = dict.fromkeys(("subset", "direction", "stability"), (n, n_features))
        expected |= {"interval": (n, 3, 2), "share_interval": (n, 2, 2), "ess": (n, 2)}
        self._check_shapes(
            expected | dict.fromkeys(("pns", "pn", "ps", "changes", "holds", "radius", "tolerance"), (n,))
        )

    @property
    def mask(self) -> Array:
        """The chosen subset in the input's own shape, `(B, *input)` bool."""
        return replace(self, scores=self.subset).heatmap

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found of each input in plain sentences, computed from its estimates; `print` is shorter."""
        from fans.report.sentences import sentence

        return tuple(sentence(self, i) for i in range(len(self)))

    def chosen_names(self, i: int = 0) -> list[str]:
        """Return the names of the chosen features of input `i`, the most important first."""
        return [self.name(i, f) for f in self.ranked(i) if self.subset[i, f]]

    def __str__(self) -> str:
        from fans.report.sentences import printed

        return printed(self)

    def __repr__(self) -> str:
        sizes = f"inputs={len(self)}, features={len(self.feature_names)}, chosen={self._chosen_text()}"
        return f"Explanation(method={self.method!r}, {sizes})"

    def _chosen_text(self) -> str:
        """Return how many features the subsets have, e.g. `2` or `0 to 5`."""
        counts = self.subset.sum(1)
        if not len(counts) or counts.min() == counts.max():
            return str(counts.max(initial=0))
        return f"{counts.min()} to {counts.max()}"

    def _repr_html_(self) -> str:
        from fans.report.html import fragment

        return fragment(self)

    def plot(
        self, path: str | Path | None = None, *, kind: str = "input", top: int = 10, columns: int | None = None
    ) -> Any:
        """Draw with matplotlib and return the figure, which a notebook shows by itself.

        Args:
            path: where to write it as well.
            kind: `"input"`: each input (at most twelve) as its modality shows it; `"bars"`: the leading features of
                each with intervals, of any modality; `"keep_change"`: all inputs by how often keeping and changing the
                subset do it, in four quadrants; `"often"`: in what share of all subsets each feature is.
            top: features shown of a row of a table, of bars, and by `"often"`; an image shows all of its own.
            columns: inputs side by side; by default three, two of four rows, of rows with long names or of images.
        """
        from fans.report.plots import draw

        return draw(self, path, kind, top, columns)

    def plot_history(self, path: str | Path | None = None) -> Any:
        """Draw how the loss of each input fell, step by step, for a method that takes steps; return the figure."""
        from fans.report.figures import plot_history

        return plot_history(self, path)

    def overview(self, *, by_class: bool = False) -> "Overview":
        """Return a global view: how often each column is in the subset, its mean score, what its values do.

        Args:
            by_class: a section for each explained class instead of one for all inputs.
        """
        from fans.report.overview import overview

        return overview(self, by_class=by_class)

    def serve(self, explainer: Any = None, **settings: Any) -> Any:
        """Show the inputs on a local page, on which features are clicked in and out; stay until Ctrl-C in a script.

        Args:
            explainer: who made the explanation, to be asked about further subsets.
            settings: `curves` and `x` of the same inputs, `title`; `host`, `port`, `token` and `wait` of `fans.serve`.
        """
        from fans.serve import InMemory, serve

        about = {name: settings.pop(name) for name in ("curves", "x", "title") if name in settings}
        return serve(InMemory(self, explainer, **about), **settings)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained HTML page and return its path."""
        from fans.report.html import page

        return page(self, path)

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per input and feature that it has."""
        from fans.report.frames import to_frame

        return to_frame(self)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` of the scores, for shap's own plots; of images, by pixel.

        Scores are no parts of a sum: waterfall, force and decision plots are refused, but of `method="kernel_shap"`.
        """
        from fans.report.frames import to_shap

        return to_shap(self)

    def save(self, path: str | Path) -> Path:
        """Write the explanation as one safetensors file, its text as JSON in the header; return the path."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        from fans.files import writing

        arrays = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), np.ndarray)}
        text = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in arrays and f.name != "evaluations"}
        arrays |= {f"evaluations/{phase}": np.asarray(rows) for phase, rows in self.evaluations.items()}
        try:
            with writing(path) as temporary:
                save_file({k: np.array(v, order="C") for k, v in arrays.items()}, temporary, {"fans": json.dumps(text)})
        except SafetensorError as error:
            raise OSError(f"Expected a place to write {path}, got: {error}") from None
        return Path(path)


A = TypeVar("A", bound=Attribution)


def join(parts: Sequence[A], places: Sequence[Sequence[int]]) -> A:
    """Put what one explainer says of inputs that differ in size together, in the order of their places."""
    if len(parts) == 1:
        return parts[0]
    joined: dict[str, Any] = {}
    for name in parts[0].per_input:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], tuple):
            joined[name] = tuples_in_order(values, places)
        elif values[0] is not None:
            joined[name] = in_order(values, places, _ABSENT.get(name, 0))
    phases = {k: in_order([p.evaluations[k] for p in parts], places) for k in parts[0].evaluations if k != "shared"}
    joined["details"] = {k: tuples_in_order([tuple(p.details[k]) for p in parts], places) for k in parts[0].details}
    widest = max(parts, key=lambda part: part.scores.shape[1])
    return replace(widest, **joined, evaluations=phases | {"shared": parts[0].evaluations["shared"]})


_ABSENT: Mapping[str, float] = {"elements": -1, "edges": -1, "direction": math.nan}
"""What stands in explanations for features and elements that an input does not have; else 0."""


def load(path: str | Path) -> Explanation:
    """Read an explanation written by `Explanation.save`. Nothing in the file is executed."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise InputError(f"Expected an explanation saved with `save`, got no file at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            text = json.loads((file.metadata() or {})["fans"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        evaluations = {k.removeprefix("evaluations/"): v for k, v in arrays.items() if k.startswith("evaluations/")}
        arrays = {k: v for k, v in arrays.items() if not k.startswith("evaluations/")}
        text = {k: tuple(v) if isinstance(v, list) else v for k, v in text.items()}
        text["details"] = {name: tuple(entries) for name, entries in text.get("details", {}).items()}
        if "share_interval" not in arrays:  # saved before it was kept
            arrays["share_interval"] = np.full((len(arrays["pns"]), 2, 2), np.nan)
        if "edges" in arrays:  # what an input does not have once belonged to a feature that was nobody's
            arrays["elements"] = np.where(arrays["edges"][..., 0] < 0, -1, arrays["elements"])
        return Explanation(**arrays, **text, evaluations=evaluations)
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise InputError(f"Expected an explanation saved with `save`, got {path}, which is not one ({error})") from None
