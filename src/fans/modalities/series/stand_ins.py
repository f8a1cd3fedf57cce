"""What stands in for a missing window, made of the series itself: lines, means, smoothed copies; `(n, C, T)` each."""

import torch
from torch import Tensor


def own_means(series: Tensor) -> Tensor:
    """Return each channel's own mean, all along."""
    return series.mean(2, keepdim=True).expand_as(series)


def chords(series: Tensor, starts: Tensor) -> Tensor:
    """Return in each window, from one of `starts` to the next, the line between its two neighbours.

    The first window and the last have one neighbour, whose value they take all along. A window that is all of a series
    has none, and takes the mean.
    """
    n_steps = series.shape[2]
    if len(starts) == 1:
        return own_means(series)
    ends = torch.cat([starts[1:], torch.tensor([n_steps])])
    step = torch.arange(n_steps)
    window = torch.searchsorted(ends, step, right=True)
    first, last = starts[window], ends[window]
    left, right = torch.where(first > 0, first - 1, last), torch.where(last < n_steps, last, first - 1)
    share = (step - first + 1) / (last - first + 1)
    return torch.lerp(series[..., left], series[..., right], share.to(series.dtype))


def blurred(series: Tensor, sigma: float) -> Tensor:
    """Return the series smoothed by a Gaussian of so many steps, which is cut and weighed anew at the ends."""
    n_steps = series.shape[2]
    reach = min(n_steps - 1, int(4 * sigma) + 1)
    weights = torch.exp(-(torch.arange(-reach, reach + 1, dtype=torch.float64) ** 2) / (2 * sigma**2))
    long = n_steps + 2 * reach
    spectrum = torch.fft.rfft(weights, n=long)

    def summed(lines: Tensor) -> Tensor:
        out: Tensor = torch.fft.irfft(torch.fft.rfft(lines, n=long) * spectrum, n=long)
        return out[..., reach : reach + n_steps]

    out = summed(series.double()) / summed(torch.ones(n_steps, dtype=torch.float64))
    return out.to(series.dtype)
