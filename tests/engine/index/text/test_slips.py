"""Which words are not taken for others, however near they are."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.slips import is_affix, may_be_slip, share_ending


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("retreival", "retrieval"),
        ("züricg", "zürich"),
        ("bibliotheqeu", "bibliothèque"),  # no accent was typed
        ("bibliohtéque", "bibliothèque"),  # the wrong accent
        ("ифнормация", "информация"),
        ("hawai\u02bbi", "hawaii"),  # the sign is not an accent
        ("qur\u02beam", "qur\u02bean"),
        ("er", "re"),
        ("etrieval", "retrieval"),
        ("ertrieval", "retrieval"),  # swapped
        ("peformance", "performance"),
        ("hypertenion", "hypertension"),
    ],
)
def test_a_slip_changes_letters_that_mean_nothing(word: str, other: str) -> None:
    assert may_be_slip(word, other)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("crème", "crime"),
        ("crème", "crepes"),
        ("garçon", "carbon"),
        ("résmué", "resume"),
        ("smørrebrød", "smorrebrod"),
        ("hypotension", "hypertension"),
        ("intracellular", "intercellular"),
        ("inorganic", "organic"),
        ("organic", "inorganic"),
        ("unstable", "stable"),
        ("decelerating", "accelerating"),
        ("يدخل", "دخل"),  # "he enters", "he entered"
        ("كتاب", "الكتاب"),
        ("בית", "הבית"),
    ],
)
def test_accents_and_prefixes_are_meant(word: str, other: str) -> None:
    assert not may_be_slip(word, other)


def test_words_that_end_in_the_same_known_word_may_both_be_right() -> None:
    assert share_ending("osteogenesis", "ontogenesis", {"genesis"})
    assert not share_ending("osteogenesis", "ontogenesis", {"osteo", "ogene"})
    assert not share_ending("retreival", "retrieval", {"retrieval", "val"})


def test_affixes_are_those_that_are_no_words() -> None:
    assert all(map(is_affix, ("re", "un", "ing", "tion", "micro")))
    assert not any(map(is_affix, ("in", "an", "over", "able", "note")))
