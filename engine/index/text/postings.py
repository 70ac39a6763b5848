"""The lexicon of a segment: the postings of each term (chunk rows and frequencies), and chunk lengths; never scores.

Document frequencies and mean lengths are those of the whole collection. A query sums them over its segments, so scores
do not depend on how chunks are divided into segments. Knows no queries and no deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine.index.text.analysis import ANALYSIS_VERSION, MAX_TERM_CHARACTERS, split_text, to_plain_term, to_terms
from aidre.engine.index.text.detection import detect_languages
from aidre.engine.index.text.inversion import EncodedWords, Tokens, split_tokens, split_words
from aidre.engine.index.text.stop_words import capitals, find_runs
from aidre.engine.index.text.words import WordCounts
from aidre.engine.storage import (
    BinaryArray,
    StringDictionary,
    binary_array,
    build_dictionary,
    check_lengths,
    check_rows,
    durable,
    empty_binary_array,
    is_run_start,
    join_present,
    kernels,
    list_array,
    list_columns,
    list_values,
    to_utf8,
)

MAX_FREQUENCY: Final = 65_535
"""Frequencies of a term in a chunk are stored as uint16 and saturate here, where BM25 hardly grows any more."""

MAX_HEADING_CHARACTERS: Final = 2_000
"""Characters that are indexed of a title, and of a section path."""

_BLOCK_POSTINGS: Final = 1 << 22
"""Postings that a merge holds in memory at once."""

_BLOCK_WORDS: Final = 1 << 20
"""Words of one block of a build. Each takes some forty bytes in memory, and hundreds if all are different."""

_SLICE_CHARACTERS: Final = 1 << 19
"""Characters that are split into tokens at once: the intermediate arrays stay in the processor's cache."""

_MAX_TEXT_CHARACTERS: Final = 1 << 20
"""A longer text is indexed in pieces: a row that brings its own vectors may be one chunk of 64 MiB."""

_SCHEMA: Final = pa.schema(
    [
        ("terms", pa.large_list(pa.large_binary())),
        ("starts", pa.large_list(pa.int64())),
        ("rows", pa.large_list(pa.uint32())),
        ("counts", pa.large_list(pa.uint16())),
        ("lengths", pa.large_list(pa.uint32())),
        ("languages", pa.large_list(pa.uint8())),
    ]
)


class LexicalText(NamedTuple):
    """The text that is indexed of a chunk, and the language that its document declares (None: to be detected)."""

    text: str
    language: str | None = None


def lexical_column(titles: BinaryArray, sections: BinaryArray, texts: BinaryArray) -> BinaryArray:
    """The texts to index: title, section path and text of each chunk, joined by newlines; nothing of a chunk without
    text, which is found by its vectors alone.

    Titles and sections are truncated, since every chunk of a document repeats them.
    """
    headings = [kernels.utf8_slice_codeunits(column, 0, MAX_HEADING_CHARACTERS) for column in (titles, sections)]
    present = [kernels.if_else(kernels.equal(column, ""), None, column) for column in (*headings, texts)]
    joined = join_present([column.cast(pa.large_binary()) for column in present], b"\n").cast(pa.large_string())
    is_empty = kernels.equal(texts, "")
    return kernels.if_else(is_empty, "", joined) if kernels.any(is_empty).as_py() else joined


class Postings(NamedTuple):
    """The chunk rows that hold a term, ascending, the frequency of the term in each, and the number of the term."""

    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    term: int


