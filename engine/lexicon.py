"""The lexicon of a segment: which chunks hold a term and how often. Frequencies and lengths, never scores.

What BM25 needs of the whole collection (how many chunks hold a term, how long they are) is summed over segments when
a query comes, so that scores do not depend on how the chunks are divided. Knows no query and no deleted row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from aidre.engine import durable
from aidre.engine.analysis import ANALYSIS, cut, recognised, terms
from aidre.engine.arrow import list_view
from aidre.engine.json_columns import listed
from aidre.engine.vocabulary import Spoken, Tokens, read_tokens, read_words
from aidre.engine.words import Strings, Words, is_fresh, kernels, no_strings, ranked, strings_of

MOST_COUNT: Final = 65_535
"""A term's frequency in a chunk is counted up to here, where BM25 has long stopped to care."""

MOST_AROUND: Final = 2_000
"""Characters of a title, and of a section path, that are indexed."""

_BLOCK: Final = 1 << 22
"""Postings that merging holds in memory at once."""

_AT_ONCE: Final = 1 << 20
"""Words that building holds in memory at once, where each takes some forty bytes, and hundreds if all are different."""

_READ_AT_ONCE: Final = 1 << 19
"""Characters that are read at once: what is made of them stays in the cache."""

_LONGEST_TEXT: Final = 1 << 20
"""Characters of a text that is read whole: a row that brings its vectors may be one chunk of 64 MiB."""

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
    """What is indexed of a chunk, and the language that its document declares."""

    text: str
    language: str | None = None


def lexical_column(titles: Strings, sections: Strings, texts: Strings) -> Strings:
    """What is indexed of chunks: title and section path are words by which one is looked for, too.

    Of them no more than their beginnings: every chunk of a document repeats them.
    """
    around = [kernels.utf8_slice_codeunits(each, 0, MOST_AROUND) for each in (titles, sections)]
    present = [kernels.if_else(kernels.equal(each, ""), None, each) for each in (*around, texts)]
    return listed([each.cast(pa.large_binary()) for each in present], b"\n").cast(pa.large_string())


class Postings(NamedTuple):
    """The chunks that hold a term, in ascending order, and how often each does."""

    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]


