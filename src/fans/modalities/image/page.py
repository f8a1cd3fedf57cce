"""Explained images within an HTML page."""

from html import escape

import numpy as np

from fans.explanation import Explanation
from fans.modalities.image.pictures import panels
from fans.report.colours import STOPS, coloured
from fans.report.pixels import data_uri
from fans.report.sentences import subset_caption


def colour_scale(low: float, largest: float) -> str:
    """Return the colours of scores, one scale for all images shown, below 0 only as far as they go."""
    span = largest - low
    places = [(at, colour) for at, colour in STOPS if at >= 0]
    stops = [f"{colour} {100 * (at * largest - low) / span:.1f}%" for at, colour in places]
    if low < 0:
        first = coloured(np.array(low / largest)) * 255
        stops.insert(0, f"rgb({', '.join(f'{part:.0f}' for part in first)}) 0%")
    return (
        f"<div class='scale'>score: {low:.2g}"
        f"<div style='background: linear-gradient(to right, {', '.join(stops)})'></div>{largest:.2g}</div>"
    )


def pictures(e: Explanation, i: int, largest: float) -> str:
    """Return an image, its scores and its subset, each as a PNG within the page."""
    captions = ("image", "scores", subset_caption(e, i))
    figures = [
        f'<figure><img alt="{escape(f"{e.title(i)}: {caption}")}" src="{data_uri(panel)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, panel in zip(captions, panels(e, i, largest), strict=True)
    ]
    return f"<div class='pictures'>{''.join(figures)}</div>"
