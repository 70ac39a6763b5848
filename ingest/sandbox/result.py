"""The answer of a sandboxed parser: checked member by member, and turned into a Document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Heading, Json
from aidre.ingest.records import (
    ARTICLE,
    PUBLISHED,
    File,
    Item,
    Unpublished,
    VectorRules,
    escape_unprintable,
    mark_expiry,
    note,
    open_file,
    read_content,
    read_date,
    read_publication,
    to_document,
    to_document_id,
)
from aidre.ingest.sandbox.parent import SHARED, Sandbox

Reader: TypeAlias = Callable[[File, VectorRules], Iterator[Item]]
Ask: TypeAlias = Callable[[File, bytes, dict[str, Json]], Json]
"""The answer of the sandbox about a file, its content and the options of its parser."""

MAX_HEADINGS = 100_000
MAX_OBJECTS = 10_000
MAX_NOTICE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a document, its headings with their offsets, and its own metadata."""

    text: str
    title: str | None
    url: str | None
    canonical: str | None
    updated_at: str | None
    language: str | None
    headings: tuple[Heading, ...]
    verbatim: tuple[tuple[int, int], ...]
    metadata: Mapping[str, Json]
    objects: tuple[dict[str, Json], ...]
    robots: tuple[str, ...] = ()
    """Directives for robots, each as "name: directives"."""
    notice: str | None = None
    """What the author should know of the file."""

    def document(self, file: File) -> Document:
        """The Document of a file; the file name is the title of one that has none."""
        language = {} if self.language is None else {"language": self.language}
        members = {
            "title": self.title or file.path.stem,
            "url": self.url or self.canonical or file.url,
            "updated_at": self.updated_at,
            "type": ARTICLE,
            "metadata": language | dict(self.metadata),
        }
        identity = to_document_id(file.id, "the path")
        return to_document(members, file, identity, text=self.text, headings=self.headings, verbatim=self.verbatim)


def sandboxed_reader(kind: str, ask: Ask | None = None) -> Reader:
    """A reader of one-document files whose parser runs in the sandbox; its metadata may say that it is a draft.

    `ask` gets the answer where it takes more than to parse the file once.
    """

    def read(file: File, rules: VectorRules) -> Iterator[Item]:
        content = read_content(file) if file.page is None else file.page.with_includes(read_content(file))
        options: dict[str, Json] = {"suffix": file.path.suffix.lower(), "charset": file.charset}
        extracted = check_answer(SHARED.parse(kind, content, options) if ask is None else ask(file, content, options))
        note(file, extracted.notice)
        publication = PUBLISHED if file.as_of is None else read_publication(extracted.metadata, file.as_of)
        if publication.reason is not None:
            yield Unpublished(file.origin, publication.reason, file.source, file.origin, publication.until)
        else:
            yield file.origin, mark_expiry(extracted.document(file), publication)

    return read


def stream_file(
    sandbox: Sandbox, kind: str, file: File, options: Mapping[str, Json] | None = None
) -> Iterator[memoryview[int]]:
    """The parts that a parser gives of a file, which it reads itself; raises InvalidDocument, OSError."""
    with open_file(file, 0) as stream:
        yield from sandbox.stream(kind, b"", options, file=stream.fileno())


def check_answer(answer: Json) -> Extracted:
    """Check the untrusted answer of a parser; raises InvalidDocument for any other shape."""
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
        _spans(answer.get("verbatim", []), len(answer["text"])),
        metadata,
        _objects(answer.get("objects", [])),
        _strings(answer.get("robots", []), "robots"),
        check_notice(answer),
    )


def check_notice(answer: Mapping[str, Json], name: str = "notice") -> str | None:
    """The notice in an answer, as one line; raises InvalidDocument for anything else."""
    notice = _string(answer, name)
    return None if notice is None else escape_unprintable(notice[:MAX_NOTICE_CHARACTERS])


def _string(answer: Mapping[str, Json], name: str) -> str | None:
    value = answer.get(name)
    if value is not None and type(value) is not str:
        raise _nonsense(name)
    return value or None


def _date(answer: Mapping[str, Json]) -> str | None:
    """The date of the document in UTC; None if it has none, or one in another notation."""
    value = _string(answer, "updated_at")
    return None if value is None else read_date(value)


def headings(found: Json, length: int) -> tuple[Heading, ...]:
    """The headings that a parser found in a text of this length; raises InvalidDocument for anything else."""
    if type(found) is not list or len(found) > MAX_HEADINGS:
        raise _nonsense("headings")
    made = tuple(_heading(each, length) for each in found)
    if any(heading.start > other.start for heading, other in pairwise(made)):
        raise _nonsense("headings")
    return made


def _spans(found: Json, length: int) -> tuple[tuple[int, int], ...]:
    """Spans of a text of this length, in order and apart; raises InvalidDocument for anything else."""
    if type(found) is not list or len(found) > MAX_HEADINGS:
        raise _nonsense("verbatim")
    end = 0
    for each in found:
        if type(each) is not list or [type(part) for part in each] != [int, int] or not end <= each[0] < each[1]:
            raise _nonsense("verbatim")
        end = each[1]
    if end > length:
        raise _nonsense("verbatim")
    return tuple((start, stop) for start, stop in found)


def _heading(found: Json, length: int) -> Heading:
    if type(found) is not list or [type(part) for part in found] != [int, int, str]:
        raise _nonsense("headings")
    start, level, title = found
    if not (0 <= start <= length and 1 <= level <= 100):
        raise _nonsense("headings")
    return Heading(start, level, title)


def _objects(found: Json) -> tuple[dict[str, Json], ...]:
    if type(found) is not list or len(found) > MAX_OBJECTS or any(type(each) is not dict for each in found):
        raise _nonsense("objects")
    return tuple(found)


def _strings(found: Json, member: str) -> tuple[str, ...]:
    if type(found) is not list or len(found) > MAX_OBJECTS or any(type(each) is not str for each in found):
        raise _nonsense(member)
    return tuple(found)


def _nonsense(member: str) -> InvalidDocument:
    return InvalidDocument(f"cannot be read: its parser answered with {member} that make no sense")
