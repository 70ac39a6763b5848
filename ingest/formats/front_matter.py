"""Front matter: the members that an author gives a Markdown file at its beginning, in YAML, TOML or JSON.

YAML stands between lines of `---`, TOML between lines of `+++`, and JSON is an object whose braces stand at the
beginning of the file and at the end of a line, as Hugo, Zola, Jekyll and others write them. Pelican and MultiMarkdown
begin a file with lines such as `Title: Mill`, up to a blank line. Anything else is text: a letterhead between
rules, or a template. Members that YAML or TOML refuses, such as an unquoted colon, are read line by line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.records import (
    MAX_CONVERTED_VALUES,
    RESERVED_METADATA,
    ROW_MEMBERS,
    File,
    Notes,
    find_mark,
    open_file,
    to_document_id,
    to_json_value,
)

MAX_FRONT_MATTER_CHARACTERS = 1 << 18
_HEAD_BYTES = 1 << 12
"""Bytes of a file that are read first to find the id in its front matter; most front matters are shorter."""

_OPENING = re.compile(r"(?:[ \t]*\r?\n)*(---|\+\+\+)[ \t]*\r?\n")
_CLOSINGS = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*\r?$", re.MULTILINE),
}
_JSON_OPENING = re.compile(r"(?:[ \t]*\r?\n)*(?=\{\s*\")")
_LINE_END = re.compile(r"[ \t]*(?:\r\n?|\n|\Z)")
_ID = re.compile(r"\bid[\"']?\s*[:=]")
"""What every front matter with an id contains."""

_MAX_DOTS = 1000
"""Dots on a line of TOML: the time of the parser grows with the square of the parts of a dotted key."""

_PLAIN_ID = re.compile(r"^id:[ \t]+([A-Za-z][\w./-]*)[ \t]*\r?$", re.MULTILINE)
_NO_STRINGS = frozenset({"y", "yes", "n", "no", "true", "false", "on", "off", "null"})
"""Plain words that are not strings in YAML."""

_ROW_ONLY_MEMBERS = ("text", "vectors", "@type", "@id")
"""Members with a meaning in rows that are a page author's own fields in front matter."""

_CAPITALIZED = frozenset(
    {"title", "date", "updated_at", "url", "id", "type", "section", "canonical", "lang", "language", "metadata"}
)
"""Names of members that some authors write with a capital."""

_MEMBER = re.compile(r"([A-Za-z][\w.-]{0,60})[ \t]{0,9}[:=](?:[ \t]+(.*)|)", re.ASCII)
_QUOTED = re.compile(r"(['\"])(.*)\1(?:[ \t]+#.*)?")
_GOES_ON = (" ", "\t", "-", "#", "]", "}")
_BLOCK_VALUES = frozenset({"|", ">", "|-", ">-", "|+", ">+", "[", "{", "null", "~"})

MAX_HEADER_CHARACTERS = 1 << 14
_HEADER = re.compile(r"([A-Za-z][\w -]{0,40}):[ \t]*(.*)", re.ASCII)
_USUAL = frozenset(
    {"title", "subtitle", "date", "modified", "author", "authors", "category", "tags", "keywords", "slug", "summary",
     "status", "lang", "language", "copyright", "css"}
)  # fmt: skip
_LISTS = frozenset({"tags", "keywords", "authors"})
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")


class _NotReadable(InvalidDocument):
    """A block in the place of a front matter that is not YAML or not TOML."""


class _FrontMatter(NamedTuple):
    """The text of a front matter, how it is read, and where the body begins."""

    text: str
    load: Callable[[str], Any]
    end: int


