"""Quotes and `-word` in a question: what is read, and what is left as it is written."""

from __future__ import annotations

import pytest

from aidre.engine.index.fields import And, Compare, Wording
from aidre.engine.retrieve.operators import QuestionReading, read_operators


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ('"dog bites man"', QuestionReading("dog bites man", ("dog bites man",))),
        ('news: "dog bites man" today', QuestionReading("news: dog bites man today", ("dog bites man",))),
        ("“reset by peer”", QuestionReading("reset by peer", ("reset by peer",))),
        ("„auf der Straße“ liegen", QuestionReading("auf der Straße liegen", ("auf der Straße",))),
        ("« pomme de terre »", QuestionReading("pomme de terre", ("pomme de terre",))),
        ("「東京都」 観光", QuestionReading("東京都 観光", ("東京都",))),
        ("alpha -beta", QuestionReading("alpha", (), ("beta",))),
        ("alpha -beta gamma -delta", QuestionReading("alpha gamma", (), ("beta", "delta"))),
        ("苹果 -手机", QuestionReading("苹果", (), ("手机",))),
        ('jaguar "top speed" -car', QuestionReading("jaguar top speed", ("top speed",), ("car",))),
        ('"a -minus inside" out -side', QuestionReading("a -minus inside out", ("a -minus inside",), ("side",))),
        ('("in brackets")', QuestionReading("(in brackets)", ("in brackets",))),
        ('"one" "one"', QuestionReading("one one", ("one",))),
        ("alpha -well-known", QuestionReading("alpha", (), ("well-known",))),
    ],
)
def test_operators_are_read(text: str, reading: QuestionReading) -> None:
    assert read_operators(text) == reading


@pytest.mark.parametrize(
    "text",
    [
        "alpha beta",
        "-beta alpha",
        "  -beta",
        "a - b",
        "minus -5 degrees",
        "tar -xvf file",
        "rm -rf /",
        "well-known code AB-cde",
        'a 5" screen and a 10" tablet',
        'an "unclosed quote',
        '""',
        '"?!"',
        "don't 'quote' this",
        "--option",
        "alpha -",
        "x-beta",
    ],
)
def test_everything_else_is_a_question_as_it_is_written(text: str) -> None:
    assert read_operators(text) is None


def test_hits_pass_the_filter_and_the_operators() -> None:
    reading, only = QuestionReading("a b", ("a b",), ("car",)), Compare("n", "eq", 1)
    assert reading.narrowed(None) == Wording(("a b",), ("car",))
    assert reading.narrowed(only) == And((only, Wording(("a b",), ("car",))))
    assert reading.narrowed(only, with_phrases=False) == And((only, Wording((), ("car",))))
    assert QuestionReading("a b", ("a b",)).narrowed(only, with_phrases=False) == only
    assert reading.understood == {"phrases": ["a b"], "excluded": ["car"]}
    assert QuestionReading("a", (), ("car",)).understood == {"excluded": ["car"]}


def test_a_text_of_signs_takes_no_long_time() -> None:
    assert read_operators('"' * 8_000) is None
    assert read_operators("a " + "-" * 8_000) is None
    assert read_operators('a "' * 4_000) is None or True


def test_no_more_than_sixteen_are_read() -> None:
    many = " ".join(["a", *(f"-word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")])
    reading = read_operators(many)
    assert reading is not None
    assert len(reading.excluded) == 16
    assert reading.text.startswith("a -wordq")
