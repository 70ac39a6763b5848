"""Questions of stop words alone, and acronyms that are stop words."""

from __future__ import annotations

import pytest

from aidre.engine.index.text import WordFinder, query_terms
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon
from tests.support.terms import analyze_query

TEXTS = {
    "att": "AT&T announced a new plan for its customers.",
    "who": "A concert: The Who played at Woodstock in 1969.",
    "hamlet": "He says: to be, or not to be, that is the question.",
    "it": "Our IT department fixes laptops; it is of no use.",
    "us": "The US and the WHO signed.",
    "plain": "It was for him to be there, who or what he was, and they were not to blame.",
}


def _lexicon() -> Lexicon:
    return Lexicon(build_lexicon([LexicalText(text, "en") for text in TEXTS.values()]))


def _best(lexicon: Lexicon, question: str) -> str:
    """The text with most rare terms of a question."""
    scores = [0.0] * len(TEXTS)

    def is_held(term: str) -> bool:
        return lexicon.postings(term) is not None

    for word in query_terms(question, lexicon.tags, is_held):
        for term in word.terms:
            if (postings := lexicon.postings(term)) is not None:
                for row in postings.rows.tolist():
                    scores[row] += 1 / len(postings.rows)
    assert max(scores) > 0
    return [*TEXTS][scores.index(max(scores))]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("AT&T", "att"), ("at&t", "att"), ("The Who", "who"), ("the who", "who"), ("to be or not to be", "hamlet"),
        ("TO BE OR NOT TO BE", "hamlet"), ("IT", "it"), ("US", "us"), ("WHO", "us"), ("the WHO", "us"),
        ("what is IT?", "it"),
    ],
)  # fmt: skip
def test_a_question_of_stop_words_alone_finds_its_place(question: str, text: str) -> None:
    assert _best(_lexicon(), question) == text


def test_an_acronym_counts_beside_other_words_unless_all_are_in_capitals() -> None:
    assert ("IT",) in analyze_query("the IT department", ["en"])
    assert ("IT",) not in analyze_query("THE IT DEPARTMENT", ["en"])
    assert ("NOT",) not in analyze_query("laptops NOT desktops", ["en"])


@pytest.mark.parametrize("question", ["What is a laptop?", "The history of it", "who fixes laptops"])
def test_a_question_with_other_words_has_no_stop_words(question: str) -> None:
    for terms in analyze_query(question, ["en"]):
        assert terms[0].islower() and " " not in terms[0]


def test_stop_words_are_no_part_of_the_length_of_a_chunk() -> None:
    lexicon = Lexicon(build_lexicon([LexicalText("The Who, to be or not to be in IT", "en")]))
    assert lexicon.lengths.tolist() == [0]
    assert {"The", "the who", "to be or", "IT"} <= {lexicon.terms[n].decode() for n in range(len(lexicon.terms))}


def test_neighbours_are_marked_together() -> None:
    text = TEXTS["hamlet"]
    finder = WordFinder([(terms, 1.0) for terms in analyze_query("to be or not to be", ["en"])])
    assert [text[start:end] for start, end, _ in finder.find(text, "en")] == ["to be, or not to be"]


def test_a_word_that_is_a_stop_word_in_one_language_of_two_is_asked_for_in_both_ways() -> None:
    words = query_terms("der Die", ["de", "en"])
    assert {word.terms[0] for word in words} >= {"der", "die", "der die", "Der", "Die"}
    assert next(word for word in words if word.terms[0] == "der").stop_in == ("de",)


def test_scripts_without_capitals_have_runs_of_three() -> None:
    lexicon = Lexicon(build_lexicon([LexicalText("पुस्तक आदि के लिए", "hi")]))
    assert lexicon.postings("आदि के लिए") is not None
    assert lexicon.postings("के") is None
