"""Pictures as plain parts (boxes, lines, dots, texts), so that SVG and matplotlib draw the same."""

from dataclasses import dataclass
from html import escape
from typing import Literal

from fans.report.colours import INK
from fans.types import Array

LETTER = 0.6
"""Mean width of a letter, as a share of the size of the type; wider than in most fonts."""

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A filled rectangle from its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    colour: str


@dataclass(frozen=True)
class Line:
    """A line from one point to another."""

    x: float
    y: float
    x2: float
    y2: float
    colour: str = INK
    width: float = 1.0


@dataclass(frozen=True)
class Dots:
    """Dots of one colour and size at places `(n,)`."""

    x: Array
    y: Array
    radius: float
    colour: str


@dataclass(frozen=True)
class Text:
    """Words on a line: where it begins, has its middle, or ends."""

    x: float
    y: float
    words: str
    size: float = 12.0
    colour: str = INK
    anchor: Anchor = "start"
    bold: bool = False


Part = Box | Line | Dots | Text


@dataclass(frozen=True)
class Scene:
    """A picture in pixels, y downward: later parts cover earlier ones."""

    width: float
    height: float
    parts: tuple[Part, ...]


def text_width(words: str, size: float = 12.0) -> float:
    """Return about how wide words are; the letters of Chinese, Japanese and Korean are as wide as high."""
    return size * sum(LETTER if ord(letter) < 0x2E80 else 1.0 for letter in words)


def fitted(words: str, width: float, size: float = 12.0) -> str:
    """Return words cut so that they fit."""
    if text_width(words, size) <= width:
        return words
    while words and text_width(words + "…", size) > width:
        words = words[:-1]
    return words.rstrip() + "…"


def svg(scene: Scene, label: str) -> str:
    """Return a scene as SVG to embed; the dots of a colour are one path, a few bytes each."""
    box = f"viewBox='0 0 {scene.width:g} {scene.height:g}' width='{scene.width:g}'"
    parts = "".join(_svg_part(part) for part in scene.parts)
    return f"<svg role='img' aria-label='{escape(label)}' {box} style='max-width:100%;height:auto'>{parts}</svg>"


def _svg_part(part: Part) -> str:
    match part:
        case Box(x, y, width, height, colour):
            return f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{colour}'/>"
        case Line(x, y, x2, y2, colour, width):
            ends = f"x1='{x:.1f}' y1='{y:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
            return f"<line {ends} stroke='{colour}' stroke-width='{width:g}'/>"
        case Dots(xs, ys, radius, colour):
            path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
            return f"<path d='{path}' stroke='{colour}' stroke-width='{2 * radius:g}' stroke-linecap='round'/>"
        case Text(x, y, words, size, colour, anchor, bold):
            style = f"font-size='{size:g}' fill='{colour}' text-anchor='{anchor}' font-weight='{600 if bold else 400}'"
            return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(words)}</text>"
