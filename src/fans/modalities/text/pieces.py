"""A text and the features it falls into: what they are called, and the text with some of them replaced."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import category

from fans.modalities.text.splitting import Span, words
from fans.report.sentences import shortened

LONGEST_NAME = 60
"""Letters of the name of a sentence or a passage."""

StandIn = Callable[[float, int], str]
"""What stands in a text for so many words of a feature that is not there, given the number that says how it is not."""


@dataclass(frozen=True)
class Cut:
    """A text, cut into features.

    Attributes:
        text: as it was given.
        features: the spans of each, none overlapping another.
    """

    text: str
    features: tuple[tuple[Span, ...], ...]

    @property
    def plain(self) -> list[str]:
        """What each feature is as it is written, where it comes first."""
        return [self.text[slice(*spans[0])] for spans in self.features]

    @property
    def names(self) -> list[str]:
        """Names of the features, no two alike: those written alike are counted, as in `weak (2nd)`."""
        texts = [shortened(readable(text), LONGEST_NAME) for text in self.plain]
        total, seen, names = Counter(texts), Counter[str](), []
        for text in texts:
            seen[text] += 1
            names.append(f"{text} ({ordinal(seen[text])})" if total[text] > 1 else text)
        return names

    @cached_property
    def _places(self) -> list[tuple[str, int, str, int]]:
        """For each span in order: what is before it, its feature, what it says, and how many words it has."""
        spans = sorted((span, feature) for feature, some in enumerate(self.features) for span in some)
        ends = [0, *(end for (_, end), _ in spans)]
        return [
            (self.text[before:start], feature, self.text[start:end], max(1, len(words(self.text[start:end]))))
            for before, ((start, end), feature) in zip(ends, spans, strict=False)
        ]

    @cached_property
    def _tail(self) -> str:
        return self.text[max((end for spans in self.features for _, end in spans), default=0) :]

    def written(self, there: Sequence[float], stand_in: StandIn) -> str:
        """Return the text in which features that are not 1 are replaced.

        What is replaced by nothing takes the space before it along, or the space after it where there is none before.
        """
        out: list[str] = []
        bare = False  # after something that is gone and has no space before it
        for between, feature, said, n_words in self._places:
            gap = between.lstrip() if bare else between
            now = said if there[feature] == 1 else stand_in(there[feature], n_words)
            if now:
                out += (gap, now)
                bare = False
                continue
            stripped = gap.rstrip()
            bare = stripped == gap
            out.append(stripped)
        out.append(self._tail.lstrip() if bare else self._tail)
        return "".join(out)


def readable(text: str) -> str:
    """Return a text in one line, without letters that steer a terminal."""
    return "".join("\ufffd" if category(c) == "Cc" else c for c in " ".join(text.split()))


def ordinal(n: int) -> str:
    """Return a number as a place.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"
