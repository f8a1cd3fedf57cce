"""Explained series as the explorer draws them: a line for each channel, and its windows."""

from dataclasses import replace
from typing import Any

from fans.explanation import Explanation
from fans.modalities.series.charts import Chart, chart
from fans.types import Array


def scene(e: Explanation, i: int) -> dict[str, Any]:
    """Return lines, windows and round times."""
    return _drawn(chart(e, i))


def small(e: Explanation, i: int) -> dict[str, Any]:
    """Return the lines of the first channels alone."""
    found = _drawn(chart(e, i))
    step = -(-len(found["panels"][0]["values"]) // 200)
    panels = [panel | {name: panel[name][::step] for name in ("values", "times")} for panel in found["panels"][:2]]
    return found | {"panels": panels}


def trial(e: Explanation, after: Array) -> dict[str, Any]:
    """Return the lines that the model was given, on the axes of the explained series."""
    axes = {panel.name: panel for panel in chart(e, 0).panels}
    found = chart(replace(e, inputs=after[None]), 0)
    panels = tuple(
        replace(panel, low=min(panel.low, axes[panel.name].low), high=max(panel.high, axes[panel.name].high))
        for panel in found.panels
        if panel.name in axes
    )
    return _drawn(replace(found, panels=panels))


def _drawn(found: Chart) -> dict[str, Any]:
    """Return panels as plain values; times as shares of the whole, from 0 to 1."""
    places, texts = found.times.ticks(7)
    first, last = float(found.times.edges[0]), float(found.times.edges[-1])

    def across(time: float) -> float:
        return round((float(time) - first) / ((last - first) or 1.0), 6)

    return {
        "kind": "series",
        "ticks": [{"at": across(at), "text": text} for at, text in zip(places, texts, strict=True)],
        "panels": [
            {
                "name": panel.name,
                "times": [across(time) for time in panel.times],
                "values": [float(f"{v:.5g}") for v in panel.values],
                "low": panel.low,
                "high": panel.high,
                "windows": [{"start": across(w.start), "end": across(w.end), "f": w.feature} for w in panel.windows],
            }
            for panel in found.panels
        ],
        "left_out": found.left_out,
    }
