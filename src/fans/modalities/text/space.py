"""Texts: their words, tokens or sentences, which are there, gone, masked, or replaced by words of other texts.

A row `(K,)` of a text says of each of its K features whether it is there (1) and, if not, what is in its place: nothing
(0), a mask token (-1), or words drawn from the background (2 to 3: where in its words to begin).
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, check_whole, choose, warn
from fans.explanation import Attribution
from fans.modalities.base import Baseline, Caller, FittedSpace, Noise, OfSample, Units
from fans.modalities.presence import FittedInput, FittedPieces, FittedPresence, Pieces
from fans.modalities.table.space import is_series, label_text
from fans.modalities.text.hugging_face import BATCH, Reader, Tokens, is_pipeline, is_tokenizer, labels, mask_of
from fans.modalities.text.pieces import Cut
from fans.modalities.text.splitting import Span, by_function, joined, sentences, words
from fans.types import Array

Unit = Literal["word", "token", "sentence"]

MASKED, DRAWN = -1.0, 2.0
"""What a row has for a feature that is masked, and from where on, up to 1 more, for one that is drawn."""

PASSAGES = 100
"""Features of a text that has too many words."""

MOST_DRAWN = 2**16
"""Words of the background that others are drawn from."""


@dataclass(frozen=True)
class Text(Pieces):
    """The words of a text.

    Args:
        unit: what a feature is: a `"word"`, a `"token"` of the tokenizer, or a `"sentence"`.
        tokenizer: a tokenizer of `transformers`, which a torch module needs; or, for `unit="token"`, also a function
            from a text to the list of its pieces.
        mask: what stands for a missing word with `baseline="mask"`; by default the tokenizer's mask token.
        punctuation: whether a punctuation mark is a word; if not, it always stays.
        tied: whether the same word (in any case) in several places is one feature.
        most: words or tokens of a text at most; a longer one is cut into 100 passages.

    Example:
        >>> Text().fit(["a weak film"]).split("Weak, weak film!")[0][0].feature_names
        ('Weak', 'weak', 'film')
    """

    baselines: ClassVar[tuple[str, ...]] = ("auto", "gone", "mask", "background")
    modality: ClassVar[str] = "text"
    things: ClassVar[str] = "texts"

    unit: Unit = "word"
    tokenizer: Any = None
    mask: str | None = None
    punctuation: bool = False
    tied: bool = False
    most: int = 500

    def __post_init__(self) -> None:
        choose("`unit`", self.unit, get_args(Unit))
        check_whole("most", self.most, 1)
        if self.unit == "token" and self.tokenizer is None:
            raise InputError(
                'Expected a `tokenizer` for unit="token", got none; pass one of transformers (a pipeline has '
                '`.tokenizer`) or a function from a text to its pieces, or use unit="word"'
            )
        if self.tokenizer is not None and not is_tokenizer(self.tokenizer) and not callable(self.tokenizer):
            raise InputError(
                "Expected `tokenizer` as one of transformers or as a function from a text to its pieces, got "
                f"{type(self.tokenizer).__name__}"
            )
        if self.mask is not None and (not isinstance(self.mask, str) or not self.mask.strip()):
            raise InputError(f'Expected `mask` as a word, e.g. "[MASK]", got {self.mask!r}')

    def pieces(self, x: str) -> list[str]:
        """Return the names of a text's features."""
        return self.cut(x).names

    def assemble(self, x: str, kept: Array) -> str:
        """Return a text with only those of its features that are kept."""
        return self.cut(x).written(kept.astype(float).tolist(), lambda *_: "")

    def fit(self, background: Any) -> "FittedTexts":
        """Bind to a background set of texts."""
        return FittedTexts(self, background)

    def cut(self, text: str) -> Cut:
        """Return a text cut into features."""
        spans = self._spans(text)
        if self.is_long(text, len(spans)):
            return Cut(text, tuple(((some[0][0], some[-1][1]),) for some in joined(spans, min(PASSAGES, self.most))))
        if not self.tied:
            return Cut(text, tuple((span,) for span in spans))
        by_word: dict[str, list[Span]] = {}
        for start, end in spans:
            by_word.setdefault(text[start:end].casefold(), []).append((start, end))
        return Cut(text, tuple(map(tuple, by_word.values())))

    def is_long(self, text: str, n: int | None = None) -> bool:
        """Tell whether a text has too many words or tokens, of which passages are then made; `n`: how many it has."""
        return self.unit != "sentence" and (len(self._spans(text)) if n is None else n) > self.most

    def replacements(self, text: str) -> list[Span]:
        """Return the words of a background text that others may be replaced by: its tokens if these are features."""
        return self._spans(text) if self.unit == "token" else words(text)

    def _spans(self, text: str) -> list[Span]:
        if self.unit == "word":
            return words(text, punctuation=self.punctuation)
        if self.unit == "sentence":
            return sentences(text)
        if is_tokenizer(self.tokenizer):
            return list(Tokens.of(self.tokenizer, text).spans)
        return by_function(self.tokenizer, text)


