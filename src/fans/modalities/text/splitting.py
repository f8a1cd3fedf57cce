"""Where the words, sentences and tokens of a text are: spans `(start, end)`, none overlapping, in their order.

A word is a run of letters, digits and their marks, with apostrophes and decimal points inside it. A sign of a script
without spaces between words is one by itself, as is an emoji with all its modifiers.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from fans.errors import InputError

Span = tuple[int, int]

_JOINER = "\u200d"
_IDEOGRAPHS = (
    *((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    *((0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF)),
)
"""Chinese and Japanese signs."""

_UNIT = {
    "word": r"(?:[ld][xj]*)+(?:(?:q(?=l)|(?<=d)p(?=d))(?:[ld][xj]*)+)*",
    "ideograph": r"i[xj]*",
    "flag": r"r[xj]*r?",
    "symbol": r"e[xj]*(?:(?<=j)e[xj]*)*",
}
_WORDS = re.compile("|".join(_UNIT.values()))
_MARKS = re.compile("|".join([*_UNIT.values(), r"[oqp][xj]*"]))
_SENTENCE_END = re.compile(r"(?:[.!?\u2026\u061f\u06d4\u0964]+[\"'\u2019\u201d)\]]*(?=\s|$))|[\u3002\uff01\uff1f]+|\n+")


@lru_cache(maxsize=4096)
def _kind(letter: str) -> str:
    """Return what a letter is, as one letter that the patterns above are written in."""
    code, category = ord(letter), unicodedata.category(letter)
    if letter.isspace():
        return " "
    if letter == _JOINER:
        return "j"
    if category[0] == "M" or letter == "\u200c" or 0x1F3FB <= code <= 0x1F3FF:
        return "x"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "r"
    if any(low <= code <= high for low, high in _IDEOGRAPHS) and category[0] in "LN":
        return "i"
    return {"L": "l", "N": "d"}.get(category[0]) or {"So": "e"}.get(category) or _SIGNS.get(letter, "o")


_SIGNS = {"_": "l", "'": "q", "\u2019": "q", ".": "p", ",": "p"}


def words(text: str, *, punctuation: bool = False) -> list[Span]:
    """Return the spans of words, and of punctuation marks if these count.

    Example:
        >>> text = "Don't pay 3.50!"
        >>> [text[a:b] for a, b in words(text)], len(words(text, punctuation=True))
        (["Don't", 'pay', '3.50'], 4)
    """
    kinds = "".join(map(_kind, text))
    return [found.span() for found in (_MARKS if punctuation else _WORDS).finditer(kinds)]


def sentences(text: str) -> list[Span]:
    """Return the spans of sentences that have a word, without the space around them; abbreviations end some early."""
    ends = [0, *(found.end() for found in _SENTENCE_END.finditer(text)), len(text)]
    parts = [_trimmed(text, a, b) for a, b in itertools.pairwise(ends)]
    return [(a, b) for a, b in parts if words(text[a:b])]


def _trimmed(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def by_function(function: Callable[[str], Any], text: str) -> list[Span]:
    """Return the spans of the pieces that the user's own function finds in a text, one after the other."""
    spans, at = [], 0
    for piece in function(text):
        start = text.find(piece, at) if isinstance(piece, str) and piece else -1
        if start < 0:
            raise InputError(
                "Expected a `tokenizer` that returns the pieces of a text in their order, each as it is written there, "
                f"got {piece!r} from {text[at : at + 40]!r}"
            )
        at = start + len(piece)
        spans.append((start, at))
    return spans


def joined(spans: Sequence[Span], n: int) -> list[list[Span]]:
    """Return the spans in `n` groups of neighbours, as even as can be."""
    edges = [len(spans) * k // n for k in range(n + 1)]
    return [list(spans[a:b]) for a, b in itertools.pairwise(edges)]


def begins_at_the_right(text: str) -> bool:
    """Tell whether a text is written from right to left, by its first letter that has a direction."""
    return next((d != "L" for d in map(unicodedata.bidirectional, text) if d in ("L", "R", "AL")), False)
