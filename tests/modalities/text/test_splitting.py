"""Where words, sentences and tokens are, and texts without some of them."""

import itertools
import random

import pytest

from fans.errors import InputError
from fans.modalities.text.pieces import Cut
from fans.modalities.text.space import Text
from fans.modalities.text.splitting import begins_at_the_right, by_function, joined, sentences, words

ALPHABET = "ab cd  é9.,'\u2019-!?\n\t(«»)我喜。ひऩिहשלע🙂❤️👩\u200d👧🏽🇩🇪\u0301$%_"


def parts(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[a:b] for a, b in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't pay 3.50!", ["Don't", "pay", "3.50"]),
        ("l\u2019été, rock'n'roll: e-mail a_b 1,000", ["l\u2019été", "rock'n'roll", "e", "mail", "a_b", "1,000"]),
        ("naïve cafe\u0301.", ["naïve", "cafe\u0301"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("我喜欢ひらMix", ["我", "喜", "欢", "ひ", "ら", "Mix"]),
        ("שלום, עולם", ["שלום", "עולם"]),
        ("ok ❤️ 👩\u200d👩\u200d👧🏽🙂 🇩🇪🇫🇷", ["ok", "❤️", "👩\u200d👩\u200d👧🏽", "🙂", "🇩🇪", "🇫🇷"]),
        ("the dogs' end.", ["the", "dogs", "end"]),
        ("... -- !", []),
        ("", []),
    ],
)
def test_words(text, expected):
    assert parts(text, words(text)) == expected


def test_punctuation_may_count():
    text = "No, really?! It's 3.5."
    assert parts(text, words(text, punctuation=True)) == ["No", ",", "really", "?", "!", "It's", "3.5", "."]


def test_sentences():
    text = 'It is 3.50. "A weak film!" he said. 好。很好\uff01\nthe end … - !'
    assert parts(text, sentences(text)) == [
        "It is 3.50.",
        '"A weak film!"',
        "he said.",
        "好。",
        "很好\uff01",
        "the end …",
    ]
    assert sentences(" \n ... ") == []


def test_pieces_of_the_users_own_function():
    text = "re-use, reuse"
    assert parts(text, by_function(lambda _: ["re", "use", "reuse"], text)) == ["re", "use", "reuse"]
    with pytest.raises(InputError, match=r"each as it is written there, got 'Re' from 're-use, reuse'"):
        by_function(lambda _: ["Re"], text)


def test_groups_are_even():
    found = joined([(k, k + 1) for k in range(103)], 10)
    assert [len(some) for some in found] == [10, 10, 10, 11, 10, 10, 11, 10, 10, 11]
    assert [span for some in found for span in some] == [(k, k + 1) for k in range(103)]


@pytest.mark.parametrize("settings", [{}, {"punctuation": True}, {"tied": True}, {"unit": "sentence"}, {"most": 3}])
def test_a_text_of_which_all_is_kept_is_as_it_was(settings):
    draw = random.Random(0)  # noqa: S311
    for _ in range(400):
        text = "".join(draw.choices(ALPHABET, k=draw.randrange(40)))
        cut = Text(**settings).cut(text)
        assert cut.written([1.0] * len(cut.features), lambda *_: "?") == text
        spans = sorted(span for some in cut.features for span in some)
        assert all(a < b for a, b in spans)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_words_that_go_leave_one_space():
    words_ = ["a", "weak", "film", "for", "all"]
    cut = Text().cut(" ".join(words_))
    for kept in itertools.product([0.0, 1.0], repeat=5):
        left = [word for word, stays in zip(words_, kept, strict=True) if stays]
        assert cut.written(kept, lambda *_: "") == " ".join(left)


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a weak, dull film", ["weak"], "a, dull film"),
        ("(very good) film", ["very"], "(good) film"),
        ("(very good) film", ["very", "good"], "() film"),
        ("  weak film", ["weak"], " film"),
        ("weak\nfilm\n", ["weak"], "film\n"),
        ("我喜欢", ["喜"], "我欢"),
        ("weak", ["weak"], ""),
    ],
)
def test_spaces_of_words_that_go(text, gone, left):
    cut = Text().cut(text)
    assert cut.written([float(name not in gone) for name in cut.names], lambda *_: "") == left


def test_words_of_one_form_are_counted():
    cut = Text().cut("Weak, weak and weak")
    assert cut.names == ["Weak", "weak (1st)", "and", "weak (2nd)"]
    tied = Text(tied=True).cut("Weak, weak and weak")
    assert tied.names == ["Weak", "and"]
    assert tied.written([0.0, 1.0], lambda *_: "") == ", and"


def test_what_stands_in_has_as_many_words():
    cut = Text(unit="sentence").cut("It is weak. Very weak!")
    assert cut.written([1.0, -1.0], lambda value, n: f"<{value} {n}>") == "It is weak. <-1.0 2>"


def test_names_are_one_line_and_steer_no_terminal():
    cut = Cut("a\x1b[31m b\nc" + " long" * 30, ((((0, 160)),),))
    assert "\x1b" not in cut.names[0]
    assert "\n" not in cut.names[0]
    assert len(cut.names[0]) <= 60


def test_which_side_a_text_begins_at():
    assert [begins_at_the_right(t) for t in ("שלום a", "12 سيناريو", "a שלום", "...", "")] == [True, True] + [False] * 3