class _OfTexts(FittedPresence):
    """What a background and its inputs have in common: how rows reach a model."""

    taken: ClassVar[tuple[str, str]] = (
        "a list of texts",
        "pass the whole pipeline, with the vectorizer that makes numbers of texts",
    )
    no_gradient: ClassVar[str] = "words are there or not"
    reader: Reader | None = None

    @property
    def default_batch(self) -> int:
        """Few texts at a time for a network."""
        return super().default_batch if self.reader is None else 2 * BATCH

    @property
    def network_batch(self) -> int:
        """Fewer on the CPU."""
        return BATCH

    def asks(self, model: Any) -> bool:
        """Whether this is a pipeline of `transformers`, whose scores of all labels are asked for."""
        return is_pipeline(model)

    def output_names(self, model: Any) -> Sequence[str]:
        """Return the labels of a model of `transformers`."""
        return labels(model)

    def ask(self, model: Any, rows: Tensor, of: Tensor | None = None) -> Any:  # noqa: ARG002
        """Return the outputs of any callable on texts, or of a model of token ids."""
        if self.reader is None:
            return self.unwrap(model(self.decode(rows)), len(rows))
        return self.unwrap(self.reader.ask(model, self.given(model, rows)), len(rows))

    def given(self, model: Any, rows: Tensor) -> list[Any]:  # noqa: ARG002
        """Return what a model of token ids is given for rows, before these are made: texts, or ids."""
        return list(self.decode(rows))


