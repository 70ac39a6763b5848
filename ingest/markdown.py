"""Markdown with YAML front matter as a Document: its text is the body as it stands, headings by their place in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from markdown_it import MarkdownIt

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Heading, Json
from aidre.ingest.extracted import MOST_HEADINGS, headings
from aidre.ingest.found import File, Found, content, decoded
from aidre.ingest.members import document, document_id, instant
from aidre.ingest.plain import MOST_VALUES, plain
from aidre.ingest.rows import has_url_lines, json_lines
from aidre.ingest.sandbox import SHARED
from aidre.ingest.vectors import VectorRules

LARGEST_FRONT_MATTER = 1 << 18
OUTLINED_HERE = 1 << 17
"""Characters whose blocks are looked for in this process: a character may be half a kilobyte of them."""

_FENCE = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_OPENING = re.compile(r"---[ \t]*\r?\n")
_LINE_END = re.compile(r"\r\n?|\n")

# Blocks are all that is asked for: without inline rules and link references the time is linear in the text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join", "reference"])
_INLINE = MarkdownIt("commonmark")
_LONGEST_TITLE = 1000
_ROWS_ONLY = ("text", "vectors", "@type", "@id")


def markdown(file: File, rules: VectorRules) -> Iterator[Found]:
    """The one document of a file; raises InvalidDocument, OSError."""
    members, text = front_matter(decoded(content(file)))
    found = (
        outline(text) if len(text) <= OUTLINED_HERE else headings(SHARED.parse("markdown", text.encode()), len(text))
    )
    if members.get("title") is None:
        members["title"] = next((each.title for each in found if each.level == 1 and each.title), file.path.stem)
    if members.get("url") is None and type(members.get("canonical")) is not str:
        members["url"] = file.url
    named = members.get("id") is not None
    identity = document_id(members["id"]) if named else document_id(file.id, "the path")
    yield file.origin, document(members, file, identity, text=text, headings=found)


def parse(content: bytes, options: Mapping[str, Any]) -> Json:
    """For the sandbox: the headings of a long text, each as its place, level and words."""
    found = outline(content.decode())
    if len(found) > MOST_HEADINGS:
        raise InvalidDocument(f"has more than {MOST_HEADINGS:,} headings: split it")
    return [[each.start, each.level, each.title] for each in found]


def plain_text(file: File, rules: VectorRules) -> Iterator[Found]:
    """The one document of a text file, or those of its lines where each is an address, a tab and JSON-LD.

    Raises InvalidDocument, OSError.
    """
    if has_url_lines(file):
        yield from json_lines(file, rules)
        return
    members = {"title": file.path.stem, "url": file.url}
    yield file.origin, document(members, file, document_id(file.id, "the path"), text=decoded(content(file)))


def front_matter(text: str) -> tuple[dict[str, Json], str]:
    """The members before the body, and the body; a text that begins with a mere rule has none."""
    opening = _OPENING.match(text)
    closing = _FENCE.search(text, opening.end()) if opening else None
    if opening is None or closing is None or closing.start() - opening.end() > LARGEST_FRONT_MATTER:
        return {}, text
    try:
        loaded = _Loader(text[opening.end() : closing.start()]).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidDocument(f"front matter is not valid YAML: {_one_line(error)}") from None
    except (LookupError, AttributeError, TypeError):  # PyYAML looks at neither `!!bool maybe` nor `!!timestamp soon`
        raise InvalidDocument("front matter is not valid YAML: a value is not what its tag says") from None
    if loaded is not None and not isinstance(loaded, dict):
        return {}, text
    members: dict[str, Json] = plain(loaded or {}, "front matter")
    if members.get("updated_at") is None and members.get("date") is not None:
        members["updated_at"] = instant(members.pop("date"), "date")
    _name_language(members)
    # Members of rows that are a page author's own fields.
    own = {name: members.pop(name) for name in _ROWS_ONLY if name in members}
    if own and type(members.setdefault("metadata", {})) is dict:
        members["metadata"] = own | members["metadata"]
    end = closing.end()
    ending = _LINE_END.match(text, end)
    return members, text[ending.end() if ending else end :]


class _Loader(yaml.SafeLoader):
    """What a mapping takes over from others (`<<`) is copied, and each copy may be copied again: so it is counted."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._pairs = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self._pairs += len(node.value)
        if self._pairs > MOST_VALUES:
            raise InvalidDocument(f"front matter has more than {MOST_VALUES} values")


def _name_language(members: dict[str, Json]) -> None:
    """`lang` under the name that all sources have for it; Norwegian, which YAML takes for false, too."""
    for name in ("language", "lang"):
        if members.get(name) is False:
            members[name] = "no"
    if type(members.get("lang")) is str and "language" not in members:
        members["language"] = members.pop("lang")


def outline(text: str) -> tuple[Heading, ...]:
    """The headings that stand at the top level of a Markdown text."""
    if not any(mark in text for mark in "#=-"):
        return ()
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    tokens = _BLOCKS.parse(text)
    return tuple(
        Heading(starts[token.map[0]], int(token.tag[1:]), _words(tokens[at + 1].content))
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    )


def _words(heading: str) -> str:
    """A heading without its markup."""
    parts: list[str] = []
    for token in _INLINE.parseInline(heading[:_LONGEST_TITLE])[0].children or []:
        parts.append(" " if token.type in ("softbreak", "hardbreak") else token.content)
    return " ".join("".join(parts).split())


def _one_line(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error) or type(error).__name__
    problem = " ".join(said.split())
    return f"{problem}, line {mark.line + 2}" if mark else problem
