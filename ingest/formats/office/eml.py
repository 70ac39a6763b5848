"""EML as text: the subject as title, the body, plain or of HTML; messages that are attached follow. Other attachments
are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import Compat32
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import TextWriter, to_line
from aidre.ingest.formats.pages.bounds import check_depth
from aidre.ingest.formats.pages.main_text import extract_fragment
from aidre.ingest.records import decode, find_mark

MAX_PARTS = 1000
MAX_DEPTH = 8
"""Parts of a message, and messages inside each other."""

MAX_HEADER_BYTES = 1 << 20
MAX_FIELD_CHARACTERS = 4000
"""Longest header field: the library parses its parameters in quadratic time."""

MAX_ATTACHMENTS = 100


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a message; raises InvalidDocument."""
    if b"\0" in content[:4] or find_mark(content):  # a message as a program of Windows saved it, in UTF-16
        content = decode(content).text.encode("utf-8", "replace")
    content = content.lstrip()
    if not content:
        return {"text": ""}
    head = content[:MAX_HEADER_BYTES].replace(b"\r\n", b"\n").split(b"\n\n", 1)[0]
    if len(head) >= MAX_HEADER_BYTES or b":" not in head.split(b"\n", 1)[0][:200]:
        raise InvalidDocument("is not a message: it does not begin with header fields")
    message: Message = BytesParser(policy=_Bounded()).parsebytes(content)
    writer = TextWriter()
    mail = _Mail(writer)
    mail.read(message, 0)
    metadata = {
        "from": _field(message, "From"),
        "to": _field(message, "To"),
        "cc": _field(message, "Cc"),
        "attachments": mail.attachments,
    }
    return writer.answer(
        {
            "title": _field(message, "Subject"),
            "updated_at": _field(message, "Date"),
            "metadata": {name: value for name, value in metadata.items() if value},
        }
    )


class _Bounded(Compat32):
    """The policy of a message whose fields are cut, before any of them is parsed."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_FIELD_CHARACTERS]


class _Mail:
    """Writes the parts of a message; `attachments` are the names of those that are not text."""

    def __init__(self, writer: TextWriter) -> None:
        self.attachments: list[str] = []
        self._writer = writer
        self._parts = 0

    def read(self, part: Message, depth: int) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS or depth > MAX_DEPTH:
            raise InvalidDocument(f"has more than {MAX_PARTS} parts, or {MAX_DEPTH} inside each other")
        kind, children = part.get_content_type(), _children(part)
        if kind == "message/rfc822":
            for inner in children:
                self._writer.heading(_field(inner, "Subject"), 2)
                self.read(inner, depth + 1)
        elif kind == "multipart/alternative":
            self._read_alternative(children, depth)
        elif children:
            for child in children:
                self.read(child, depth + 1)
        elif (name := to_line(part.get_filename() or "")) and part.get_content_disposition() != "inline":
            self.attachments += [name] * (len(self.attachments) < MAX_ATTACHMENTS)
        elif kind == "text/html":
            markup = _text_of(part)
            check_depth(markup)
            found = extract_fragment(markup)
            self._writer.extend(found.text, found.headings, found.verbatim)
        elif kind == "text/plain":
            for paragraph in _paragraphs(_text_of(part), part.get_param("format") == "flowed"):
                self._writer.paragraph(paragraph)

    def _read_alternative(self, children: list[Message], depth: int) -> None:
        """The plain text, unless it is empty; else the last of the others, which is the richest."""
        plain = next(
            (child for child in children if child.get_content_type() == "text/plain" and _text_of(child).strip()), None
        )
        for chosen in [plain] if plain is not None else children[-1:]:
            self.read(chosen, depth + 1)


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Message)] if isinstance(payload, list) else []


def _text_of(part: Message) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    charset = part.get_content_charset()
    return decode(content, charset if charset and charset.isascii() else None).text


def _paragraphs(text: str, is_flowed: bool) -> Iterator[str]:
    """Paragraphs between blank lines, with their lines; of `format=flowed` those that go on are joined."""
    lines: list[list[str]] = []
    goes_on = False
    for line in [*text.splitlines(), ""]:
        stripped = line.rstrip()
        if not stripped:
            yield "\n".join(map(" ".join, lines))
            lines, goes_on = [], False
        elif goes_on:
            lines[-1].append(stripped)
        else:
            lines.append([stripped])
        goes_on = is_flowed and bool(stripped) and line.endswith(" ") and line != "-- "


def _field(message: Message, name: str) -> str:
    """A header field in one line, its encoded words decoded."""
    value = str(message.get(name) or "")[:MAX_FIELD_CHARACTERS]
    try:
        parts = decode_header(value)
    except HeaderParseError:
        parts = [(value, None)]
    words = (part if isinstance(part, str) else _decode_word(part, charset) for part, charset in parts)
    return to_line("".join(words).encode("utf-8", "replace").decode())


def _decode_word(part: bytes, charset: str | None) -> str:
    return decode(part, charset if charset and charset.isascii() else None).text