class FittedTexts(_OfTexts, FittedPieces):
    """A background of texts, whose words others may be replaced by."""

    space: Text

    def __init__(self, text: Text, background: Any) -> None:
        self._container = _Container.like(background)
        super().__init__(text, listed(background, "background"))

    def bind_model(self, caller: Caller) -> "FittedTexts":
        """Return the background with how the model reads texts, where it takes token ids."""
        if not is_pipeline(caller.model) and not isinstance(caller.model, nn.Module):
            return self
        bound = copy(self)
        bound.reader = Reader.of(caller.model, self.space.tokenizer)
        return bound

    @property
    def mask(self) -> str | None:
        """What stands for a masked word."""
        if self.space.mask is not None or self.reader is None:
            return self.space.mask
        return self.reader.mask

    @property
    def missing(self) -> float:
        """What a row has for a missing word if the user does not say: a mask for models that know one."""
        return 0.0 if self.mask is None else MASKED

    def baseline(self, value: Any, background: Tensor) -> Baseline:  # noqa: ARG002
        """Return deletion, a mask, or words of the background."""
        if not isinstance(value, str):
            raise InputError(
                f"Expected `baseline` by name for texts, one of {', '.join(map(repr, Text.baselines))}, got {value!r}"
            )
        name = choose("`baseline`", value, Text.baselines)
        if name == "background":
            return Noise(DRAWN, DRAWN + 1)
        if name == "mask" and self.masking is None:
            raise InputError(
                'Expected a mask token for baseline="mask", got a tokenizer without one, or none; '
                'pass fans.spaces.Text(mask="[MASK]"), or baseline="gone"'
            )
        return OfSample(partial(torch.full_like, fill_value={"auto": self.missing, "gone": 0.0, "mask": MASKED}[name]))

    @property
    def masking(self) -> str | None:
        """What stands for a word that is to be masked: also the mask token of a tokenizer that no model uses."""
        return self.mask or mask_of(self.space.tokenizer)

    def like_background(self, texts: list[str]) -> Any:
        """Return texts in the container that the background came in."""
        return self._container(texts)

    def decode(self, rows: Tensor) -> Any:
        """Return the background's texts of these numbers."""
        return self.like_background([self.inputs[int(i)] for i in rows[:, 0]])

    def names(self, x: Any) -> Sequence[int | str] | None:
        """Return the index of a pandas series as ids, where no two of its labels are alike."""
        if not is_series(x):
            return None
        found = [int(i) if isinstance(i, int | np.integer) else label_text(i) for i in x.index]
        if len(set(found)) == len(found):
            return found
        warn("The series' index has equal labels, so that its texts go by their places; pass `ids=`")
        return None

    def split(self, x: Any) -> list[tuple[FittedSpace, Tensor, list[int]]]:
        """Return for each text a space of its own, its row, and its place."""
        given = listed(x, "x")
        read = [text[: self.reader.end(text)] if self.reader else text for text in given]
        self._warn_of_ends(given, read)
        each = [FittedText(self, text) for text in read]
        self._refuse_empty(each)
        self._warn_of_length(each)
        most = max(space.n_features for space in each)
        for space in each:
            space.most = most
        return [(space, space.encode(None, "x"), [i]) for i, space in enumerate(each)]

    def _refuse_empty(self, each: "Sequence[FittedText]") -> None:
        if not each:
            raise InputError("Expected at least one text in x, got none")
        empty = [i for i, space in enumerate(each) if not space.n_features]
        if empty:
            text = each[empty[0]].input
            got = "an empty string" if not text else f"{text[:40]!r}"
            raise InputError(
                f"Expected texts with a {self.space.unit} in them, got {got} at {empty[0]} of x; leave it out"
            )

    def _warn_of_ends(self, given: Sequence[str], read: Sequence[str]) -> None:
        """Say which texts the model does not read to their ends."""
        cut = [i for i, (text, part) in enumerate(zip(given, read, strict=True)) if len(part) < len(text)]
        if cut and self.reader:
            others = f" and of {len(cut) - 1} others" if len(cut) > 1 else ""
            warn(
                f"The model reads {self.reader.most:,} tokens, so that of text {cut[0]}{others} only the beginning is "
                f"explained ({len(read[cut[0]]):,} of {len(given[cut[0]]):,} letters); explain parts of it one by one"
            )

    def _warn_of_length(self, each: "Sequence[FittedText]") -> None:
        """Say which texts have too many words."""
        space = self.space
        long = [i for i, one in enumerate(each) if space.is_long(one.input)]
        if long:
            others = f" and {len(long) - 1} others" if len(long) > 1 else ""
            warn(
                f"Text {long[0]}{others} of more than {space.most:,} {space.unit}s is cut into "
                f"{each[long[0]].n_features} passages, which are its features; pass "
                f'fans.spaces.Text(unit="sentence"), or a larger `most` (model rows grow with it)'
            )

    def given_again(self, details: Mapping[str, Sequence[Any]]) -> list[str]:
        """Return the texts of an explanation."""
        return list(details["text"])

    def inputs_of(self, e: Attribution) -> list[str]:
        """Return the texts of an explanation."""
        return self.given_again(e.details)

    @cached_property
    def pool(self) -> list[str]:
        """Words of the background, one text after the other."""
        found: list[str] = []
        for text in self.inputs:
            found += (text[a:b] for a, b in self.space.replacements(text))
            if len(found) >= MOST_DRAWN:
                break
        return found[:MOST_DRAWN]

    @cached_property
    def token_pool(self) -> list[int]:
        """Token ids of the background, without the special ones."""
        found: list[int] = []
        for text in self.inputs:
            tokens = Tokens.of(self.space.tokenizer, text)
            found += (token for token, feature in zip(tokens.ids, tokens.features, strict=True) if feature >= 0)
            if len(found) >= MOST_DRAWN:
                break
        return found[:MOST_DRAWN]