class Lexicon:
    """A view over a batch of `build_lexicon` or `merge_lexicons`; immutable.

    ValueError for a batch of another analysis. `lengths` are the terms of each chunk; `languages` its language, as a
    place in `tags`.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        facts = batch.schema.metadata or {}
        if not batch.schema.equals(_SCHEMA) or facts.get(b"analysis") != ANALYSIS.encode():
            raise ValueError("is of another analysis of words")
        self.tags: tuple[str, ...] = tuple(orjson.loads(facts[b"tags"]))
        self.terms = Words(batch.column("terms").flatten())
        self.starts: NDArray[np.int64] = list_view(batch.column("starts"))
        self.rows: NDArray[np.uint32] = list_view(batch.column("rows"))
        self.counts: NDArray[np.uint16] = list_view(batch.column("counts"))
        self.lengths: NDArray[np.uint32] = list_view(batch.column("lengths"))
        self.languages: NDArray[np.uint8] = list_view(batch.column("languages"))

    def postings(self, wanted: str) -> Postings | None:
        """None where no chunk holds the term."""
        name = wanted.encode("utf-8", "surrogatepass")
        place = bisect_left(range(len(self.terms)), name, key=self.terms.__getitem__)
        if place == len(self.terms) or self.terms[place] != name:
            return None
        span = slice(int(self.starts[place]), int(self.starts[place + 1]))
        return Postings(self.rows[span], self.counts[span])


def build_lexicon(chunks: Iterable[LexicalText]) -> pa.RecordBatch:
    """The lexicon of these chunks, row by row in their order."""
    continued: list[int] = []
    blocks = list(_blocks(_pieces(chunks, continued)))
    if len(blocks) == 1:
        built = blocks[0]
    else:
        built = merge_lexicons([(Lexicon(block), np.arange(len(block.column("lengths")[0]))) for block in blocks])
    return _rejoined(Lexicon(built), continued) if continued else built


def _pieces(chunks: Iterable[LexicalText], continued: list[int]) -> Iterator[LexicalText]:
    """The texts, long ones in pieces; `continued` is told which of all are the continuation of the one before.

    The language of a long text is that of its first piece.
    """
    number = 0
    for chunk in chunks:
        if len(chunk.text) <= _LONGEST_TEXT:
            yield chunk
            number += 1
            continue
        pieces = cut(chunk.text, _LONGEST_TEXT)
        places, codes, sizes = read_words([read_tokens(pieces[:1])])
        [language] = _languages([chunk.language], places, codes, np.zeros(sizes[0], np.int32))
        yield from (LexicalText(piece, language) for piece in pieces)
        continued.extend(range(number + 1, number + len(pieces)))
        number += len(pieces)


def _rejoined(pieces: Lexicon, continued: Sequence[int]) -> pa.RecordBatch:
    """A lexicon in which some rows are the continuation of the one before, as one in which they are one row."""
    is_first = np.ones(len(pieces.lengths), np.bool_)
    is_first[continued] = False
    rows = (np.cumsum(is_first) - 1)[pieces.rows]
    fresh = is_fresh(rows)
    fresh[pieces.starts[:-1]] = True  # every term has a row
    firsts = np.flatnonzero(fresh)
    return _batch(
        pieces.terms.array,
        np.searchsorted(firsts, pieces.starts),
        rows[firsts].astype(np.uint32),
        np.minimum(np.add.reduceat(pieces.counts, firsts, dtype=np.int64), MOST_COUNT).astype(np.uint16),
        np.add.reduceat(pieces.lengths, np.flatnonzero(is_first), dtype=np.uint32),
        pieces.languages[is_first],
        pieces.tags,
    )


def _blocks(chunks: Iterable[LexicalText]) -> Iterator[pa.RecordBatch]:
    """The lexicons of some chunks after the other, at least one."""
    read, declared, waiting = list[Tokens](), list[str | None](), list[str]()
    words = characters = 0
    for text, language in chunks:
        waiting.append(text)
        declared.append(language)
        characters += len(text)
        if characters >= _READ_AT_ONCE:
            read.append(read_tokens(waiting))
            words += read[-1].most_words
            waiting, characters = [], 0
        if words >= _AT_ONCE:
            yield _built(read_words(read), declared)
            read, declared, words = [], [], 0
    yield _built(read_words([*read, read_tokens(waiting)]), declared)


def _built(spoken: Spoken, declared: Sequence[str | None]) -> pa.RecordBatch:
    places, codes, sizes = spoken
    rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    languages = _languages(declared, places, codes, rows)
    tags = sorted(set(languages))
    numbers = {tag: number for number, tag in enumerate(tags)}
    of_row = np.fromiter(map(numbers.__getitem__, languages), np.uint8, len(languages))
    terms, codes, rows = _terms(list(places), codes, rows, tags, of_row)
    lengths = np.bincount(rows, minlength=len(sizes)).astype(np.uint32)
    keys = codes.astype(np.int64)
    keys <<= 32
    keys |= rows
    del codes, rows
    keys.sort()
    firsts = np.flatnonzero(is_fresh(keys))
    counts = np.diff(firsts, append=len(keys))
    keys = keys[firsts]
    starts = np.searchsorted(keys, np.arange(len(terms) + 1, dtype=np.int64) << 32)
    return _batch(
        terms.array,
        starts,
        keys.astype(np.uint32),
        np.minimum(counts, MOST_COUNT).astype(np.uint16),
        lengths,
        of_row,
        tags,
    )


def _languages(
    declared: Sequence[str | None], places: Mapping[str, int], codes: NDArray[np.int32], rows: NDArray[np.int32]
) -> Sequence[str]:
    """The language of each row: as declared, else as recognised."""
    if None not in declared:
        return [known or "" for known in declared]
    guessed = recognised(places, codes, rows, len(declared))
    return [known or guess for known, guess in zip(declared, guessed, strict=True)]


def _terms(
    known: Sequence[str],
    codes: NDArray[np.int32],
    rows: NDArray[np.int32],
    tags: Sequence[str],
    of_row: NDArray[np.uint8],
) -> tuple[Words, NDArray[np.int32], NDArray[np.int32]]:
    """The distinct terms in order, and for each word that has one its code and its row."""
    spoken = of_row[rows].astype(np.int64)  # a word of a language
    spoken *= len(known)
    spoken += codes
    used = np.zeros(len(tags) * len(known), np.bool_)
    used[spoken] = True
    found: list[str | None] = []
    for tag, mine in zip(tags, used.reshape(len(tags), len(known)), strict=True):
        found += terms([known[place] for place in np.flatnonzero(mine).tolist()], tag)
    meant = np.fromiter((each is not None for each in found), np.bool_, len(found))
    distinct, ranks = ranked(strings_of([each for each in found if each is not None]))
    codes_of = np.full(len(used), -1, np.int32)
    codes_of[np.flatnonzero(used)[meant]] = ranks
    codes = codes_of[spoken]
    return distinct, codes[codes >= 0], rows[codes >= 0]


def merge_lexicons(parts: Sequence[tuple[Lexicon, NDArray[np.int64]]], scratch: Path | None = None) -> pa.RecordBatch:
    """The given rows (ascending) of each part, in order: what `build_lexicon` makes of their chunks.

    Postings lie in files of the folder `scratch`, where one is given: keep it as long as the batch.
    """
    tags = sorted({tag for lexicon, _ in parts for tag in lexicon.tags})
    kept = [_survivors(lexicon, rows) for lexicon, rows in parts]
    terms_of = [lexicon.terms.array for lexicon, _ in parts]
    strings = [each.filter(pa.array(counts > 0)) for each, (_, counts) in zip(terms_of, kept, strict=True)]
    terms, codes = ranked(pa.concat_arrays([no_strings(), *strings]))
    totals = np.zeros(len(terms), np.int64)
    ends = np.cumsum([0, *map(len, strings)])
    for number, (_, counts) in enumerate(kept):
        totals[codes[ends[number] : ends[number + 1]]] += counts[counts > 0]
    starts = np.concatenate([[0], np.cumsum(totals)])
    merged_rows = _array(scratch, "rows", int(starts[-1]), np.dtype(np.uint32))
    merged_counts = _array(scratch, "counts", int(starts[-1]), np.dtype(np.uint16))
    free, first = starts[:-1].copy(), 0
    for number, ((lexicon, rows), (places, counts)) in enumerate(zip(parts, kept, strict=True)):
        mine = codes[ends[number] : ends[number + 1]]
        _scatter(lexicon, places, counts, free[mine], (merged_rows, merged_counts, first))
        free[mine] += counts[counts > 0]
        first += len(rows)
    lengths = np.concatenate([np.empty(0, np.uint32), *(lexicon.lengths[rows] for lexicon, rows in parts)])
    renamed = (np.array([tags.index(tag) for tag in lexicon.tags], np.uint8) for lexicon, _ in parts)
    spoken = [new[lexicon.languages[rows]] for new, (lexicon, rows) in zip(renamed, parts, strict=True)]
    languages = np.concatenate([np.empty(0, np.uint8), *spoken])
    return _batch(terms.array, starts, merged_rows, merged_counts, lengths, languages, tags)


def _survivors(lexicon: Lexicon, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Where each row of a part goes among its surviving ones (-1: nowhere), and how many postings each term keeps."""
    places = np.full(len(lexicon.lengths), -1, np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    if len(rows) == len(places) or not len(lexicon.rows):
        return places, np.diff(lexicon.starts)
    live = np.concatenate([places[lexicon.rows[at : at + _BLOCK]] >= 0 for at in range(0, len(lexicon.rows), _BLOCK)])
    return places, np.add.reduceat(live, lexicon.starts[:-1], dtype=np.int64)


def _scatter(
    lexicon: Lexicon,
    places: NDArray[np.int32],
    counts: NDArray[np.int64],
    free: NDArray[np.int64],
    into: tuple[NDArray[np.uint32], NDArray[np.uint16], int],
) -> None:
    """Copy the surviving postings of a part; those of its n-th surviving term go to `free[n]` and after."""
    rows, frequencies, first = into
    shift = np.zeros(len(counts), np.int64)
    shift[counts > 0] = free
    shift -= np.cumsum(counts) - counts
    done, low = 0, 0
    while low < len(counts):
        start = int(lexicon.starts[low])
        high = max(low + 1, int(np.searchsorted(lexicon.starts, start + _BLOCK, side="right")) - 1)
        span = slice(start, int(lexicon.starts[high]))
        moved = places[lexicon.rows[span]]
        live = moved >= 0
        targets = np.repeat(shift[low:high], counts[low:high]) + np.arange(done, done + int(live.sum()))
        rows[targets] = moved[live] + first
        frequencies[targets] = lexicon.counts[span][live]
        done, low = done + len(targets), high


def _array(scratch: Path | None, name: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if scratch is None or not size:
        return np.empty(size, dtype)
    durable.reserve_file(scratch / name, size * dtype.itemsize)
    return np.memmap(scratch / name, dtype=dtype, mode="r+", shape=(size,))


def _batch(terms: Strings, *arrays: NDArray[Any] | Sequence[str]) -> pa.RecordBatch:
    """One row of the schema; the last of the arrays are the tags."""
    *values_of, tags = arrays
    columns = []
    for column, values in zip(_SCHEMA, (terms, *values_of), strict=True):
        flat = values if isinstance(values, pa.Array) else pa.array(values, column.type.value_type)
        columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat, type=column.type))
    facts = {"analysis": ANALYSIS, "tags": orjson.dumps(list(tags)).decode()}
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA.with_metadata(facts))
