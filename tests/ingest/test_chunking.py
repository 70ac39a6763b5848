"""Chunking: nothing is lost, nothing comes twice, nothing is longer than the model reads, headings are respected."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from aidre.engine.model import Chunk, Document
from aidre.ingest.chunking import Chunker, approximate_tokens
from aidre.ingest.formats.markdown import find_headings


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def cut(text: str, chunker: Chunker | None = None, **members: str) -> tuple[Chunk, ...]:
    document = Document("d", text, headings=find_headings(text), **members)  # type: ignore[arg-type]
    return (chunker or Chunker(words, 20, 10)).chunks(document)


def spanned(chunk: Chunk) -> str:
    """The text of a chunk without what it repeats of a table."""
    return chunk.text[len(chunk.text) - (chunk.end - chunk.start) :]


def solid(text: str) -> str:
    return "".join(text.split())


def test_settings_differ_where_boundaries_may() -> None:
    """Documents are chunked anew where they differ."""
    chunkers = [Chunker(words, 20, 10), Chunker(words, 21, 10), Chunker(words, 20, 11), Chunker(None, 20, 10)]
    assert len({chunker.settings for chunker in chunkers}) == len(chunkers)
    assert Chunker(characters, 20, 10).settings == chunkers[0].settings == Chunker(words, 20, 10).settings
    assert Chunker(words, 8, 40).settings == Chunker(words, 8, 50).settings


MARKS = list(" \n\t#`~-=.!?。aA漢|\r\u2028\u00a0\u200b\x00\U0001f600")
TABLES = ["| a | b |\n|---|---|\n", "\n| 1 | 2 |\n", "a\tb\n"]
pieces = st.one_of(st.sampled_from(MARKS), st.sampled_from(TABLES), st.characters(exclude_categories=["Cs"]))
texts = st.lists(pieces, max_size=400).map("".join)


@given(texts, st.integers(8, 40), st.integers(1, 40), st.sampled_from([words, characters, None]))
def test_every_solid_character_is_in_exactly_one_chunk(text: str, limit: int, target: int, count: object) -> None:
    chunker = Chunker(count, limit, target)  # type: ignore[arg-type]
    chunks = cut(text, chunker)
    at = 0
    for number, chunk in enumerate(chunks, 1):
        assert spanned(chunk) == text[chunk.start : chunk.end] == spanned(chunk).strip() != ""
        assert not text[at : chunk.start].strip()
        assert (chunk.number, chunk.id) == (number, f"d#chunk_{number}")
        at = chunk.end
    assert not text[at:].strip()


@given(texts, st.lists(st.integers(0, 400), max_size=8, unique=True), st.integers(8, 40))
def test_spans_of_code_and_rows_lose_and_repeat_nothing(text: str, bounds: list[int], limit: int) -> None:
    edges = sorted(bound for bound in bounds if bound <= len(text))
    verbatim = tuple(zip(edges[::2], edges[1::2], strict=False))
    document = Document("d", text, headings=find_headings(text), verbatim=verbatim)
    chunks = Chunker(words, limit, limit).chunks(document)
    assert solid("".join(map(spanned, chunks))) == solid(text)
    assert all(len(chunk.text.split()) <= limit for chunk in chunks)


@given(texts, st.integers(8, 60))
def test_what_is_embedded_never_has_more_tokens_than_the_model_reads(text: str, limit: int) -> None:
    chunker = Chunker(characters, limit, limit)
    document = Document("d", text, title="T", section="S > x", headings=find_headings(text))
    for chunk in chunker.chunks(document):
        # The line break between heading and text counts here, but is not a token to a model.
        assert len(chunker.embedding_input(document, chunk)) <= limit + 1
        assert chunk.token_count == len(chunk.text)


def test_code_and_rows_stay_whole_where_a_chunk_can_hold_them() -> None:
    code = "one two three\n\nfour five six\n\nseven eight"
    text = f"{'before ' * 9}.\n\n{code}\n\n{'after ' * 9}."
    start = text.index(code)
    document = Document("d", text, verbatim=((start, start + len(code)),))
    assert code in [chunk.text for chunk in Chunker(words, 10, 6).chunks(document)]
    assert code not in [chunk.text for chunk in Chunker(words, 10, 6).chunks(Document("d", text))]


def test_long_code_is_split_between_lines() -> None:
    code = "\n".join(f"a{number} = f(x). g(y); h(z)" for number in range(40))
    for chunk in Chunker(words, 20, 10).chunks(Document("d", code, verbatim=((0, len(code)),))):
        assert chunk.text.startswith("a") and chunk.text.endswith("h(z)")


def test_a_long_table_is_split_between_its_rows() -> None:
    rows = [
        f"| `key_{number}` | a string | What it is for. It has a default, number {number}. |" for number in range(40)
    ]
    table = "\n".join(["| key | type | meaning |", "|---|---|---|", *rows])
    texts = [chunk.text for chunk in cut(f"Before the table.\n\n{table}\n\nAfter it.", Chunker(words, 90, 60))]
    assert len(texts) > 4
    lines = [line for text in texts for line in text.splitlines() if line.startswith("| `") or line.endswith(". |")]
    assert lines == rows


HEAD = "| key | meaning |\n|---|---|"
ROWS = [f"| key {number} | what it means |" for number in range(40)]


@pytest.mark.parametrize(
    ("above", "head", "rows", "lead"),
    [
        ("", HEAD, ROWS, HEAD),
        ("Table 1: keys\n\n", HEAD, ROWS, f"Table 1: keys\n\n{HEAD}"),
        ("Words above, without a blank line.\n", HEAD, ROWS, f"Words above, without a blank line.\n\n{HEAD}"),
        ("# Keys\n\n", HEAD, ROWS, HEAD),
        ("Two\nlines.\n\n", HEAD, ROWS, HEAD),
        ("", "key | meaning\n--- | :---:", [row.strip("| ") for row in ROWS], "key | meaning\n--- | :---:"),
        ("", "key\tmeaning", [f"key {number}\twhat it means" for number in range(40)], "key\tmeaning"),
    ],
)
def test_every_chunk_of_a_table_begins_with_the_names_of_its_columns(
    above: str, head: str, rows: list[str], lead: str
) -> None:
    text = "\n".join([f"{above}{head}", *rows]) + "\n\nAfter it."
    chunker = Chunker(words, 60, 50)
    chunks = cut(text, chunker)
    within = [chunk for chunk in chunks if "key 1" in chunk.text or "key 2" in chunk.text or "key 3" in chunk.text]
    assert len(chunks) > 4
    for chunk in within:
        assert solid(lead) in solid(chunk.text) and chunk.text.endswith(text[chunk.start : chunk.end])
        assert chunk.token_count == len(chunk.text.split()) <= 60
        assert chunker.embedding_input(Document("d", text), chunk).endswith(chunk.text)
    spans = [line for chunk in chunks for line in spanned(chunk).splitlines()]
    assert [line for line in spans if line in rows] == rows
    assert all(chunk.text.count(head) == 1 for chunk in within)


def test_a_table_without_names_of_columns_repeats_its_caption_alone() -> None:
    text = "\n".join(["The keys\n\n|  |  |  |", "|---|---|---|", *ROWS])
    chunks = cut(text, Chunker(words, 60, 50))
    assert len(chunks) > 3 and all(chunk.text.startswith("The keys\n| ") for chunk in chunks[1:])


def test_the_names_of_columns_are_never_alone_in_a_chunk() -> None:
    text = "word " * 45 + "\n\n" + "\n".join([HEAD, *ROWS])
    assert all("key" in spanned(chunk).replace("| key |", "") for chunk in cut(text, Chunker(words, 60, 50))[1:])


def test_names_of_columns_that_would_fill_a_chunk_are_cut_to_half_of_it() -> None:
    wide = "| " + " | ".join(f"column {number}" for number in range(40)) + " |"
    row = "| " + " | ".join("x" for _ in range(40)) + " |"
    text = "\n".join([wide, "|---" * 40 + "|", *[row] * 10])
    chunks = cut(text, Chunker(words, 100, 100))
    assert all(chunk.text.startswith("| column 0 | column 1 |") for chunk in chunks if "| x |" in chunk.text)
    assert all(len(chunk.text.split()) <= 100 for chunk in chunks)


def test_code_is_no_table() -> None:
    code = "\n".join(f"\tif (a | b)\treturn {number};" if number % 3 else "x" for number in range(60))
    chunks = Chunker(words, 30, 20).chunks(Document("d", code, verbatim=((0, len(code)),)))
    assert [chunk.text for chunk in chunks] == [code[chunk.start : chunk.end] for chunk in chunks]


def test_a_passage_that_is_longer_than_its_section_is_split_with_it() -> None:
    text = "# A\n\none\ntwo\n\n# B\n\nthree"
    document = Document("d", text, headings=find_headings(text), verbatim=((5, len(text)),))
    assert [chunk.text for chunk in Chunker(words, 20, 10).chunks(document)] == ["# A\n\none\ntwo", "# B\n\nthree"]


def test_lines_that_were_wrapped_do_not_end_a_sentence() -> None:
    sentence = (
        "A sentence of a book that was wrapped by hand at some\nRust column goes on with its next line, "
        "and then for one\nmore line until it ends here."
    )
    for chunk in cut("\n".join([sentence] * 5), Chunker(words, 60, 35)):
        assert chunk.text.startswith("A sentence") and chunk.text.endswith("here.")


def test_lines_that_are_not_wrapped_are_parts_of_their_own() -> None:
    text = "\n".join(f"- item {number} of a list that is long enough for a line" for number in range(20))
    assert all(chunk.text.startswith("- item") for chunk in cut(text, Chunker(words, 30, 25)))


def test_a_sentence_that_no_chunk_holds_is_split_between_its_clauses() -> None:
    text = ", ".join(["in one clause of the many that there are in it and beyond"] * 5) + "."
    assert all(chunk.text.startswith("in one clause") for chunk in cut(text, Chunker(words, 30, 16)))


def test_a_short_text_is_one_chunk() -> None:
    (chunk,) = cut("  one two three \n")
    assert (chunk.text, chunk.start, chunk.end, chunk.token_count, chunk.section) == ("one two three", 2, 15, 3, None)


def test_a_blank_text_has_no_chunks() -> None:
    assert cut("") == cut(" \n\t") == ()


def test_sections_end_at_headings_and_carry_their_path() -> None:
    text = "intro\n\n# A\n\na\n\n## B\n\nb\n\n# C\n\nc\n"
    assert [(chunk.text, chunk.section) for chunk in cut(text)] == [
        ("intro", None),
        ("# A\n\na", "A"),
        ("## B\n\nb", "A > B"),
        ("# C\n\nc", "C"),
    ]


def test_a_heading_without_words_below_it_stays_with_what_follows() -> None:
    assert [(chunk.text, chunk.section) for chunk in cut("# A\n\n## B\n\nb\n")] == [("# A\n\n## B\n\nb", "A > B")]
    assert [chunk.text for chunk in cut("A\n=\n\n## B\n\nb\n\n# C")] == ["A\n=\n\n## B\n\nb", "# C"]


def test_the_section_of_the_row_comes_first() -> None:
    assert [chunk.section for chunk in cut("x\n\n# A\n\na", section="Row")] == ["Row", "Row > A"]


def test_paragraphs_are_kept_whole_where_they_fit() -> None:
    paragraphs = ["one two three four five six", "seven eight nine ten one two", "three four five"]
    assert [chunk.text for chunk in cut("\n\n".join(paragraphs))] == [
        paragraphs[0],
        f"{paragraphs[1]}\n\n{paragraphs[2]}",
    ]


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    sentences = [f"This is the sentence that has number {number} here." for number in range(6)]
    assert [chunk.text for chunk in cut(" ".join(sentences))] == sentences


def test_a_long_sentence_is_cut_between_words_evenly() -> None:
    text = " ".join(f"word{number}" for number in range(60))
    chunks = cut(text)
    assert " ".join(chunk.text for chunk in chunks) == text
    assert all(2 <= len(chunk.text.split()) <= 10 for chunk in chunks)
    assert all(re.fullmatch(r"(word\d+ ?)+", chunk.text) for chunk in chunks)


def test_a_word_beyond_the_limit_is_cut_hard() -> None:
    chunks = cut("x" * 1000, Chunker(characters, 50, 40))
    assert "".join(chunk.text for chunk in chunks) == "x" * 1000
    assert {len(chunk.text) for chunk in chunks} <= set(range(20, 41))


def test_text_without_spaces_is_cut_at_its_own_full_stops() -> None:
    sentence = "これは日本語の文章であり、空白を含まないので句点で区切られる必要がある文である。"
    chunks = cut(sentence * 4, Chunker(characters, 50, 45))
    assert [chunk.text for chunk in chunks] == [sentence] * 4


def test_a_fenced_block_is_kept_whole_where_the_model_can_read_it() -> None:
    code = "```python\n" + "\n\n".join(f"a = {number}" for number in range(4)) + "\n```"
    chunks = cut(f"before these words there is text\n\n{code}\n\nafter", Chunker(words, 20, 10))
    assert code in [chunk.text for chunk in chunks]
    longer = "~~~\n" + "\n\n".join(f"a = {number}" for number in range(40)) + "\n~~~"
    pieces = cut(longer)
    assert solid("".join(chunk.text for chunk in pieces)) == solid(longer)
    assert all(len(chunk.text.split()) <= 20 for chunk in pieces)


def test_the_last_chunk_is_not_a_crumb() -> None:
    text = " ".join(f"Sentence number {number} stands right here." for number in range(21))
    counts = words([chunk.text for chunk in cut(text, Chunker(words, 256, 100))])
    assert len(counts) == 2 and min(counts) > 40


def embedded(title: str | None, section: str | None, text: str, limit: int = 256) -> str:
    return Chunker(words, limit).embedding_input(Document("d", text, title), Chunk("d#chunk_1", 1, text, 0, 0, section))


def test_title_and_section_stand_before_the_text_that_is_embedded() -> None:
    assert embedded("T", "A > B", "text") == "T\nA > B\ntext"
    assert embedded("T", "T > B", "text") == "T\nB\ntext"
    assert embedded("T", "T", "text") == "T\ntext"
    assert embedded(None, None, "text") == "text"
    assert embedded("T", None, "") == "T"
    assert embedded(None, None, "") == ""


@pytest.mark.parametrize("title", ["t" * 5000, "字" * 5000, "a b " * 5000])
def test_a_title_of_any_length_leaves_half_the_limit_for_the_text(title: str) -> None:
    chunker = Chunker(approximate_tokens, 64)
    document = Document("d", "some words " * 100, title)
    chunks = chunker.chunks(document)
    assert len(chunks) > 2
    for chunk in chunks:
        assert approximate_tokens([chunker.embedding_input(document, chunk)])[0] <= 64
        assert chunk.token_count is not None and chunk.token_count > 20


def test_counting_is_asked_for_each_character_a_few_times_at_most() -> None:
    counted = 0

    def count(texts: Sequence[str]) -> list[int]:
        nonlocal counted
        counted += sum(map(len, texts))
        assert max(map(len, texts)) <= 4000
        return words(texts)

    for text in ("a" * 200_000, "word " * 40_000, "One two. " * 20_000, "\n".join(["x"] * 100_000)):
        counted = 0
        chunks = Chunker(count, 256, 200).chunks(Document("d", text))
        assert solid("".join(chunk.text for chunk in chunks)) == solid(text)
        assert counted < 4 * len(text)


def test_characters_of_many_tokens_are_cut_apart() -> None:
    def bytes_of(texts: Sequence[str]) -> list[int]:
        return [3 * len(text) for text in texts]

    assert [chunk.text for chunk in cut("ab", Chunker(bytes_of, 8, 4))] == ["a", "b"]