class FittedText(_OfTexts, FittedInput):
    """The words of one text."""

    space: Text
    input: str

    def __init__(self, texts: FittedTexts, text: str) -> None:
        self.unwrap, self.space, self.input, self.reader = texts.unwrap, texts.space, text, texts.reader
        self._texts, self._cut = texts, self.space.cut(text)
        self.take(tuple(self._cut.names))
        self.most = self.n_features

    @property
    def all_names(self) -> tuple[str, ...]:
        """Places of words, of as many as the longest text has."""
        return tuple(f"{self.space.unit} {k + 1}" for k in range(self.most))

    def stand_ins(self, rows: Tensor) -> Tensor:
        """Return what copies of a text have some words from: missing ones alone, of one word the text itself."""
        return torch.full_like(rows[:1], self._texts.missing if self.n_features > 1 else 1.0)

    def decode(self, rows: Tensor) -> Any:
        """Return the texts that rows say."""
        return self._texts.like_background([self._cut.written(row, self._stand_in) for row in rows.tolist()])

    def _stand_in(self, value: float, n_words: int) -> str:
        """Return what stands in for so many words."""
        if value == 0:
            return ""
        if value == MASKED and self._texts.masking:
            return " ".join([self._texts.masking] * n_words)
        pool = self._texts.pool
        _refuse_undrawn(value)
        start = int((value - DRAWN) * len(pool))
        return " ".join(pool[(start + k) % len(pool)] for k in range(n_words))

    def given(self, model: Any, rows: Tensor) -> list[Any]:
        """Return token ids of a module whose tokens are the features, else texts."""
        if self.space.unit != "token" or not isinstance(model, nn.Module):
            return super().given(model, rows)
        return [self._tokens.replaced(row, self._token_in) for row in rows.tolist()]

    @cached_property
    def _tokens(self) -> Tokens:
        """The text's token ids, each with the feature that its letters belong to."""
        tokens = Tokens.of(self.space.tokenizer, self.input)
        starts = sorted((start, feature) for feature, spans in enumerate(self._cut.features) for start, _ in spans)
        places = np.searchsorted([start for start, _ in starts], [start for start, _ in tokens.spans], side="right")
        own = [starts[place - 1][1] for place in places.tolist()]
        return Tokens(tokens.ids, tuple(own[k] if k >= 0 else -1 for k in tokens.features), tokens.spans)

    def _token_in(self, value: float) -> list[int]:
        """Return what stands in for a token."""
        if value == 0:
            return []
        if value == MASKED:
            return [int(self.space.tokenizer.convert_tokens_to_ids(self._texts.masking))]
        pool = self._texts.token_pool
        _refuse_undrawn(value)
        return [pool[int((value - DRAWN) * len(pool))]]

    def details(self, rows: Tensor) -> dict[str, list[Any]]:
        """Return the text, where its features are, what they are called, and what they are."""
        spans = [[list(span) for span in some] for some in self._cut.features]
        unit = "passage" if self.space.is_long(self.input) else self.space.unit
        kept = {"text": self.input, "spans": spans, "names": list(self.feature_names), "unit": unit}
        return {name: [value for _ in rows] for name, value in kept.items()}

    def elements(self, rows: Tensor) -> Tensor:
        """Return `(1, most)`: every text has words of its own, -1 for those that only longer ones have."""
        places = torch.arange(self.most)
        return torch.where(places < self.n_features, places, -1).expand(len(rows), -1)

    def _named(self, names: list[Any]) -> Any:
        """Tell which features have these names; a word by itself is meant in all its places."""
        plain = self._cut.plain
        known = {*plain, *self.feature_names}
        for name in names:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise InputError(
                    f"Expected {self.space.unit}s of the text in `subset`, as it has them, got {name!r}, which is not "
                    f"in {_begun(self.input)!r}{hint}"
                )
        return [one in names or text in names for one, text in zip(self.feature_names, plain, strict=True)]

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:  # noqa: ARG002
        """Leave out what is said of places that only longer texts have."""
        return self.own(mask) if mask.shape[-1:] == (self.most,) else mask


