"""A tiny random BERT and its tokenizer, made here: nothing is loaded, from the network or from elsewhere."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

WORDS = "a an the and weak great dull film plot cast end un ##bear ##able is it , . ! of"
SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]"


def tokenizer() -> Any:
    """A WordPiece tokenizer of a few words; `unbearable` has three pieces."""
    transformers = pytest.importorskip("transformers")
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        vocabulary.write_text("\n".join(f"{SPECIAL} {WORDS}".split()))
        return transformers.BertTokenizerFast(vocab=str(vocabulary))


def module(*, seed: int = 0, longest: int = 32, labels: tuple[str, ...] = ("bad", "good")) -> Any:
    """A classifier of random weights, large enough that words matter."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(f"{SPECIAL} {WORDS}".split()),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=longest,
        id2label=dict(enumerate(labels)),
        label2id={label: k for k, label in enumerate(labels)},
    )
    made = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(8)
    return made


def classifier(**settings: Any) -> Any:
    """The pipeline of both."""
    transformers = pytest.importorskip("transformers")
    return transformers.pipeline("text-classification", model=module(**settings), tokenizer=tokenizer())
