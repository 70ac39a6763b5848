"""Records of the ledger's journal: as JSON, also that of older releases, and in the index."""

from __future__ import annotations

import orjson
import pytest

from aidre.api.protocols.intent.records.journal import (
    JournalIndex,
    Record,
    Release,
    Reservation,
    ReturnedChunk,
    SpentNonce,
    decode_records,
    encode_records,
)


def a_page(*pieces: bytes, answer: bytes = b"a") -> Reservation:
    chunks = tuple(ReturnedChunk(b"d", piece, piece.hex(), None) for piece in pieces)
    return Reservation(b"r", b"s", answer, 1.0, chunks, b"k")


def test_records_come_back_as_they_were_written() -> None:
    records: list[Record] = [SpentNonce(b"n", 5.0), a_page(b"1", b"2"), Release(b"r", b"a", b"k")]
    assert decode_records(encode_records(records)) == records


def test_records_of_an_older_release_have_no_account() -> None:
    older = [["taken", "72", "73", "61", 1.0, [["64", "31", "31", None]]], ["given back", "72", "61"]]
    page = Reservation(b"r", b"s", b"a", 1.0, (ReturnedChunk(b"d", b"1", "31", None),), b"")
    assert decode_records(orjson.dumps(older)) == [page, Release(b"r", b"a", b"")]
    with pytest.raises(ValueError, match="unknown kind 'other'"):
        decode_records(orjson.dumps([["other"]]))


def test_the_pages_of_an_answer_add_up_until_it_is_given_back() -> None:
    index = JournalIndex()
    for record in (a_page(b"1"), a_page(b"2"), a_page(b"2", answer=b"b")):
        index.add(record)
    assert [chunk.piece for chunk in index.session_chunks(b"s")] == [b"1", b"2", b"2"]
    assert [chunk.piece for chunk in index.request_chunks(b"r")] == [b"1", b"2", b"2"]
    assert set(index.given_pieces(b"k", b"d")) == {b"1", b"2"}
    index.add(Release(b"r", b"a", b"k"))
    assert [chunk.piece for chunk in index.session_chunks(b"s")] == [b"2"]
    assert [chunk.piece for chunk in index.request_chunks(b"r")] == [b"2"]
    assert set(index.given_pieces(b"k", b"d")) == {b"2"}