# --- What users pass as texts ----------------------------------------------------------------------------------------


def are_texts(value: Any) -> bool:
    """Tell whether this is a string, or a row of things that begins with one."""
    if isinstance(value, str):
        return True
    rows = isinstance(value, Sequence) or is_series(value) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return rows and len(value) > 0 and isinstance(next(iter(value)), str | bytes)


def listed(given: Any, what: str) -> list[str]:
    """Return texts as a list, one alone as well; `what` names the argument in errors."""
    if isinstance(given, str):
        return [str(given)]
    if isinstance(given, Tensor | np.ndarray) and (given.ndim != 1 or isinstance(given, Tensor)):
        raise _no_texts(what, str(given.dtype).removeprefix("torch."), f" of shape {tuple(given.shape)}")
    if isinstance(given, bytes) or not (isinstance(given, Sequence | np.ndarray) or is_series(given)):
        raise _no_texts(what, type(given).__name__)
    for i, text in enumerate(given):
        if not isinstance(text, str):
            missing = text is None or type(text).__name__ == "NAType" or (isinstance(text, float) and np.isnan(text))
            raise _no_texts(what, f"a missing value ({text})" if missing else type(text).__name__, f" at {i}")
    return [str(text) for text in given]


def _no_texts(what: str, got: str, where: str = "") -> InputError:
    """Return what to say of something that is no text."""
    remedy = "pass a list of strings"
    if got.startswith("a missing"):
        remedy = "leave it out, or fill it with a text"
    elif got.startswith("bytes"):
        remedy = 'decode it, as in text.decode("utf-8")'
    elif got.startswith(("int", "uint", "float", "list")):
        remedy = "pass the strings themselves, not token ids or their vectors: space=fans.spaces.Text(tokenizer=...)"
    return InputError(f"Expected texts as strings in {what}, got {got}{where}; {remedy}")


@dataclass(frozen=True)
class _Container:
    """What texts come in.

    Attributes:
        kind: a function of a list of texts and of its own settings, which these are.
        settings: see `kind`.
    """

    kind: Callable[..., Any]
    settings: Mapping[str, Any]

    @classmethod
    def like(cls, background: Any) -> "_Container":
        """Return the one that a background came in: an array, a series, else a list."""
        if is_series(background):
            return cls(type(background), {"name": background.name, "dtype": background.dtype})
        if isinstance(background, np.ndarray):
            return cls(np.array, {"dtype": str if background.dtype.kind == "U" else background.dtype})
        return cls(list, {})

    def __call__(self, texts: list[str]) -> Any:
        """Return texts in it."""
        return self.kind(texts, **self.settings)


def _refuse_undrawn(value: float) -> None:
    """Refuse what says of no word whether it is there, as a metric's noise may."""
    if not DRAWN <= value < DRAWN + 1:
        raise InputError(
            f"Expected a word that is there (1), gone (0) or masked (-1), got {value:.3g}; use metrics that remove "
            'features whole: "deletion" or "insertion" with fill=0.0, "fidelity_plus" with form="top"'
        )


def _begun(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
