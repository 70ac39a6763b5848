"""The lexicon of a segment: what it holds, and that merging gives what building anew would."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.index.text import postings as module
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon, lexical_column, merge_lexicons

_WORDS = ("alpha", "beta", "gamma", "delta", "der", "und", "nicht", "検索", "x")
_texts = st.lists(
    st.builds(
        LexicalText, st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join), st.sampled_from([None, "de", "en"])
    ),
    max_size=12,
)


def _content(lexicon: Lexicon) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for term in lexicon.terms.texts():
        postings = lexicon.postings(term)
        assert postings is not None
        found[term] = list(zip(postings.rows.tolist(), postings.counts.tolist(), strict=True))
    return found


def test_a_lexicon_counts_terms_by_chunk() -> None:
    lexicon = Lexicon(build_lexicon(map(LexicalText, ["cats and a cat", "", "dog", "cat dog dog"])))
    assert _content(lexicon) == {"cat": [(0, 2), (3, 1)], "dog": [(2, 1), (3, 2)]}
    assert lexicon.lengths.tolist() == [2, 0, 1, 3]
    assert lexicon.postings("bird") is None


def test_of_titles_and_sections_no_more_than_their_beginnings_is_indexed() -> None:
    most = module.MAX_HEADING_CHARACTERS
    texts = ["first " + "x " * most + "beyond", "path " + "y " * most + "outside", "z " * most + "inside"]
    column = lexical_column(*(pa.array([text], pa.large_string()) for text in texts))
    lexicon = Lexicon(build_lexicon([LexicalText(column[0].as_py(), "en")]))
    assert [lexicon.postings(word) is not None for word in ("first", "path", "insid", "beyond", "outsid")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_of_a_chunk_that_lacks_title_or_section_the_rest_is_indexed_and_without_text_nothing() -> None:
    given_columns = (["Title", None, "", None], [None, "Path", "", None], ["text", "", "only text", ""])
    column = lexical_column(*(pa.array(values, pa.large_string()) for values in given_columns))
    assert column.to_pylist() == ["Title\ntext", "", "only text", ""]


def test_counts_end_where_two_bytes_do() -> None:
    lexicon = Lexicon(build_lexicon([LexicalText("cat " * 70_000)]))
    assert _content(lexicon) == {"cat": [(0, module.MAX_FREQUENCY)]}
    assert lexicon.lengths.tolist() == [70_000]


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(_texts, min_size=1, max_size=4), st.data(), st.sampled_from([1, 3, 1 << 22]))
def test_merging_gives_what_building_anew_would(
    parts: list[list[LexicalText]], data: st.DataObject, block: int
) -> None:
    given_parts, kept = [], []
    for texts in parts:
        rows = [row for row in range(len(texts)) if data.draw(st.booleans())]
        given_parts.append((Lexicon(build_lexicon(texts)), np.array(rows, dtype=np.int64)))
        kept += [texts[row] for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_POSTINGS", block)
        merged = Lexicon(merge_lexicons(given_parts))
    anew = Lexicon(build_lexicon(kept))
    assert _content(merged) == _content(anew)
    assert merged.lengths.tolist() == anew.lengths.tolist()
    assert [merged.tags[place] for place in merged.languages] == [anew.tags[place] for place in anew.languages]


@pytest.mark.slow
@settings(max_examples=50)
@given(_texts, st.sampled_from([1, 20]), st.sampled_from([1, 5]))
def test_it_does_not_show_how_much_is_held_while_building(
    texts: list[LexicalText], characters: int, words: int
) -> None:
    whole = build_lexicon(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLICE_CHARACTERS", characters)
        patch.setattr(module, "_BLOCK_WORDS", words)
        assert build_lexicon(texts).equals(whole, check_metadata=True)


@pytest.mark.slow
@settings(max_examples=50)
@given(_texts, st.sampled_from([8, 13, 40]), st.sampled_from([1, 1 << 20]))
def test_a_text_that_is_read_in_pieces_is_one_row(texts: list[LexicalText], longest: int, words: int) -> None:
    declared = [LexicalText(text, language or "de") for text, language in texts]  # else the first piece tells it
    whole = Lexicon(build_lexicon(declared))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MAX_TEXT_CHARACTERS", longest)
        patch.setattr(module, "_BLOCK_WORDS", words)
        patch.setattr(module, "_SLICE_CHARACTERS", 1)
        joined = Lexicon(build_lexicon(declared))
    assert _postings(joined) == _postings(whole)
    assert joined.tags == whole.tags
    assert joined.lengths.tolist() == whole.lengths.tolist()
    assert joined.languages.tolist() == whole.languages.tolist()


def _postings(lexicon: Lexicon) -> dict[str, tuple[list[int], list[int]]]:
    """The rows and frequencies of each term, but for neighbouring stop words, of which a piece may divide some."""
    terms = [lexicon.terms[n].decode("utf-8", "surrogatepass") for n in range(len(lexicon.terms))]
    found = {term: lexicon.postings(term) for term in terms if " " not in term}
    return {term: (own.rows.tolist(), own.counts.tolist()) for term, own in found.items() if own is not None}


def test_a_text_in_pieces_has_the_language_of_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TEXT_CHARACTERS", 100)
    lexicon = Lexicon(build_lexicon([LexicalText("nicht und der die das ein eine ist " * 9 + "running " * 40)]))
    assert [lexicon.tags[place] for place in lexicon.languages] == ["de"]
    assert lexicon.postings("running") is not None and lexicon.postings("run") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a " * 250_000, "aB" * 250_000, "aBcDe " * 75_000, "検索" * 62_500, "ab_" * 150_000, "\ufffd " * 125_000],
    ids=["short tokens", "one compound", "compounds", "no spaces", "underscores", "no tokens"],
)
def test_what_building_takes_is_bounded_however_long_a_text_and_short_its_tokens(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(module, "_MAX_TEXT_CHARACTERS", 1 << 13)
    monkeypatch.setattr(module, "_SLICE_CHARACTERS", 1 << 12)
    monkeypatch.setattr(module, "_BLOCK_WORDS", 1 << 13)
    build_lexicon([LexicalText("Warm aB 検索")])
    tracemalloc.start()
    try:
        build_lexicon([LexicalText(text, "en")])
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 3 << 20  # at least 6 << 20 where the whole text is held


def test_postings_can_lie_in_files_while_merging(tmp_path: Path) -> None:
    parts = [(Lexicon(build_lexicon([LexicalText("cat dog"), LexicalText("cat")])), np.arange(2))] * 2
    assert merge_lexicons(parts, tmp_path).equals(merge_lexicons(parts))


def test_a_lexicon_of_another_analysis_is_refused() -> None:
    batch = build_lexicon([LexicalText("cat")])
    with pytest.raises(ValueError, match="another version"):
        Lexicon(batch.replace_schema_metadata({"analysis": "0", "tags": "[]"}))


def test_every_word_is_counted_once() -> None:
    text = "one two two three three three"
    lexicon = Lexicon(build_lexicon([LexicalText(text, "und")]))
    assert {term: rows[0][1] for term, rows in _content(lexicon).items()} == Counter(text.split())
