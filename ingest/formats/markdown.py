"""Markdown and plain text as Documents: the members of the front matter, the body as text, and its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt

from aidre.engine.errors import InvalidDocument
from aidre.engine.index.text import strip_layout
from aidre.engine.model import Heading, Json
from aidre.ingest.formats.front_matter import split_front_matter
from aidre.ingest.formats.markup import is_mdx, strip_mdx
from aidre.ingest.formats.pages.inline import strip_data_addresses
from aidre.ingest.formats.pages.markup_tables import has_tables
from aidre.ingest.formats.site_markup import strip_attributes, strip_site_markup
from aidre.ingest.formats.tables import has_url_lines, read_json_lines
from aidre.ingest.records import (
    ARTICLE,
    PUBLISHED,
    File,
    Item,
    Unpublished,
    VectorRules,
    mark_expiry,
    note,
    read_publication,
    read_text_file,
    to_document,
    to_document_id,
)
from aidre.ingest.sandbox import MAX_HEADINGS, SHARED, headings

MAX_LOCAL_CHARACTERS = 1 << 17
"""A longer text is parsed in the sandbox: the parser may take half a kilobyte of memory for each character."""

_LINE_END = re.compile(r"\r\n?|\n")
# Only blocks: without inline rules and link references the time is linear in the length of the text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join", "reference"])
_INLINE = MarkdownIt("commonmark")
_MAX_TITLE_CHARACTERS = 1000
_TITLE_CHARACTERS = 10_000
"""Characters at the beginning of a plain text in which its title is sought."""

_UNDERLINE = re.compile(r"([=\-~^*+#])\1{2,}")
_ROLE = re.compile(r":[a-z][\w:-]{0,30}:`[!~]?([^`]{1,200})`")


def read_markdown(file: File, rules: VectorRules) -> Iterator[Item]:
    """The one document of a file, unless it is not published; raises InvalidDocument, OSError."""
    members, body = split_front_matter(strip_layout(read_text_file(file)), file.notes)
    if file.page is not None:
        body = file.page.expand(body)
    yield from read_body(members, strip_mdx(body) if is_mdx(body, file.path.suffix) else body, file)


def read_body(members: dict[str, Json], body: str, file: File) -> Iterator[Item]:
    """The document of a text in Markdown with the members of its front matter; raises InvalidDocument."""
    publication = PUBLISHED if file.as_of is None else read_publication(members, file.as_of)
    if publication.reason is not None:
        yield Unpublished(file.origin, publication.reason, file.source, file.origin, publication.until)
        return
    text = strip_site_markup(_convert_tables(strip_data_addresses(body)))
    is_short = len(text) <= MAX_LOCAL_CHARACTERS
    outline = find_headings(text) if is_short else headings(SHARED.parse("markdown", text.encode()), len(text))
    if members.get("title") is None:
        members["title"] = _title_of(outline, text) or file.path.stem
    _set_url(members, file)
    if members.get("type") is None:
        members["type"] = ARTICLE
    document = to_document(members, file, _to_id(members, file), text=text, headings=outline)
    yield file.origin, mark_expiry(document, publication)


def _convert_tables(text: str) -> str:
    """The text with its tables of HTML in Markdown; as it is where they break their parser."""
    if not has_tables(text):
        return text
    with suppress(InvalidDocument):
        converted = SHARED.parse("markup tables", text.encode())
        text = converted if type(converted) is str else text
    return text


def _set_url(members: dict[str, Json], file: File) -> None:
    """The address that the author states, else that of the file. In a site `url: /mill/` is a part of the latter."""
    url = members.get("url")
    is_part = file.page is not None and type(url) is str and url.startswith("/") and file.url is not None
    if is_part or (url is None and type(members.get("canonical")) is not str):
        members["url"] = file.url


def _to_id(members: Mapping[str, Json], file: File) -> str:
    """The id of the front matter, else the path."""
    if members.get("id") is not None and not file.is_called_by_path:
        try:
            return to_document_id(members["id"])
        except InvalidDocument as error:
            if file.notes is None:
                raise
            note(file, f"id is left out: {error.message}")
    return to_document_id(file.id, "the path")


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: the headings of a text as lists of start, level and title; raises InvalidDocument."""
    outline = find_headings(content.decode())
    if len(outline) > MAX_HEADINGS:
        raise InvalidDocument(f"has more than {MAX_HEADINGS:,} headings: split it")
    return [[heading.start, heading.level, heading.title] for heading in outline]


def read_text(file: File, rules: VectorRules) -> Iterator[Item]:
    """The one document of a text file, or the documents of its lines if each is an address, a tab and JSON-LD.

    Raises InvalidDocument, OSError.
    """
    if has_url_lines(file):
        yield from read_json_lines(file, rules)
        return
    text = strip_data_addresses(strip_layout(read_text_file(file)))
    members = {"title": _find_text_title(text) or file.path.stem, "url": file.url, "type": ARTICLE}
    yield file.origin, to_document(members, file, to_document_id(file.id, "the path"), text=text)


def _find_text_title(text: str) -> str | None:
    """The first line that is underlined from its beginning to its end, as in reStructuredText; None without one."""
    lines = [line.rstrip() for line in text[:_TITLE_CHARACTERS].splitlines()]
    for line, below in pairwise(lines):
        if 1 < len(line) <= len(below) and _UNDERLINE.fullmatch(below) and any(map(str.isalpha, line)):
            title = _ROLE.sub(r"\1", line).replace("``", "").strip()
            return title[:_MAX_TITLE_CHARACTERS] or None
    return None


def find_headings(text: str) -> tuple[Heading, ...]:
    """The headings of a Markdown text that are not inside other blocks."""
    if not any(mark in text for mark in "#=-"):
        return ()
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    tokens = _BLOCKS.parse(text)
    found = [
        (starts[token.map[0]], int(token.tag[1:]), strip_attributes(tokens[index + 1].content[:_MAX_TITLE_CHARACTERS]))
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    return tuple(Heading(start, level, _strip_markup(content)) for start, level, content in found)


def _title_of(outline: Sequence[Heading], text: str) -> str | None:
    """The first heading of level 1; without one, the first of all if a third of the text stands below it."""
    titles = [heading.title for heading in outline if heading.level == 1 and heading.title]
    if titles:
        return titles[0]
    if not outline:
        return None
    first = outline[0]
    end = next((other.start for other in outline[1:] if other.level <= first.level), len(text))
    line_end = text.find("\n", first.start, end)
    is_main = end == len(text) or (line_end >= 0 and end - line_end > len(text) / 3)
    return first.title or None if is_main else None


def _strip_markup(heading: str) -> str:
    parts: list[str] = []
    for token in _INLINE.parseInline(heading)[0].children or []:
        parts.append(" " if token.type in ("softbreak", "hardbreak") else token.content)
    return " ".join("".join(parts).split())
