"""Markdown and plain text as Documents: front matter in YAML, the unchanged body as text, and its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import yaml
from markdown_it import MarkdownIt

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Heading, Json
from aidre.ingest.formats.site_markup import strip_attributes, strip_site_markup
from aidre.ingest.formats.tables import has_url_lines, read_json_lines
from aidre.ingest.records import (
    ARTICLE,
    MAX_CONVERTED_VALUES,
    File,
    Item,
    VectorRules,
    decode_text,
    normalize_timestamp,
    read_content,
    to_document,
    to_document_id,
    to_json_value,
)
from aidre.ingest.sandbox import MAX_HEADINGS, SHARED, headings

MAX_FRONT_MATTER_CHARACTERS = 1 << 18
MAX_LOCAL_CHARACTERS = 1 << 17
"""A longer text is parsed in the sandbox: the parser may take half a kilobyte of memory for each character."""

_FENCE = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_OPENING = re.compile(r"---[ \t]*\r?\n")
_LINE_END = re.compile(r"\r\n?|\n")
# Only blocks: without inline rules and link references the time is linear in the length of the text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join", "reference"])
_INLINE = MarkdownIt("commonmark")
_MAX_TITLE_CHARACTERS = 1000
_TITLE_CHARACTERS = 10_000
"""Characters at the beginning of a plain text in which its title is sought."""

_UNDERLINE = re.compile(r"([=\-~^*+#])\1{2,}")
_ROLE = re.compile(r":[a-z][\w:-]{0,30}:`[!~]?([^`]{1,200})`")
_ROW_ONLY_MEMBERS = ("text", "vectors", "@type", "@id")
"""Members with a meaning in rows that are a page author's own fields in front matter."""


def read_markdown(file: File, rules: VectorRules) -> Iterator[Item]:
    """The one document of a file; raises InvalidDocument, OSError."""
    members, body = split_front_matter(decode_text(read_content(file)))
    text = strip_site_markup(body)
    is_short = len(text) <= MAX_LOCAL_CHARACTERS
    outline = find_headings(text) if is_short else headings(SHARED.parse("markdown", text.encode()), len(text))
    if members.get("title") is None:
        members["title"] = _title_of(outline, text) or file.path.stem
    if members.get("url") is None and type(members.get("canonical")) is not str:
        members["url"] = file.url
    if members.get("type") is None:
        members["type"] = ARTICLE
    has_id = members.get("id") is not None
    identity = to_document_id(members["id"]) if has_id else to_document_id(file.id, "the path")
    yield file.origin, to_document(members, file, identity, text=text, headings=outline)


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
    text = decode_text(read_content(file))
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


def split_front_matter(text: str) -> tuple[dict[str, Json], str]:
    """The members of the front matter, if there is any, and the body; raises InvalidDocument.

    Without a closing line, or if it is no YAML mapping that follows, the `---` at the start is a thematic break.
    """
    opening = _OPENING.match(text)
    closing = _FENCE.search(text, opening.end()) if opening else None
    if opening is None or closing is None or closing.start() - opening.end() > MAX_FRONT_MATTER_CHARACTERS:
        return {}, text
    try:
        loaded = _Loader(text[opening.end() : closing.start()]).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidDocument(f"front matter is not valid YAML: {_describe(error)}") from None
    except (LookupError, AttributeError, TypeError):  # PyYAML does not check `!!bool maybe` or `!!timestamp soon`
        raise InvalidDocument("front matter is not valid YAML: a value is not what its tag says") from None
    if loaded is not None and not isinstance(loaded, dict):
        return {}, text
    members: dict[str, Json] = to_json_value(loaded or {}, "front matter")
    if members.get("updated_at") is None and members.get("date") is not None:
        members["updated_at"] = normalize_timestamp(members.pop("date"), "date")
    _normalize_language(members)
    own = {name: members.pop(name) for name in _ROW_ONLY_MEMBERS if name in members}
    if own and type(members.setdefault("metadata", {})) is dict:
        members["metadata"] = own | members["metadata"]
    end = closing.end()
    ending = _LINE_END.match(text, end)
    return members, text[ending.end() if ending else end :]


class _Loader(yaml.SafeLoader):
    """Counts the pairs that merge keys (`<<`) copy into mappings: each copy may be copied again."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._pairs = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self._pairs += len(node.value)
        if self._pairs > MAX_CONVERTED_VALUES:
            raise InvalidDocument(f"front matter has more than {MAX_CONVERTED_VALUES} values")


def _normalize_language(members: dict[str, Json]) -> None:
    """Rename `lang` to `language`, and read false as Norwegian: YAML 1.1 takes `no` for a boolean."""
    for name in ("language", "lang"):
        if members.get(name) is False:
            members[name] = "no"
    if type(members.get("lang")) is str and "language" not in members:
        members["language"] = members.pop("lang")


def find_headings(text: str) -> tuple[Heading, ...]:
    """The headings of a Markdown text that are not inside other blocks."""
    if not any(mark in text for mark in "#=-"):
        return ()
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    tokens = _BLOCKS.parse(text)
    return tuple(
        Heading(starts[token.map[0]], int(token.tag[1:]), _strip_markup(tokens[index + 1].content))
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    )


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
    heading = strip_attributes(heading[:_MAX_TITLE_CHARACTERS])
    for token in _INLINE.parseInline(heading)[0].children or []:
        parts.append(" " if token.type in ("softbreak", "hardbreak") else token.content)
    return " ".join("".join(parts).split())


def _describe(error: Any) -> str:
    """The message of an error of PyYAML on one line, with the line of the file."""
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error) or type(error).__name__
    problem = " ".join(message.split())
    if problem == "mapping values are not allowed here":
        problem += " (put a value that holds a colon in quotes)"
    return f"{problem}, line {mark.line + 2}" if mark else problem