def split_front_matter(text: str, notes: Notes | None = None) -> tuple[dict[str, Json], str]:
    """The members of the front matter, if there is any, and the body; raises InvalidDocument for one beyond bounds.

    Without a closing line, or if no members follow, the `---` at the start is a thematic break.
    """
    block = _find_block(text)
    if block is None:
        return _split_header(text)
    try:
        loaded = block.load(block.text)
    except _NotReadable as error:
        loaded = _read_lines(block.text)
        if loaded and notes is not None:
            notes.add(f"{error.message}: read line by line")
    if loaded is not None and not isinstance(loaded, dict):
        return {}, text
    members: dict[str, Json] = to_json_value(loaded or {}, "front matter")
    return _rename(members), text[block.end :]


def _rename(members: dict[str, Json]) -> dict[str, Json]:
    """Members under the names that a document has for them."""
    for name in [name for name in members if name.lower() in _CAPITALIZED and name.lower() not in members]:
        members[name.lower()] = members.pop(name)
    if members.get("updated_at") is None and members.get("date") is not None:
        members["updated_at"] = members.pop("date")
    _normalize_language(members)
    own = {name: members.pop(name) for name in _ROW_ONLY_MEMBERS if name in members}
    if own and type(members.setdefault("metadata", {})) is dict:
        members["metadata"] = own | members["metadata"]
    return members


def _read_lines(text: str) -> dict[str, Any] | bool:
    """The members of a front matter that its parser refuses, as texts; False if most of its lines are not members.

    Values of several lines are left out, and templates, which their generator would have filled in.
    """
    members: dict[str, Any] = {}
    others = 0
    for line in text.splitlines():
        match = _MEMBER.fullmatch(line)
        if match:
            value = (match[2] or "").strip()
            quoted = _QUOTED.fullmatch(value)
            members[match[1]] = "" if "{{" in value or value in _BLOCK_VALUES else quoted[2] if quoted else value
        else:
            others += bool(line.strip()) and not line.startswith(_GOES_ON)
    if len(members) <= others:
        return False
    identity = _find_plain_id(text)
    read = {name: value for name, value in members.items() if value and name != "id"}
    return read if identity is None else read | {"id": identity}


def _split_header(text: str) -> tuple[dict[str, Json], str]:
    """The members of a header of Pelican or MultiMarkdown, and the body; none if the first paragraph is a text.

    A header has a title, or two members that are usual. Lines with four spaces go on with the value above.
    """
    blank = _BLANK_LINE.search(text, 0, MAX_HEADER_CHARACTERS) if _HEADER.match(text) else None
    members: dict[str, Json] = {}
    name = ""
    for line in text[: blank.start()].splitlines() if blank else ():
        match = None if name and line.startswith((" ", "\t")) else _HEADER.fullmatch(line)
        if match:
            name = match[1].strip().lower()
            members[name] = match[2].strip()
        elif name and line.startswith(("    ", "\t")):
            members[name] = f"{members[name]} {line.strip()}"
        else:
            return {}, text
    usual = members.keys() & _USUAL
    if blank is None or ("title" not in usual and len(usual) < 2):
        return {}, text
    for listed in members.keys() & _LISTS:
        members[listed] = [word for part in str(members[listed]).split(",") if (word := part.strip())]
    if members.pop("status", "") in ("draft", "hidden"):
        members["draft"] = True
    if "modified" in members:
        members["updated_at"] = members.pop("modified")
    members.pop("id", None)
    return _rename(members), text[blank.end() :]


def read_own_id(file: File) -> str | None:
    """The id that the front matter of a file gives it; None without a valid one, and for a file that cannot be read.

    Of most files only the first kilobytes are read, and only a front matter whose id is no plain word is parsed.
    """
    try:
        text = _read_head(file)
        block = None if text is None else _find_block(text)
        if block is None or not _ID.search(block.text):
            return None
        plain = _find_plain_id(block.text) if block.load is _load_yaml else None
        if plain is not None:
            return to_document_id(plain)
        loaded = block.load(block.text)
        identity = loaded.get("id") if isinstance(loaded, dict) else None
        return None if identity is None else to_document_id(identity)
    except (OSError, InvalidDocument):
        return None


