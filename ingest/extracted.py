"""What a parser in the sandbox found in a document: its answer checked member by member, and as a Document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Heading, Json
from aidre.ingest.found import File, Found, content
from aidre.ingest.members import document, document_id, instant
from aidre.ingest.sandbox import SHARED
from aidre.ingest.vectors import VectorRules

Reader: TypeAlias = Callable[[File, VectorRules], Iterator[Found]]

MOST_HEADINGS = 100_000
MOST_OBJECTS = 10_000


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a document with its headings by their place in it, and what the document says of itself."""

    text: str
    title: str | None
    url: str | None
    canonical: str | None
    updated_at: str | None
    language: str | None
    headings: tuple[Heading, ...]
    metadata: Mapping[str, Json]
    objects: tuple[dict[str, Json], ...]

    def document(self, file: File) -> Document:
        """The Document of a file; one that has no title is called by the name of the file."""
        language = {} if self.language is None else {"language": self.language}
        members = {
            "title": self.title or file.path.stem,
            "url": self.url or self.canonical or file.url,
            "updated_at": self.updated_at,
            "metadata": language | dict(self.metadata),
        }
        return document(members, file, document_id(file.id, "the path"), text=self.text, headings=self.headings)


def sandboxed(kind: str) -> Reader:
    """A reader of files that are one document each, whose parser runs in the sandbox."""

    def read(file: File, rules: VectorRules) -> Iterator[Found]:
        yield file.origin, extracted(SHARED.parse(kind, content(file))).document(file)

    return read


def extracted(answer: Json) -> Extracted:
    """The answer of a parser, which is not trusted; raises InvalidDocument for one of another shape."""
    if type(answer) is not dict or type(answer.get("text")) is not str:
        raise _nonsense("text")
    metadata = answer.get("metadata", {})
    if type(metadata) is not dict:
        raise _nonsense("metadata")
    return Extracted(
        answer["text"],
        _string(answer, "title"),
        _string(answer, "url"),
        _string(answer, "canonical"),
        _date(answer),
        _string(answer, "language"),
        headings(answer.get("headings", []), len(answer["text"])),
        metadata,
        _objects(answer.get("objects", [])),
    )


def _string(answer: Mapping[str, Json], name: str) -> str | None:
    value = answer.get(name)
    if value is not None and type(value) is not str:
        raise _nonsense(name)
    return value or None


def _date(answer: Mapping[str, Json]) -> str | None:
    """A date of the document; one in another notation is no fault of it."""
    value = _string(answer, "updated_at")
    try:
        return None if value is None else instant(value)
    except InvalidDocument:
        return None


def headings(found: Json, length: int) -> tuple[Heading, ...]:
    """The headings that a parser found in a text of this length; raises InvalidDocument for anything else."""
    if type(found) is not list or len(found) > MOST_HEADINGS:
        raise _nonsense("headings")
    made = tuple(_heading(each, length) for each in found)
    if any(one.start > other.start for one, other in pairwise(made)):
        raise _nonsense("headings")
    return made


def _heading(found: Json, length: int) -> Heading:
    if type(found) is not list or [type(part) for part in found] != [int, int, str]:
        raise _nonsense("headings")
    start, level, title = found
    if not (0 <= start <= length and 1 <= level <= 100):
        raise _nonsense("headings")
    return Heading(start, level, title)


def _objects(found: Json) -> tuple[dict[str, Json], ...]:
    if type(found) is not list or len(found) > MOST_OBJECTS or any(type(each) is not dict for each in found):
        raise _nonsense("objects")
    return tuple(found)


def _nonsense(member: str) -> InvalidDocument:
    return InvalidDocument(f"cannot be read: its parser answered with {member} that make no sense")