class Lexicon:
    """A view over a batch of `build_lexicon` or `merge_lexicons`; immutable.

    `lengths` has the number of terms of each chunk, without those of stop words and of plain spellings beside others;
    `languages` has its language as an index into `tags`. The postings of term n are `starts[n]` to `starts[n + 1]` of
    `rows` and `counts`. Raises ValueError for a batch of another version of the analysis, or
    one whose lists contradict each other.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        metadata = batch.schema.metadata or {}
        if not batch.schema.equals(_SCHEMA) or metadata.get(b"analysis") != ANALYSIS_VERSION.encode():
            raise ValueError("is of another version of text analysis; compact the collection")
        self.tags: tuple[str, ...] = tuple(orjson.loads(metadata[b"tags"]))
        terms = list_array(batch.column("terms"))
        self.starts: NDArray[np.int64] = list_values(batch.column("starts"))
        self.rows: NDArray[np.uint32] = list_values(batch.column("rows"))
        self.counts: NDArray[np.uint16] = list_values(batch.column("counts"))
        self.lengths: NDArray[np.uint32] = list_values(batch.column("lengths"))
        self.languages: NDArray[np.uint8] = list_values(batch.column("languages"))
        check_lengths(self.rows, self.counts)
        check_lengths(self.lengths, self.languages)
        check_rows(self.rows, len(self.lengths))
        check_rows(self.languages, len(self.tags))
        is_ascending = len(self.starts) == len(terms) + 1 and not (self.starts[1:] < self.starts[:-1]).any()
        if not is_ascending or self.starts[0] < 0 or self.starts[-1] > len(self.rows):
            raise ValueError("has terms without postings")
        self.terms = StringDictionary(terms)

    def postings(self, term: str) -> Postings | None:
        """None where no chunk holds the term."""
        n = self.terms.find(to_utf8(term))
        if n < 0:
            return None
        span = slice(int(self.starts[n]), int(self.starts[n + 1]))
        return Postings(self.rows[span], self.counts[span], n)


# -- building --------------------------------------------------------------------------------------------------


def build_lexicon(chunks: Iterable[LexicalText], words: WordCounts | None = None) -> pa.RecordBatch:
    """The lexicon of these chunks, one row each, in order. Their words are added to `words`."""
    continuations: list[int] = []
    blocks = list(_build_blocks(_split_long_texts(chunks, continuations), words))
    if len(blocks) == 1:
        built = blocks[0]
    else:
        built = merge_lexicons([(Lexicon(block), np.arange(len(block.column("lengths")[0]))) for block in blocks])
    return _join_rows(Lexicon(built), continuations) if continuations else built


def _split_long_texts(chunks: Iterable[LexicalText], continuations: list[int]) -> Iterator[LexicalText]:
    """The texts, long ones in pieces. Appends to `continuations` the rows that continue the row before them.

    All pieces have the language of the first. Stop words at the end of one and the beginning of the next are not a run.
    """
    row = 0
    for chunk in chunks:
        if len(chunk.text) <= _MAX_TEXT_CHARACTERS:
            yield chunk
            row += 1
            continue
        pieces = split_text(chunk.text, _MAX_TEXT_CHARACTERS)
        vocabulary, codes, counts = split_words([split_tokens(pieces[:1])])
        [language] = _languages([chunk.language], vocabulary, codes, np.zeros(counts[0], np.int32))
        yield from (LexicalText(piece, language) for piece in pieces)
        continuations.extend(range(row + 1, row + len(pieces)))
        row += len(pieces)


def _join_rows(pieces: Lexicon, continuations: Sequence[int]) -> pa.RecordBatch:
    """The lexicon with each row that continues the one before it joined to that row."""
    is_first = np.ones(len(pieces.lengths), np.bool_)
    is_first[continuations] = False
    rows = (np.cumsum(is_first) - 1)[pieces.rows]
    is_new = is_run_start(rows)
    is_new[pieces.starts[:-1]] = True  # every term has a posting
    firsts = np.flatnonzero(is_new)
    return _batch(
        pieces.terms.array,
        np.searchsorted(firsts, pieces.starts),
        rows[firsts].astype(np.uint32),
        np.minimum(np.add.reduceat(pieces.counts, firsts, dtype=np.int64), MAX_FREQUENCY).astype(np.uint16),
        np.add.reduceat(pieces.lengths, np.flatnonzero(is_first), dtype=np.uint32),
        pieces.languages[is_first],
        pieces.tags,
    )


def _build_blocks(chunks: Iterable[LexicalText], counts: WordCounts | None) -> Iterator[pa.RecordBatch]:
    """Lexicons of consecutive chunks, at least one, each of some _BLOCK_WORDS words."""
    slices, declared, waiting = list[Tokens](), list[str | None](), list[str]()
    words = characters = 0
    for text, language in chunks:
        waiting.append(text)
        declared.append(language)
        characters += len(text)
        if characters >= _SLICE_CHARACTERS:
            slices.append(split_tokens(waiting))
            words += slices[-1].max_words
            waiting, characters = [], 0
        if words >= _BLOCK_WORDS:
            yield _invert(split_words(slices), declared, counts)
            slices, declared, words = [], [], 0
    yield _invert(split_words([*slices, split_tokens(waiting)]), declared, counts)


def _invert(
    words: EncodedWords, declared: Sequence[str | None], word_counts: WordCounts | None = None
) -> pa.RecordBatch:
    """The lexicon of some chunks: from the words of each row to the rows of each term.

    A posting is one integer while they are sorted and counted: (term code << 32) | row.
    """
    vocabulary, codes, counts = words
    if word_counts is not None:
        word_counts.add(list(vocabulary), np.bincount(codes, minlength=len(vocabulary)))
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    languages = _languages(declared, vocabulary, codes, rows)
    tags = sorted(set(languages))
    tag_ids = {tag: i for i, tag in enumerate(tags)}
    row_tags = np.fromiter(map(tag_ids.__getitem__, languages), np.uint8, len(languages))
    terms, codes, rows, counted = _words_to_terms(list(vocabulary), codes, rows, tags, row_tags)
    lengths = np.bincount(counted, minlength=len(counts)).astype(np.uint32)
    keys = codes.astype(np.int64)
    keys <<= 32
    keys |= rows
    del codes, rows
    keys.sort()
    firsts = np.flatnonzero(is_run_start(keys))
    frequencies = np.diff(firsts, append=len(keys))
    keys = keys[firsts]
    starts = np.searchsorted(keys, np.arange(len(terms) + 1, dtype=np.int64) << 32)
    return _batch(
        terms.array,
        starts,
        keys.astype(np.uint32),
        np.minimum(frequencies, MAX_FREQUENCY).astype(np.uint16),
        lengths,
        row_tags,
        tags,
    )


def _languages(
    declared: Sequence[str | None], vocabulary: Mapping[str, int], codes: NDArray[np.int32], rows: NDArray[np.int32]
) -> Sequence[str]:
    """The language of each row: declared, else detected."""
    if None not in declared:
        return [language or "" for language in declared]
    detected = detect_languages(vocabulary, codes, rows, len(declared))
    return [language or guess for language, guess in zip(declared, detected, strict=True)]


def _words_to_terms(
    words: Sequence[str],
    codes: NDArray[np.int32],
    rows: NDArray[np.int32],
    tags: Sequence[str],
    row_tags: NDArray[np.uint8],
) -> tuple[StringDictionary, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The distinct terms in order; the term code and the row of each occurrence of a term; and the rows of those that
    count in the length of a chunk.

    The term of a word depends on the language of its row, so each (language, word) pair is looked up once.
    """
    pairs = row_tags[rows].astype(np.int64)
    pairs *= len(words)
    pairs += codes
    is_used = np.zeros((len(tags), len(words)), np.bool_)
    is_used.reshape(-1)[pairs] = True
    own, plain, is_stop_word = _terms_of_pairs(words, tags, is_used)
    has_capital = np.fromiter(map(capitals().__contains__, words), np.bool_, len(words))[codes]
    runs = find_runs(words, codes, rows, is_stop_word[pairs], has_capital)
    strings = [term for terms in (own, plain, runs.terms) for term in terms if term is not None]
    distinct, term_codes = build_dictionary(binary_array(strings))
    all_codes, all_rows = [term_codes[len(strings) - len(runs.terms) :][runs.codes]], [runs.rows]
    counted, first = rows, 0
    for terms in (own, plain):
        has_term = np.fromiter((term is not None for term in terms), np.bool_, len(terms))
        code_of_pair = np.full(is_used.size, -1, np.int32)
        code_of_pair[np.flatnonzero(is_used)[has_term]] = term_codes[first : first + int(has_term.sum())]
        first += int(has_term.sum())
        codes_of_rows = code_of_pair[pairs]
        if terms is own:
            counted = rows[(codes_of_rows >= 0) & ~has_capital]
        all_codes.append(codes_of_rows[codes_of_rows >= 0])
        all_rows.append(rows[codes_of_rows >= 0])
    return distinct, np.concatenate(all_codes), np.concatenate(all_rows), counted