def read_front_matter(file: File) -> dict[str, Json] | None:
    """The members of the front matter of a file; None without one, and for a file that cannot be read."""
    try:
        text = _read_head(file)
        if text is None or _find_block(text) is None:
            return None
        return split_front_matter(text)[0]
    except (OSError, InvalidDocument):
        return None


def _read_head(file: File) -> str | None:
    """The beginning of a file with the whole of its front matter; None if it does not begin with one."""
    with open_file(file) as stream:
        head = stream.read(_HEAD_BYTES)
        codec = find_mark(head) or "utf-8"
        text = head.decode(codec, "replace").removeprefix("\ufeff")
        if not (_OPENING.match(text) or _JSON_OPENING.match(text)):
            return None
        if len(head) == _HEAD_BYTES and _find_block(text) is None:
            head += stream.read(4 * MAX_FRONT_MATTER_CHARACTERS)
            text = head.decode(codec, "replace").removeprefix("\ufeff")
        return text


def _find_plain_id(text: str) -> str | None:
    """The id of YAML that is a plain word, which needs no parser."""
    plain = _PLAIN_ID.findall(text)
    return plain[0] if len(plain) == 1 and plain[0].lower() not in _NO_STRINGS else None


def _find_block(text: str) -> _FrontMatter | None:
    braces = _JSON_OPENING.match(text)
    if braces is not None:
        return _find_json(text, braces.end())
    opening = _OPENING.match(text)
    closing = _CLOSINGS[opening[1]].search(text, opening.end()) if opening else None
    if opening is None or closing is None or closing.start() - opening.end() > MAX_FRONT_MATTER_CHARACTERS:
        return None
    ending = _LINE_END.match(text, closing.end())
    load = _load_yaml if opening[1] == "---" else _load_toml
    return _FrontMatter(text[opening.end() : closing.start()], load, ending.end() if ending else closing.end())


def _find_json(text: str, start: int) -> _FrontMatter | None:
    """The object that begins at `start`, if a line ends behind it; else the braces are text."""
    try:
        _, end = json.JSONDecoder().raw_decode(text[: start + MAX_FRONT_MATTER_CHARACTERS], start)
    except (ValueError, RecursionError):
        return None
    ending = _LINE_END.match(text, end)
    return None if ending is None else _FrontMatter(text[start:end], json.loads, ending.end())


def _load_yaml(text: str) -> Any:
    try:
        return _FrontMatterLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise _NotReadable(f"front matter is not valid YAML: {_describe(error)}") from None
    except (LookupError, AttributeError, TypeError):  # PyYAML does not check `!!bool maybe` or `!!timestamp soon`
        raise _NotReadable("front matter is not valid YAML: a value is not what its tag says") from None


def _load_toml(text: str) -> dict[str, Any]:
    """The members; what Zola writes into the tables `taxonomies` and `extra` becomes metadata, as elsewhere."""
    if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        raise _NotReadable(f"front matter is not valid TOML: a line has more than {_MAX_DOTS:,} dots")
    try:
        members = tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise _NotReadable(f"front matter is not valid TOML: {_describe(error)}") from None
    metadata = members.setdefault("metadata", {})
    for name in ("taxonomies", "extra"):
        table = members.get(name)
        if isinstance(table, dict) and isinstance(metadata, dict):
            taken = members.keys() | metadata.keys() | RESERVED_METADATA | set(ROW_MEMBERS)
            metadata |= {key: value for key, value in table.items() if key not in taken}
            members[name] = {key: value for key, value in table.items() if key in taken}
            if not members[name]:
                del members[name]
    return members


class _FrontMatterLoader(yaml.SafeLoader):
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


def _describe(error: Any) -> str:
    """The message of an error of a parser on one line, with the line of the file."""
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error) or type(error).__name__
    problem = " ".join(message.split())
    if problem == "mapping values are not allowed here":
        problem += " (put a value that holds a colon in quotes)"
    return f"{problem}, line {mark.line + 2}" if mark else problem
