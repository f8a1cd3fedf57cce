"""Models and tokenizers of Hugging Face's `transformers`, told by what they have: nothing of it is imported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fans.errors import InputError, ModelError
from fans.modalities.text.splitting import Span
from fans.modes import asking
from fans.types import Array

BATCH = 32
"""Texts that a network sees at a time."""

UNLIMITED = 10**6
"""A tokenizer that knows no maximum says a larger number."""

TASK = "text-classification"


def is_tokenizer(value: Any) -> bool:
    """Tell whether this is a tokenizer of `transformers`."""
    return callable(getattr(value, "convert_ids_to_tokens", None)) and hasattr(value, "special_tokens_map")


def is_pipeline(model: Any) -> bool:
    """Tell whether this is a pipeline of `transformers`."""
    return not isinstance(model, nn.Module) and all(hasattr(model, part) for part in ("tokenizer", "task", "_forward"))


def labels(model: Any) -> tuple[str, ...]:
    """Return what the outputs of a module or a pipeline are called, in their order."""
    config = getattr(getattr(model, "model", model) if is_pipeline(model) else model, "config", None)
    named = getattr(config, "id2label", None)
    return tuple(str(named[k]) for k in sorted(named)) if isinstance(named, Mapping) and named else ()


@dataclass(frozen=True)
class Reader:
    """How texts become what a model takes.

    Attributes:
        tokenizer: of the model.
        most: tokens that the model reads, those at the ends among them; None if there is no limit.
    """

    tokenizer: Any
    most: int | None

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> "Reader":
        """Return the reader for a module or pipeline, refusing what classifies no texts."""
        if is_pipeline(model):
            if model.task != TASK:
                raise ModelError(f'Expected a pipeline("{TASK}"), got one for {model.task}')
            return cls.of(model.model, model.tokenizer)
        if not is_tokenizer(tokenizer):
            raise ModelError(
                f"Expected a tokenizer of transformers for {type(model).__name__}, a torch module, which takes token "
                f"ids, got {'none' if tokenizer is None else type(tokenizer).__name__}; pass "
                "space=fans.spaces.Text(tokenizer=...), or a function of a list of texts that calls the module"
            )
        limits = (
            getattr(tokenizer, "model_max_length", None),
            getattr(getattr(model, "config", None), "max_position_embeddings", None),
        )
        known = [int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < UNLIMITED]
        return cls(tokenizer, min(known, default=None))

    @property
    def _limit(self) -> dict[str, Any]:
        return {"truncation": self.most is not None, "max_length": self.most}

    @property
    def mask(self) -> str | None:
        """The mask token, if there is one."""
        return mask_of(self.tokenizer)

    def end(self, text: str) -> int:
        """Return how many letters of a text the model reads."""
        if self.most is None or not getattr(self.tokenizer, "is_fast", False):
            return len(text)
        read = self.tokenizer(text, return_offsets_mapping=True, return_overflowing_tokens=True, **self._limit)
        ends = [end for _, end in read["offset_mapping"][0]]
        return max(ends, default=0) if len(read["input_ids"]) > 1 else len(text)

    def ask(self, model: Any, given: Sequence[Any]) -> Any:
        """Return the outputs of a pipeline or a module for texts, or for lists of token ids."""
        if is_pipeline(model):
            return self._of_pipeline(model, list(given))
        try:
            return self._of_module(model, given)
        except Exception as error:
            said = next(iter(str(error).splitlines()), "").rstrip(".")
            raise ModelError(
                f"Expected a module that takes what the tokenizer makes of texts, got {type(error).__name__} from "
                f"{type(model).__name__}: {said}; pass the tokenizer that it was trained with, or a function of a list "
                "of texts"
            ) from error

    def _of_pipeline(self, pipeline: Any, given: list[str]) -> Array:
        names = labels(pipeline)
        with asking(pipeline.model):
            found = pipeline(given, top_k=None, batch_size=BATCH, **self._limit)
        by_label = [{one["label"]: one["score"] for one in each} for each in found]
        return np.array([[each[name] for name in names] for each in by_label], dtype=np.float64)

    def _of_module(self, module: nn.Module, given: Sequence[Any]) -> Any:
        if isinstance(given[0], str):
            made = self.tokenizer(list(given), padding=True, return_tensors="pt", **self._limit)
        else:
            made = self.tokenizer.pad({"input_ids": list(given)}, return_tensors="pt")
        where = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
        out = module(**{name: made[name].to(where) for name in made})
        return out.logits if hasattr(out, "logits") else out


def mask_of(tokenizer: Any) -> str | None:
    """Return the mask token of a tokenizer, if it is one of `transformers` and has one."""
    token = tokenizer.special_tokens_map.get("mask_token") if is_tokenizer(tokenizer) else None
    return None if token is None else str(token)


@dataclass(frozen=True)
class Tokens:
    """A text in token ids.

    Attributes:
        ids: with the special ones.
        features: the feature of each, -1 for special ones, which are never replaced.
        spans: of each feature.
    """

    ids: tuple[int, ...]
    features: tuple[int, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, tokenizer: Any, text: str) -> "Tokens":
        """Return a text's tokens; those that share a letter, bytes of an emoji say, are one feature."""
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                'Expected a fast tokenizer of transformers for unit="token", which tells where its tokens are, got '
                f'{type(tokenizer).__name__}; pass AutoTokenizer.from_pretrained(..., use_fast=True), or unit="word"'
            )
        read = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        spans, features = list[Span](), list[int]()
        for (start, end), special in zip(read["offset_mapping"], read["special_tokens_mask"], strict=True):
            lead = len(text[start:end]) - len(text[start:end].lstrip())
            if special or start + lead >= end:
                features.append(-1)
                continue
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start + lead, end))
            features.append(len(spans) - 1)
        return cls(tuple(read["input_ids"]), tuple(features), tuple(spans))

    def replaced(self, there: Sequence[float], stand_in: Callable[[float], list[int]]) -> list[int]:
        """Return the ids with those of features that are not 1 replaced by what stands in for a token."""
        out: list[int] = []
        for token, feature in zip(self.ids, self.features, strict=True):
            out += [token] if feature < 0 or there[feature] == 1 else stand_in(there[feature])
        return out