def _terms_of_pairs(
    words: Sequence[str], tags: Sequence[str], is_used: NDArray[np.bool_]
) -> tuple[list[str | None], list[str | None], NDArray[np.bool_]]:
    """For each pair of a language and a word that is used, in order: its term, and that of its plain spelling; and a
    mark, by pair, of those that are stop words."""
    own: list[str | None] = []
    plain: list[str | None] = []
    is_stop_word = np.zeros(is_used.shape, np.bool_)
    for tag, used, of_tag in zip(tags, is_used, is_stop_word, strict=True):
        used_codes = np.flatnonzero(used)
        used_words = [words[code] for code in used_codes.tolist()]
        terms = to_terms(used_words, tag)
        own += terms
        plain += [None if word.isascii() else to_plain_term(word, tag) for word in used_words]
        left_out = [
            term is None and len(word) <= MAX_TERM_CHARACTERS for word, term in zip(used_words, terms, strict=True)
        ]
        of_tag[used_codes] = left_out
    return own, plain, is_stop_word.reshape(-1)


# -- merging ---------------------------------------------------------------------------------------------------


def merge_lexicons(sources: Sequence[tuple[Lexicon, NDArray[np.int64]]], scratch: Path | None = None) -> pa.RecordBatch:
    """The given rows (ascending) of each lexicon, in order: equal to `build_lexicon` of their chunks.

    The postings lie in mapped files of the folder `scratch` if there is one; keep it as long as the batch.
    """
    tags = sorted({tag for lexicon, _ in sources for tag in lexicon.tags})
    remaining = [_kept_postings(lexicon, rows) for lexicon, rows in sources]
    source_terms = [lexicon.terms.array for lexicon, _ in sources]
    strings = [terms.filter(pa.array(counts > 0)) for terms, (_, counts) in zip(source_terms, remaining, strict=True)]
    terms, codes = build_dictionary(pa.concat_arrays([empty_binary_array(), *strings]))
    ends = np.cumsum([0, *map(len, strings)])
    merged_codes = [codes[ends[i] : ends[i + 1]] for i in range(len(sources))]
    totals = np.zeros(len(terms), np.int64)
    for own_codes, (_, counts) in zip(merged_codes, remaining, strict=True):
        totals[own_codes] += counts[counts > 0]
    starts = np.concatenate([[0], np.cumsum(totals)])
    merged_rows = _scratch_array(scratch, "rows", int(starts[-1]), np.dtype(np.uint32))
    merged_counts = _scratch_array(scratch, "counts", int(starts[-1]), np.dtype(np.uint16))
    free, first = starts[:-1].copy(), 0  # the next free posting of each term, and the first row of each lexicon
    for (lexicon, rows), own_codes, (new_rows, counts) in zip(sources, merged_codes, remaining, strict=True):
        _copy_postings(lexicon, new_rows, counts, free[own_codes], (merged_rows, merged_counts, first))
        free[own_codes] += counts[counts > 0]
        first += len(rows)
    lengths = np.concatenate([np.empty(0, np.uint32), *(lexicon.lengths[rows] for lexicon, rows in sources)])
    languages = np.concatenate([np.empty(0, np.uint8), *(_row_tags(lexicon, rows, tags) for lexicon, rows in sources)])
    return _batch(terms.array, starts, merged_rows, merged_counts, lengths, languages, tags)


