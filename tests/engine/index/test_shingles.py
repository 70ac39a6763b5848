"""Which texts are near-copies, by the signatures of their shingles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.index.shingles import near_copies, signatures, signatures_of

RNG = np.random.default_rng(5)
WORDS = [f"{stem}{number}" for stem in ("pond", "reed", "heron", "bank") for number in range(200)]


def text_of(count: int) -> list[str]:
    return [WORDS[place] for place in RNG.integers(len(WORDS), size=count).tolist()]


def changed(words: list[str], count: int) -> list[str]:
    """The words with `count` others in places far apart."""
    edited = list(words)
    for place in np.linspace(2, len(words) - 3, count).astype(int).tolist():
        edited[place] = f"edit{place}"
    return edited


def are_copies(one: str, other: str) -> bool:
    marks = signatures_of([one, other])
    return bool(marks.any() and near_copies(marks[:1], marks[1:])[0, 0])


@pytest.mark.parametrize(("words", "edits", "expected"), [
    (200, 0, True), (200, 5, True), (200, 30, False), (60, 1, True), (60, 12, False), (16, 0, True), (16, 3, False),
    (15, 0, False),
])  # fmt: skip
def test_a_copy_differs_in_few_words(words: int, edits: int, expected: bool) -> None:
    for _ in range(10):
        text = text_of(words)
        assert are_copies(" ".join(text), " ".join(changed(text, edits))) is expected


def test_case_and_signs_between_words_do_not_count() -> None:
    text = " ".join(text_of(40))
    assert are_copies(text, text.upper().replace(" ", ",\n  "))


def test_the_order_of_words_counts() -> None:
    text = text_of(40)
    assert not are_copies(" ".join(text), " ".join(sorted(text)))


@pytest.mark.parametrize("text", ["", "\n", "!!! --- ???", "The heron waits by the pond."])
def test_short_texts_have_no_signature(text: str) -> None:
    assert not signatures_of([text]).any()


def test_texts_without_spaces_are_compared_by_their_letters() -> None:
    text = "".join(chr(0x4E00 + number) for number in RNG.permutation(2_000)[:120].tolist())
    assert are_copies(text, text[:50] + "変更" + text[52:])
    assert not are_copies(text, text[::-1])


def test_a_signature_depends_on_nothing_but_the_text() -> None:
    texts = [" ".join(text_of(count)) for count in (1, 3, 15, 16, 300, 17)] + [
        "",
        "é à ü",
        "x" * 300_000,
        "日本語の文章",
    ]
    together = signatures(pa.array(["before", *texts], pa.large_string())[1:])
    assert np.array_equal(together, np.concatenate([signatures_of([text]) for text in texts]))
    assert (
        signatures_of(["The heron waits by the pond. " * 3]).tobytes().hex()
        == "63dfb7227304a1985f2f4b73d13ecc744d0a92aa02ecd78df2bc4ddaa35260be"
    )
    assert signatures_of([]).shape == (0, 32)
