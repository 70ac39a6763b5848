"""Words of chunks in Milvus: how terms are stored and counted.

The server's BM25 analyses texts and weighs terms otherwise than local segments. So a row has the terms of aidre's own
analysis, each as a code of eight letters and digits that the tokenizer `standard` leaves whole, as often as the chunk
has it. The server finds candidates by its own BM25, which takes their order from other document frequencies; they are
scored here, from the codes that come with them.

How many chunks have a term is in two places, which commits write in turn: the one that no reader of the newest state
asks for is replaced, so a commit that fails has changed nothing. What a place tells is the newest number that was born
in the reader's commit or before.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from aidre_milvus.catalog import Commit
from aidre_milvus.expressions import literal
from aidre_milvus.server import MilvusDatabase, Row, blocks
from aidre_milvus.tables import MOST_CHARACTERS, UNUSED
from aidre_rows import ChunkRow, DocumentRow, chunk_words

_CODE_BYTES: Final = 5
_MOST_OCCURRENCES: Final = MOST_CHARACTERS // 9
"""Of the terms of a chunk, which are separated by spaces; the others do not count."""
_ASKED: Final = 5_000
"""Numbers of one request."""


class CodeCounts(NamedTuple):
    """The words of some chunks: in how many of these each code is, their languages, and their length together."""

    codes: Counter[str]
    languages: Counter[str]
    length: int


def code_of(term: str) -> str:
    return b32encode(hashlib.blake2b(term.encode(), digest_size=_CODE_BYTES).digest()).decode().lower()


def word_rows(heads: Sequence[Row], chunks: Iterable[tuple[DocumentRow, ChunkRow]]) -> list[Row]:
    """The rows of chunks, which begin as `heads` do."""
    return [
        {**head, "words": _text_of(words.terms), "length": words.length, "language": words.language}
        for head, words in zip(heads, chunk_words(chunks), strict=True)
    ]


def _text_of(terms: Iterable[tuple[str, int]]) -> str:
    return " ".join([code for term, count in terms for code in [code_of(term)] * count][:_MOST_OCCURRENCES])


def counts_of(rows: Iterable[Row]) -> CodeCounts:
    codes, languages, length = Counter[str](), Counter[str](), 0
    for row in rows:
        codes.update(set(row["words"].split()))
        languages[row["language"]] += 1
        length += row["length"]
    return CodeCounts(codes, languages, length)


# -- how many chunks have a term -----------------------------------------------------------------------------------


def newest_counts(server: MilvusDatabase, table: str, commit: Commit, codes: Iterable[str]) -> dict[str, Row]:
    """The rows that tell how many chunks of a state have each of some terms, by code. Where there is none, as for a
    reader that is two commits behind, the next one: a word too many that no chunk has changes no score."""
    found: dict[str, Row] = {}
    named = {place: code for code in codes for place in _places(code)}
    places = sorted(named)
    for block in blocks(places, _ASKED):
        where = f"row in {literal(block)}"
        if commit.aborted:
            where += f" and born not in {literal(commit.aborted)}"
        rows = server.rows(table, where, ["row", "born", "chunks"])
        for row in sorted(rows, key=lambda row: (row["born"] <= commit.born, -abs(row["born"] - commit.born))):
            found[named[row["row"]]] = row
    return found


def count_rows(server: MilvusDatabase, table: str, commit: Commit, born: int, added: Mapping[str, int]) -> list[Row]:
    """What a commit writes in the other places of the terms whose numbers it changes."""
    newest, rows = newest_counts(server, table, commit, added), list[Row]()
    for code, number in added.items():
        first, second = _places(code)
        row = newest.get(code, {"row": second, "born": 0, "chunks": 0})
        place = first if row["row"] == second else second
        stored = row["chunks"] if row["born"] <= commit.born else 0
        rows.append({"row": place, "born": born, "chunks": stored + number, "vector": UNUSED})
    return rows


def _places(code: str) -> tuple[int, int]:
    number = int(code.translate(_DIGITS), 32)
    return 2 * number, 2 * number + 1


_DIGITS: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")


def having_any(terms: Sequence[str]) -> str:
    """The rows that have one of some terms."""
    return f"text_match(words, {literal(' '.join(map(code_of, terms)))})"