def _row_tags(lexicon: Lexicon, rows: NDArray[np.int64], tags: Sequence[str]) -> NDArray[np.uint8]:
    """The languages of some rows as indices into other `tags`."""
    new_ids = np.array([tags.index(tag) for tag in lexicon.tags], np.uint8)
    return new_ids[lexicon.languages[rows]]


def _kept_postings(lexicon: Lexicon, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The new number of each row among the kept `rows` (-1: not kept), and the number of postings kept of each term."""
    new_rows = np.full(len(lexicon.lengths), -1, np.int32)
    new_rows[rows] = np.arange(len(rows), dtype=np.int32)
    if len(rows) == len(new_rows) or not len(lexicon.rows):
        return new_rows, np.diff(lexicon.starts)
    starts = range(0, len(lexicon.rows), _BLOCK_POSTINGS)
    is_kept = np.concatenate([new_rows[lexicon.rows[start : start + _BLOCK_POSTINGS]] >= 0 for start in starts])
    return new_rows, np.add.reduceat(is_kept, lexicon.starts[:-1], dtype=np.int64)


def _copy_postings(
    lexicon: Lexicon,
    new_rows: NDArray[np.int32],
    counts: NDArray[np.int64],
    free: NDArray[np.int64],
    target: tuple[NDArray[np.uint32], NDArray[np.uint16], int],
) -> None:
    """Copy the kept postings of a lexicon, in blocks of terms; those of its n-th kept term go to `free[n]` and after.

    `target` has the merged rows and frequencies, and the merged row of the lexicon's first kept one.
    """
    rows, frequencies, first = target
    shift = np.zeros(len(counts), np.int64)
    shift[counts > 0] = free
    shift -= np.cumsum(counts) - counts
    done, low = 0, 0
    while low < len(counts):
        start = int(lexicon.starts[low])
        high = max(low + 1, int(np.searchsorted(lexicon.starts, start + _BLOCK_POSTINGS, side="right")) - 1)
        span = slice(start, int(lexicon.starts[high]))
        moved = new_rows[lexicon.rows[span]]
        is_kept = moved >= 0
        targets = np.repeat(shift[low:high], counts[low:high]) + np.arange(done, done + int(is_kept.sum()))
        rows[targets] = moved[is_kept] + first
        frequencies[targets] = lexicon.counts[span][is_kept]
        done, low = done + len(targets), high


def _scratch_array(scratch: Path | None, name: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if scratch is None or not size:
        return np.empty(size, dtype)
    durable.reserve_file(scratch / name, size * dtype.itemsize)
    return np.memmap(scratch / name, dtype=dtype, mode="r+", shape=(size,))


def _batch(terms: BinaryArray, *arrays: NDArray[Any] | Sequence[str]) -> pa.RecordBatch:
    """A batch of one row, a list in each column of the schema; the last of the arrays is the tags, in the metadata."""
    *values_of, tags = arrays
    columns = list_columns(_SCHEMA, (terms, *values_of))
    metadata = {"analysis": ANALYSIS_VERSION, "tags": orjson.dumps(list(tags)).decode()}
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA.with_metadata(metadata))
