"""Infidelity: how far scores are from predicting what a perturbation does to the output."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fans.engine.draws import noise, uniform
from fans.errors import InputError, check_whole, choose, is_number
from fans.metrics.base import Case, Make, Metric, Output

Kind = Literal["formula", "published", "patch", "scale_free"]

_IGNORED: dict[str, tuple[str, ...]] = {
    "formula": ("n_repeats", "patch", "low", "high"),
    "published": ("n_draws", "low", "high", "output"),
    "patch": ("n_draws",),
    "scale_free": ("n_draws",),
}


@dataclass(frozen=True)
class Infidelity(Metric):
    """Mean squared difference of what scores a say a change of the input does to f, and what it does.

    `mean over changed copies x~ of ((x - x~) . a - (f(x) - f(x~)))^2`, f the target's output. The four kinds have
    other copies, or another product, and different scales: never put two of them in one column.

    - `"formula"`: the paper's text. `x~ = x * m`, every entry of m uniform in (0, 1).
    - `"patch"`: `x~` has one patch replaced, by one uniform value a channel; all patches, independent of each other.
    - `"scale_free"`: `"patch"` with the scores times the best factor, `min over b of mean (b d - delta)^2`, d being
      the product and delta the change of f; b is 0 where d is. As captum's `normalize=True`; not divided by the mean
      of delta^2, so it is 0 to that mean, in the output's units squared.
    - `"published"`: what stands behind the paper's table, Quantus 0.4.3 as the authors call it. Patches accumulate:
      copy k has the patches 0 to k replaced. They cover rows `i p - p + 1` to `i p` (columns alike), so the first are
      cut off and the last p - 1 rows and columns stay clean. Values are uniform in (0, 1) whatever the range of the
      data. And the product is not one: `C * sum_l (sum_cj a[c, j, l]) (sum_cm D[c, l, m])`, columns of a by rows of
      `D = x - x~`. Raw outputs only; the image must be square. Sides that p does not divide have one more patch, where
      Quantus fails. It takes the scores as they are: where a score is that of a pixel or a patch, every channel has it
      whole, as in what captum returns; the other kinds give each element its share (`Case.parts`).

    Args:
        kind: see above.
        n_draws: copies of an input, of `"formula"`.
        n_repeats: rounds over all patches, of the others.
        patch: p, side of a patch in pixels.
        low: of the values that replace a patch.
        high: of these values.
        output: which f, the raw output or the probability.
    """

    name: ClassVar[str] = "infidelity"
    label: ClassVar[str] = "Infidelity"
    higher_is_better: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    citation: ClassVar[str] = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"

    asks_once: ClassVar[bool] = True

    kind: Kind = "patch"
    n_draws: int = 100
    n_repeats: int = 5
    patch: int = 4
    low: float = 0.0
    high: float = 1.0
    output: Output = "raw"

    def __post_init__(self) -> None:
        choose("`kind`", self.kind, _IGNORED)
        choose("`output`", self.output, ("raw", "probability"))
        for name in ("n_draws", "n_repeats", "patch"):
            check_whole(name, getattr(self, name), 1)
        if not (is_number(self.low) and is_number(self.high) and -math.inf < self.low < self.high < math.inf):
            raise InputError(f"Expected numbers `low` < `high`, got {self.low!r} and {self.high!r}")
        self.refuse_ignored(_IGNORED[self.kind], f"kind={self.kind!r}")

    @property
    def asks(self) -> Hashable:
        """The answers to the same patches serve both kinds."""
        return replace(self, kind="patch") if self.kind == "scale_free" else self

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse what patches or the published product cannot be taken of."""
        if self.kind == "formula":
            return
        self.check_images(shape)
        if self.kind == "published" and shape[1] != shape[2]:
            raise InputError(
                f"Expected square images for kind='published', got {shape[1]} by {shape[2]} pixels; use kind='patch'"
            )

    def cost(self, shape: tuple[int, ...]) -> int:
        """The input itself and every copy."""
        return 1 + self._n_copies(shape)

    def score(self, case: Case) -> Tensor:
        """Compare what the scores say of each copy with what the model answered."""
        shared = "patch" if self.kind == "scale_free" else self.kind
        about = (self.name, shared, self._n_copies(tuple(case.inputs.shape[1:])), self.patch, self.low, self.high)
        delta = case.remember((*about, self.output), lambda: self._changes(case))
        said = self._say_formula(case) if self.kind == "formula" else self._say_patches(case)
        if self.kind == "scale_free":
            square = (said * said).sum(1, keepdim=True)
            said = said * (said * delta).sum(1, keepdim=True) / torch.where(square > 0, square, 1.0)
        return (said - delta).square().mean(1)

    def _shares(self, case: Case) -> Tensor:
        """Return what each element adds; the published kind takes a heatmap as it is shown."""
        return case.scores if case.parts is None or self.kind == "published" else case.parts.to(case.scores.device)

    def _n_copies(self, shape: tuple[int, ...]) -> int:
        if self.kind == "formula":
            return self.n_draws
        return self.n_repeats * math.ceil(shape[1] / self.patch) * math.ceil(shape[2] / self.patch)

    def _changes(self, case: Case) -> Tensor:
        """Return by how much the output falls from the input to each copy, `(B, K)`."""
        n_copies = self._n_copies(tuple(case.inputs.shape[1:]))
        make = self._copy_formula(case) if self.kind == "formula" else self._copy_patches(case)
        after = case.ask(n_copies, make, output=self.output)
        return case.of_target(case.before, case.target, self.output)[:, None] - after

    # --- The formula --------------------------------------------------------------------------------------------------

    def _copy_formula(self, case: Case) -> Make:
        """Return the function that makes `x * m`."""
        keys = case.keys(f"{self.name}/formula")
        n_elements = case.inputs[0].numel()

        def make(which: Tensor, copy: Tensor) -> Tensor:
            kept = noise(keys[which], copy, n_elements, 0.0, 1.0).to(case.inputs.dtype)
            return case.inputs[which] * kept.view(-1, *case.inputs.shape[1:])

        return make

    def _say_formula(self, case: Case) -> Tensor:
        """Return `(x - x * m) . a`, `(B, K)`."""
        make = self._copy_formula(case)
        parts = []
        for which, copy in case.chunks(self.n_draws):
            moved = (case.inputs[which] - make(which, copy)).double()
            parts.append((moved * self._shares(case)[which]).flatten(1).sum(1))
        return torch.cat(parts).view(len(case), self.n_draws).cpu()

    # --- Patches ------------------------------------------------------------------------------------------------------

    def _owners(self, case: Case) -> tuple[Tensor, int]:
        """Return the patch `(H, W)` that each pixel is in, and how many there are; that number itself: in none."""
        n_rows, n_columns = (math.ceil(side / self.patch) for side in case.inputs.shape[2:])
        shift = self.patch - 1 if self.kind == "published" else 0
        rows, columns = ((torch.arange(side) + shift) // self.patch for side in case.inputs.shape[2:])
        inside = (rows < n_rows)[:, None] & (columns < n_columns)
        owners = torch.where(inside, rows[:, None] * n_columns + columns, n_rows * n_columns)
        return owners.to(case.inputs.device), n_rows * n_columns

    def _fills(self, case: Case, n_patches: int) -> Tensor:
        """Return the value of each repeat, channel and patch, `(B, R, C, P)`, as the inputs' numbers can hold it."""
        n_channels = case.inputs.shape[1]
        stage = "published" if self.kind == "published" else "patch"
        places = torch.arange(self.n_repeats * n_patches * n_channels, device=case.inputs.device)
        drawn = uniform(case.keys(f"{self.name}/{stage}")[:, None], places)
        fills = (self.low + (self.high - self.low) * drawn).to(case.inputs.dtype)
        return fills.view(len(case), self.n_repeats, n_patches, n_channels).transpose(2, 3)

    def _copy_patches(self, case: Case) -> Make:
        """Return the function that replaces a patch, or all up to it."""
        owners, n_patches = self._owners(case)
        fills = self._fills(case, n_patches)
        looked_up = owners.flatten().clamp(max=n_patches - 1)

        def make(which: Tensor, copy: Tensor) -> Tensor:
            images = case.inputs.index_select(0, which)
            values = fills[which, copy // n_patches].index_select(2, looked_up).view_as(images)
            last = (copy % n_patches)[:, None, None, None]
            return torch.where(owners <= last if self.kind == "published" else owners == last, values, images)

        return make

    def _say_patches(self, case: Case) -> Tensor:
        """Return what the scores say of each copy, `(B, K)`, from sums over patches: no copy is made again.

        The product is linear in `D = x - x~`, and D is x less one value a channel on every replaced patch.
        """
        owners, n_patches = self._owners(case)
        n_channels = case.inputs.shape[1]
        fills = self._fills(case, n_patches).double()
        scores = self._shares(case).double()
        if self.kind == "published":  # every pixel of row l weighs as much as all scores of column l
            scores = (n_channels * scores.sum((1, 2)))[:, None, :, None].expand_as(scores)
        of_image, of_one = (_sums(v, owners, n_patches) for v in (case.inputs.double() * scores, scores))
        said = of_image.sum(1)[:, None] - (fills * of_one[:, None]).sum(2)  # (B, R, P)
        if self.kind == "published":
            said = said.cumsum(2)
        return said.flatten(1).cpu()


def _sums(values: Tensor, owners: Tensor, n_patches: int) -> Tensor:
    """Sum values `(B, C, H, W)` over every patch: `(B, C, P)`."""
    sums = torch.zeros(*values.shape[:2], n_patches + 1, dtype=values.dtype, device=values.device)
    return sums.index_add_(2, owners.flatten(), values.flatten(2))[:, :, :n_patches]
