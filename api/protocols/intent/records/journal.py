"""The records of the ledger's journal: what a transaction spends, reserves and releases, as JSON and by index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson


@dataclass(frozen=True, slots=True)
class SpentNonce:
    """The digest of a nonce, and the Unix time from which it may be forgotten."""

    nonce: bytes
    expires: float


@dataclass(frozen=True, slots=True)
class ReturnedChunk:
    """A chunk in a reservation. `document` and `piece` are digests of the document id and of chunk id with content;
    `chunk` and `url` are pseudonyms."""

    document: bytes
    piece: bytes
    chunk: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The chunks of one page of an answer; digests as in Exchange, `at` in Unix time."""

    request: bytes
    session: bytes
    answer: bytes
    at: float
    chunks: tuple[ReturnedChunk, ...]
    account: bytes


@dataclass(frozen=True, slots=True)
class Release:
    """Undoes the reservations, on every page, of an answer that was not sent."""

    request: bytes
    answer: bytes
    account: bytes


Record: TypeAlias = SpentNonce | Reservation | Release


class JournalIndex:
    """In-memory index of the records in the journal, which are not in the tables yet."""

    def __init__(self) -> None:
        self._nonces: dict[bytes, float] = {}
        self._requests: dict[bytes, dict[bytes, list[Reservation]]] = {}
        self._sessions: dict[bytes, dict[bytes, list[Reservation]]] = {}
        self._given: dict[tuple[bytes, bytes], dict[bytes, set[bytes]]] = {}
        """By account and document: the pieces, each with the answers that hold it."""

    def add(self, record: Record) -> None:
        match record:
            case SpentNonce(nonce, expires):
                self._nonces[nonce] = expires
            case Reservation():
                self._add_reservation(record)
            case Release(request, answer):
                for reservation in self._requests.get(request, {}).pop(answer, ()):
                    self._remove_reservation(reservation)

    def _add_reservation(self, page: Reservation) -> None:
        self._requests.setdefault(page.request, {}).setdefault(page.answer, []).append(page)
        self._sessions.setdefault(page.session, {}).setdefault(page.answer, []).append(page)
        for chunk in page.chunks:
            pieces = self._given.setdefault((page.account, chunk.document), {})
            pieces.setdefault(chunk.piece, set()).add(page.answer)

    def _remove_reservation(self, page: Reservation) -> None:
        self._sessions[page.session].pop(page.answer, None)
        for chunk in page.chunks:
            pieces = self._given[page.account, chunk.document]
            answers = pieces.get(chunk.piece, set())
            answers.discard(page.answer)
            if not answers:
                pieces.pop(chunk.piece, None)

    def is_spent(self, nonce: bytes, now: float) -> bool:
        return self._nonces.get(nonce, now) > now

    def session_chunks(self, session: bytes) -> Iterator[ReturnedChunk]:
        for reservations in self._sessions.get(session, {}).values():
            for reservation in reservations:
                yield from reservation.chunks

    def request_chunks(self, request: bytes) -> Iterator[ReturnedChunk]:
        for reservations in self._requests.get(request, {}).values():
            for reservation in reservations:
                yield from reservation.chunks

    def given_pieces(self, account: bytes, document: bytes) -> Collection[bytes]:
        return self._given.get((account, document), {}).keys()


def encode_records(records: Iterable[Record]) -> bytes:
    """Records as JSON, for the column `entries` of the journal."""
    return orjson.dumps([_encode(record) for record in records])


def _encode(record: Record) -> list[Any]:
    match record:
        case SpentNonce(nonce, expires):
            return ["spent", nonce.hex(), expires]
        case Reservation(request, session, answer, at, chunks, account):
            members = [(chunk.document.hex(), chunk.piece.hex(), chunk.chunk, chunk.url) for chunk in chunks]
            return ["taken", request.hex(), session.hex(), answer.hex(), at, members, account.hex()]
        case Release(request, answer, account):
            return ["given back", request.hex(), answer.hex(), account.hex()]


def decode_records(content: bytes) -> list[Record]:
    """The inverse of `encode_records`. Entries of older releases have no account: it is empty."""
    return [_decode(*members) for members in orjson.loads(content)]


def _decode(kind: str, *members: Any) -> Record:
    digest = bytes.fromhex
    match kind, *members:
        case "spent", nonce, expires:
            return SpentNonce(digest(nonce), expires)
        case "given back", request, answer, *account:
            return Release(digest(request), digest(answer), digest("".join(account)))
        case _, request, session, answer, at, rows, *account:
            chunks = tuple(ReturnedChunk(digest(row[0]), digest(row[1]), row[2], row[3]) for row in rows)
            page = digest(request), digest(session), digest(answer), at, chunks
            return Reservation(*page, digest("".join(account)))
    raise ValueError(f"a journal entry of unknown kind {kind!r}")
