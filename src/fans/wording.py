"""Numbers and times as people write them."""

from statistics import NormalDist

import numpy as np


def normal_quantile(confidence: float) -> float:
    """Return the two-sided quantile of the normal distribution, e.g. 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def plain_number(value: float, digits: int = 4) -> str:
    """Write a number as people do: 0.1056, 12.45, 1984, 21,390; an exponent only where it is tiny or huge.

    >>> [plain_number(value) for value in (0.10562, 1984.0, 21390.4, -1e6, 2.5e-7, 3e20)]
    ['0.1056', '1984', '21,390', '-1,000,000', '2.5e-07', '3e+20']
    """
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"
    return f"{value:.{digits}g}"


def time_text(microseconds: float, kind: str) -> str:
    """Write a moment or a length of time, as far as it is not zero.

    >>> time_text(1.7e15, "date"), time_text(8.64e10, "date UTC"), time_text(2e11, "duration")
    ('2023-11-14 22:13:20', '1970-01-02 UTC', '2 days 07:33:20')
    """
    whole = round(microseconds)
    if kind == "duration":
        days, rest = divmod(whole, 86_400_000_000)
        clock = str(np.datetime64(rest, "us")).partition("T")[2].partition(".")[0]
        return " ".join(filter(None, [_count(days, "day") if days or not rest else "", clock if rest else ""]))
    moment = str(np.datetime64(whole, "us")).replace("T", " ")
    shown = moment.removesuffix(".000000").removesuffix(" 00:00:00")
    return shown + (" UTC" if kind == "date UTC" else "")


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
