"""Models and tokenizers of transformers: a tiny random BERT, made here."""

import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.modalities.text.hugging_face import Tokens
from fans.spaces import Text
from tests.modalities.text import tiny

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

BACKGROUND = ["a weak film", "the great cast and plot", "an unbearable film!", "great film, great plot"]
X = "an unbearable, weak film of the dull plot"
CLS, SEP, MASK, PAD = 2, 3, 4, 0


class Spy(nn.Module):
    """A module that keeps the ids that it was given."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config, self.seen = inner, inner.config, list[list[int]]()

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> Any:
        self.seen += [
            row[mask.bool()].tolist() for row, mask in zip(input_ids.cpu(), attention_mask.cpu(), strict=True)
        ]
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny.tokenizer()


def probabilities(module: Any, tokenizer: Any, texts: list[str]) -> Any:
    """What transformers itself makes of texts, one by one."""
    module.eval()
    with torch.no_grad():
        rows = [module(**tokenizer(text, return_tensors="pt")).logits.softmax(1)[0] for text in texts]
    return torch.stack(rows).double().numpy()


@pytest.mark.parametrize("unit", ["word", "token"])
def test_a_module_reads_texts_as_transformers_does(tokenizer, unit):
    module = tiny.module()
    e = fans.Explainer(module, BACKGROUND, effort="low", space=Text(unit=unit, tokenizer=tokenizer))(BACKGROUND)
    expected = probabilities(module, tokenizer, BACKGROUND)
    np.testing.assert_allclose(e.prediction, expected.max(1), atol=1e-5)
    np.testing.assert_array_equal(e.target, expected.argmax(1))
    assert e.target_names == ("bad", "good")
    assert e.kind == "probability"


def test_leaving_one_word_out_masks_it(tokenizer):
    module = tiny.module()
    words = X.replace(",", " ,").split()
    explainer = fans.Explainer(module, BACKGROUND, method="feature_ablation", space=Text(tokenizer=tokenizer))
    masked = [" ".join("[MASK]" if j == k else w for j, w in enumerate(words)) for k in range(len(words)) if k != 2]
    p = probabilities(module, tokenizer, [X, *masked])[:, 1]
    np.testing.assert_allclose(explainer.scores(X, target="good")[0], p[0] - p[1:], atol=1e-5)


@pytest.mark.parametrize(
    ("baseline", "without"), [(None, lambda ids, k: [*ids[:k], MASK, *ids[k + 1 :]]),
                              ("gone", lambda ids, k: [*ids[:k], *ids[k + 1 :]])],
)  # fmt: skip
def test_leaving_one_token_out_changes_its_id_alone(tokenizer, baseline, without):
    module = tiny.module().eval()
    space = Text(unit="token", tokenizer=tokenizer)
    explainer = fans.Explainer(module, BACKGROUND, method="feature_ablation", space=space, baseline=baseline)
    ids = tokenizer(X)["input_ids"]
    with torch.no_grad():
        p = [
            float(module(torch.tensor([some])).logits.softmax(1)[0, 1])
            for some in (ids, *(without(ids, k) for k in range(1, len(ids) - 1)))
        ]
    scores = explainer.scores(X, target="good")[0]
    assert len(scores) == len(ids) - 2
    np.testing.assert_allclose(scores, p[0] - np.array(p[1:]), atol=1e-5)


@pytest.mark.parametrize("unit", ["word", "token"])
@pytest.mark.parametrize("baseline", ["mask", "gone", "background"])
def test_special_tokens_stay(tokenizer, unit, baseline):
    spy = Spy(tiny.module())
    space = Text(unit=unit, tokenizer=tokenizer)
    fans.Explainer(spy, BACKGROUND, effort="low", baseline=baseline, space=space)(X)
    assert len(spy.seen) > 100
    for ids in spy.seen:
        assert (ids[0], ids[-1]) == (CLS, SEP)
        assert not {CLS, SEP, PAD} & set(ids[1:-1])


def test_a_pipeline_says_what_its_module_does(tokenizer):
    pipeline = tiny.classifier()
    pipeline.model.train()
    e = fans.Explainer(pipeline, BACKGROUND, effort="low")(X)
    by_module = fans.Explainer(tiny.module(), BACKGROUND, effort="low", space=Text(tokenizer=tokenizer))(X)
    np.testing.assert_allclose(e.scores, by_module.scores, atol=1e-5)
    np.testing.assert_array_equal(e.subset, by_module.subset)
    assert e.target_names == ("bad", "good")
    assert e.kind == "probability"
    assert pipeline.model.training  # as it was


def test_three_labels_in_their_order():
    pipeline = tiny.classifier(labels=("bad", "so-so", "good"))
    e = fans.Explainer(pipeline, BACKGROUND, effort="low")(X, target="so-so")
    pipeline.model.eval()
    said = {one["label"]: one["score"] for one in pipeline(X, top_k=None)}
    assert e.target_names == ("bad", "so-so", "good")
    assert e.prediction[0] == pytest.approx(said["so-so"], abs=1e-5)


def test_a_number(tokenizer):
    module = tiny.module(labels=("stars",))
    e = fans.Explainer(module, BACKGROUND, effort="low", task="regression", space=Text(tokenizer=tokenizer))(X)
    with torch.no_grad():
        assert e.prediction[0] == pytest.approx(
            float(module.eval()(**tokenizer(X, return_tensors="pt")).logits), abs=1e-5
        )
    assert e.kind == "output"


def test_tokens_are_named_by_their_letters(tokenizer):
    e = fans.Explainer(tiny.module(), BACKGROUND, effort="low", space=Text(unit="token", tokenizer=tokenizer))(X)
    assert [e.name(0, k) for k in range(5)] == ["an", "un", "bear", "able", ","]


def test_tokens_for_a_function_of_texts(tokenizer):
    space = Text(unit="token", tokenizer=tokenizer)
    e = fans.Explainer(lambda texts: [float("bear" in t) for t in texts], BACKGROUND, space=space)("an unbearable film")
    assert e.chosen_names() == ["bear"]


def test_what_goes_beyond_the_longest_is_not_explained(tokenizer):
    spy = Spy(tiny.module(longest=8))
    space = Text(tokenizer=tokenizer)
    with pytest.warns(fans.FansWarning, match=r"The model reads 8 tokens, so that of text 1 only the beginning is "
                      r"explained \(19 of 41 letters\); explain parts of it one by one"):  # fmt: skip
        e = fans.Explainer(spy, BACKGROUND, effort="low", space=space)(["a weak film", X])
    assert e.details["text"][1] == "an unbearable, weak"
    assert max(map(len, spy.seen)) == 8


def test_nothing_is_said_of_what_tokenizers_say(caplog):
    with caplog.at_level(logging.WARNING):
        fans.Explainer(tiny.classifier(), BACKGROUND, effort="low")(X)
    assert not caplog.records


@pytest.mark.parametrize("given", [None, str.split])
def test_a_module_without_a_tokenizer(given):
    space = Text() if given is None else Text(tokenizer=given)
    words = "none" if given is None else "method_descriptor"
    with pytest.raises(fans.ModelError, match="Expected a tokenizer of transformers for BertForSequenceClassification, "
                       f"a torch module, which takes token ids, got {words}; pass space=fans.spaces.Text"):  # fmt: skip
        fans.Explainer(tiny.module(), BACKGROUND, space=space)


def test_a_module_that_takes_something_else(tokenizer):
    with pytest.raises(fans.ModelError, match=r"Expected a module that takes what the tokenizer makes of texts, got "
                       "TypeError from Linear: .* pass the tokenizer that it was trained with, or a func"):  # fmt: skip
        fans.Explainer(nn.Linear(2, 2), BACKGROUND, space=Text(tokenizer=tokenizer))


def test_a_pipeline_for_something_else():
    pipeline = tiny.classifier()
    pipeline.task = "zero-shot-classification"
    with pytest.raises(fans.ModelError, match=r'Expected a pipeline\("text-classification"\), got one for zero-shot'):
        fans.Explainer(pipeline, BACKGROUND)


def test_methods_that_follow_gradients(tokenizer):
    with pytest.raises(fans.ModelError, match="Expected a gradient for method='saliency', got none from BertForSequence"
                       "Classification: words are there or not; use a method"):  # fmt: skip
        fans.Explainer(tiny.module(), BACKGROUND, method="saliency", space=Text(tokenizer=tokenizer))(X)


def test_a_slow_tokenizer_has_no_places():
    class Slow:
        special_tokens_map: dict[str, str] = {}  # noqa: RUF012
        is_fast = False

        def convert_ids_to_tokens(self) -> None: ...

        def __call__(self, text: str) -> None: ...

    with pytest.raises(fans.InputError, match=r'Expected a fast tokenizer of transformers for unit="token".* got Slow'):
        Text(unit="token", tokenizer=Slow()).cut("a film")


def test_tokens_that_share_a_letter_are_one_feature():
    def read(_text: str, **_: Any) -> Any:
        return {
            "input_ids": [9, 5, 6, 7, 8, 9],
            "offset_mapping": [(0, 0), (0, 1), (0, 1), (1, 3), (3, 4), (0, 0)],
            "special_tokens_mask": [1, 0, 0, 0, 0, 1],
        }

    read.is_fast = True  # type: ignore[attr-defined]
    tokens = Tokens.of(read, "🙂 b ")
    assert tokens.spans == ((0, 1), (2, 3))
    assert tokens.features == (-1, 0, 0, 1, -1, -1)
    assert tokens.replaced([0.0, 1.0], lambda _: [4]) == [9, 4, 4, 7, 8, 9]
    assert tokens.replaced([1.0, 0.0], lambda _: []) == [9, 5, 6, 8, 9]
