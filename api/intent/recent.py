"""What the last turns spent and took: written in one note each, and in memory until tables and indexes learn of it.

Every worker has all of it, its own and, read from the notes, that of the others. Pure: it knows no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson


@dataclass(frozen=True, slots=True)
class Spent:
    """A nonce that was used."""

    nonce: bytes
    expires: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that was returned. `document` and `piece` are digests, of which and of what it held."""

    document: bytes
    piece: bytes
    chunk: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Taken:
    """What an answer took."""

    request: bytes
    session: bytes
    answer: bytes
    at: float
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class GivenBack:
    """An answer that did not leave."""

    request: bytes
    answer: bytes


Entry: TypeAlias = Spent | Taken | GivenBack


class Recent:
    """The entries of all notes that stand, in their order."""

    def __init__(self) -> None:
        self._nonces: dict[bytes, float] = {}
        self._requests: dict[bytes, dict[bytes, Taken]] = {}
        self._sessions: dict[bytes, dict[bytes, Taken]] = {}

    def add(self, entry: Entry) -> None:
        match entry:
            case Spent(nonce, expires):
                self._nonces[nonce] = expires
            case Taken(request, session, answer):
                self._requests.setdefault(request, {})[answer] = entry
                self._sessions.setdefault(session, {})[answer] = entry
            case GivenBack(request, answer):
                taken = self._requests.get(request, {}).pop(answer, None)
                if taken is not None:
                    del self._sessions[taken.session][answer]

    def is_spent(self, nonce: bytes, now: float) -> bool:
        return self._nonces.get(nonce, now) > now

    def of_session(self, session: bytes) -> Iterator[Piece]:
        for taken in self._sessions.get(session, {}).values():
            yield from taken.pieces

    def of_request(self, request: bytes) -> Iterator[Piece]:
        for taken in self._requests.get(request, {}).values():
            yield from taken.pieces


def packed(entries: Iterable[Entry]) -> bytes:
    """As they stand in a note."""
    return orjson.dumps([_packed(entry) for entry in entries])


def _packed(entry: Entry) -> list[Any]:
    match entry:
        case Spent(nonce, expires):
            return ["spent", nonce.hex(), expires]
        case Taken(request, session, answer, at, pieces):
            held = [(one.document.hex(), one.piece.hex(), one.chunk, one.url) for one in pieces]
            return ["taken", request.hex(), session.hex(), answer.hex(), at, held]
        case GivenBack(request, answer):
            return ["given back", request.hex(), answer.hex()]


def unpacked(content: bytes) -> list[Entry]:
    return [_unpacked(*members) for members in orjson.loads(content)]


def _unpacked(kind: str, *members: Any) -> Entry:
    digest = bytes.fromhex
    if kind == "spent":
        return Spent(digest(members[0]), members[1])
    if kind == "given back":
        return GivenBack(digest(members[0]), digest(members[1]))
    request, session, answer, at, held = members
    pieces = tuple(Piece(digest(document), digest(piece), chunk, url) for document, piece, chunk, url in held)
    return Taken(digest(request), digest(session), digest(answer), at, pieces)
