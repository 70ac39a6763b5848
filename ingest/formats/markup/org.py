"""The sandbox's parser of Org: headlines, lists, tables and blocks as text, keywords of the file as metadata.

Left out are drawers, comments, headlines that are comments or not exported, and what is for another program alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aidre.engine.index.text import strip_layout
from aidre.engine.model import Json
from aidre.ingest.formats.markup.text_writer import TextWriter, split_members
from aidre.ingest.records import decode

_KEYWORD = re.compile(r"[ \t]{0,99}#\+([A-Za-z][\w-]{0,40})(?:\[[^\]]{0,200}\])?:[ \t]{0,99}(.*)")
_HEADLINE = re.compile(r"(\*{1,50})[ \t]{1,99}(\S.*)")
_STATE = re.compile(r"(?:TODO|DONE|NEXT|WAITING|WAIT|HOLD|STARTED|CANCELLED|CANCELED|IN-PROGRESS)[ \t]{1,99}")
_PRIORITY = re.compile(r"\[#[A-Z0-9]\][ \t]{1,99}")
_COOKIE = re.compile(r"[ \t]{0,99}\[(?:\d{0,9}/\d{0,9}|\d{0,3}%)\]")
_TAGS = re.compile(r"[ \t]{1,99}:([\w@#%:]{1,500}):$")
_DRAWER = re.compile(r"[ \t]{0,99}:[A-Za-z][\w-]{0,60}:[ \t]{0,99}")
_END = re.compile(r"[ \t]{0,99}:END:[ \t]{0,99}", re.IGNORECASE)
_PLANNING = re.compile(r"[ \t]{0,99}(?:SCHEDULED|DEADLINE|CLOSED|CLOCK):[ \t]{0,99}[<\[].*")
_BLOCK = re.compile(r"[ \t]{0,99}#\+begin_(\w{1,40})(?:[ \t].*)?", re.IGNORECASE)
_ITEM = re.compile(r"([ \t]{0,99})([-+]|\d{1,9}[.)]|[A-Za-z][.)])[ \t]{1,99}(.*)|([ \t]{1,99})(\*)[ \t]{1,99}(.*)")
_COUNTER = re.compile(r"(?:\[@\w{1,9}\][ \t]{0,99})?(?:\[[ xX-]\][ \t]{1,99})?")
_FOOTNOTE = re.compile(r"\[fn:([\w-]{1,80})\][ \t]{0,99}(\S.*)")
_FIXED = re.compile(r"[ \t]{0,99}:(?:[ ](.*)|$)")
_RULE = re.compile(r"[ \t]{0,99}-{5,}[ \t]{0,99}")

_LINK = re.compile(r"\[\[([^\[\]]{1,2000})\](?:\[([^\[\]]{1,2000})\])?\]")
_NO_TEXT = re.compile(r"\{\{\{[^{}\n]{0,500}\}\}\}|<<<?[^<>\n]{1,200}>>>?|@@[\w-]{1,20}:[^@\n]{0,500}@@")
_SOURCE = re.compile(r"\bsrc_[\w-]{1,40}(?:\[[^\]\n]{0,200}\])?\{([^{}\n]{1,500})\}")
_EMPHASIS = re.compile(r"(?<![\w*/_=~+])([*/_=~+])(?=\S)([^\n]{0,1000}?[^\s])\1(?![\w*/_=~+])")
_DATE = re.compile(r"[<\[](\d{4}-\d{2}-\d{2})(?:[ ][^\s<>\[\]]{1,15})?((?:[ ]\d{1,2}:\d{2})?)[^<>\[\]\n]{0,30}[>\]]")
_NOTE = re.compile(r"\[fn:([\w-]{0,80})(?::([^\[\]\n]{1,1000}))?\]")
_HIDDEN_BLOCKS = frozenset({"comment", "export"})
_CODE_BLOCKS = frozenset({"src", "example"})
_LISTS = frozenset({"keywords", "filetags", "tags", "categories"})


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """Text, headings and metadata; raises InvalidDocument."""
    decoded = decode(content, options.get("charset"))
    members, body = split_members(strip_layout(decoded.text))
    page = _OrgPage()
    page.read([line.rstrip() for line in body.expandtabs(4).splitlines()])
    return page.writer.answer(_to_answer(page.keywords) | members | {"notice": decoded.notice})


def _to_answer(keywords: Mapping[str, str]) -> dict[str, Json]:
    metadata: dict[str, Json] = {}
    for name in ("author", "description", "draft", "category", *sorted(_LISTS)):
        if keywords.get(name):
            words = [word for word in re.split(r"[\s:,]+", keywords[name]) if word]
            metadata["tags" if name == "filetags" else name] = words if name in _LISTS else keywords[name]
    date = next((keywords[name] for name in ("lastmod", "hugo_lastmod", "date") if keywords.get(name)), "")
    found = _DATE.search(date)
    return {
        "title": keywords.get("title"),
        "language": keywords.get("language"),
        "updated_at": found[1] + found[2].replace(" ", "T") if found else date,
        "metadata": metadata,
    }


class _OrgPage:
    """A page as it is read; the first of the `keywords` of a name counts, and a title may have several lines."""

    def __init__(self) -> None:
        self.writer = TextWriter()
        self.keywords: dict[str, str] = {}

    def read(self, lines: Sequence[str]) -> None:
        index, hidden = 0, 0
        while index < len(lines):
            line = lines[index]
            headline = _HEADLINE.fullmatch(line) if line.startswith("*") else None
            if headline:
                level = len(headline[1])
                if not hidden or level <= hidden:
                    hidden = level if self._read_headline(level, headline[2]) else 0
                index += 1
            elif hidden:
                index += 1
            else:
                index = self._read_block(lines, index)

    def _read_headline(self, level: int, text: str) -> bool:
        """Write a headline; whether it hides what is below it."""
        tags = _TAGS.search(text)
        named = set(tags[1].lower().split(":")) if tags else set()
        text = text[: tags.start()] if tags else text
        text = _PRIORITY.sub("", _STATE.sub("", text, count=1), count=1)
        if text.startswith("COMMENT ") or named & {"noexport", "archive"}:
            return True
        # Below the title of the file, which is level 1.
        self.writer.heading(strip_marks(_COOKIE.sub("", text)), level + ("title" in self.keywords))
        return False

    def _read_block(self, lines: Sequence[str], index: int) -> int:
        """Write what begins at a line; returns the line behind it."""
        line = lines[index]
        text = line.lstrip()
        if not text or _RULE.fullmatch(line) or _PLANNING.fullmatch(line):
            return index + 1
        if text[0] in "#:|":
            read = {"#": self._read_keyword, ":": self._read_colon, "|": self._read_table}[text[0]]
            return read(lines, index)
        if _ITEM.fullmatch(line):
            return self._read_item(lines, index)
        end = _end_of(lines, index + 1, _is_text)
        note = _FOOTNOTE.fullmatch(line)
        words = [
            f"[{note[1]}] {note[2]}" if note else _without_break(line),
            *map(_without_break, lines[index + 1 : end]),
        ]
        self.writer.paragraph(strip_marks(" ".join(words)))
        return end

    def _read_table(self, lines: Sequence[str], index: int) -> int:
        end = _end_of(lines, index, lambda other: other.lstrip().startswith("|"))
        self.writer.table(_to_cells(row) for row in lines[index:end] if not row.lstrip().startswith("|-"))
        return end

    def _read_keyword(self, lines: Sequence[str], index: int) -> int:
        line = lines[index]
        block = _BLOCK.fullmatch(line)
        if block:
            kind = block[1].lower()
            end = _end_of(lines, index + 1, lambda other: other.strip().lower() != f"#+end_{kind}")
            inner = lines[index + 1 : end]
            if kind in _CODE_BLOCKS:
                self.writer.code("\n".join(_dedent(inner)))
            elif kind not in _HIDDEN_BLOCKS:
                place = 0
                while place < len(inner):
                    place = self._read_block(inner, place)
            return end + 1
        keyword = _KEYWORD.fullmatch(line)
        if keyword:
            name, value = keyword[1].lower(), keyword[2].strip()
            if name == "caption":
                self.writer.paragraph(strip_marks(value))
            elif name == "title" and name in self.keywords:
                self.keywords[name] += f" {strip_marks(value)}"
            elif len(self.keywords) < 1000:
                self.keywords.setdefault(name, strip_marks(value) if name == "title" else value)
            return index + 1
        if line.lstrip().startswith(("# ", "#+")) or line.strip() == "#":
            return index + 1
        self.writer.paragraph(strip_marks(line))
        return index + 1

    def _read_colon(self, lines: Sequence[str], index: int) -> int:
        if _FIXED.fullmatch(lines[index]):
            end = _end_of(lines, index, lambda other: _FIXED.fullmatch(other) is not None)
            self.writer.code("\n".join(line.lstrip()[2:] for line in lines[index:end]))
            return end
        if _DRAWER.fullmatch(lines[index]):
            end = _end_of(lines, index + 1, lambda other: not other.startswith("* ") and not _DRAWER.fullmatch(other))
            if end < len(lines) and _END.fullmatch(lines[end]):
                return end + 1
        self.writer.paragraph(strip_marks(lines[index]))
        return index + 1

    def _read_item(self, lines: Sequence[str], index: int) -> int:
        """An item with the lines that go on with it, which are indented further than its mark."""
        match = _ITEM.fullmatch(lines[index])
        assert match is not None
        margin = len(match[1] if match[2] else match[4])
        mark, text = match[2] or match[5], match[3] if match[2] else match[6]
        end = _end_of(lines, index + 1, lambda other: _is_text(other) and _margin(other) > margin)
        words = strip_marks(" ".join([_COUNTER.sub("", text, count=1), *map(_without_break, lines[index + 1 : end])]))
        term, separator, meaning = words.partition(" :: ")
        self.writer.item(f"{term}: {meaning}" if separator else words, mark if mark[0].isalnum() else "")
        return end


def strip_marks(text: str) -> str:
    """The words of a text without marks of emphasis, with the texts of links."""
    if "[[" in text:
        text = _LINK.sub(lambda match: match[2] or _name_target(match[1]), text)
    if "[fn:" in text:
        text = _NOTE.sub(lambda match: f" ({match[2]})" if match[2] else f"[{match[1]}]", text)
    if any(mark in text for mark in ("{{{", "<<", "@@", "src_")):
        text = _SOURCE.sub(r"\1", _NO_TEXT.sub("", text))
    text = _DATE.sub(r"\1\2", text) if "<" in text or "[" in text else text
    for _ in range(2):
        text = _EMPHASIS.sub(r"\2", text)
    return text.strip()


def _name_target(target: str) -> str:
    """The text of a link without one: its address, or the name of a headline; empty for a picture."""
    name = target.removeprefix("file:").lstrip("*#")
    return "" if name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")) else name


def _is_text(line: str) -> bool:
    """Whether a line continues a paragraph."""
    text = line.lstrip()
    if not text or text[0] in "#|" or line.startswith("*"):
        return False
    return not (_ITEM.fullmatch(line) or _DRAWER.fullmatch(line) or _FIXED.fullmatch(line) or _PLANNING.fullmatch(line))


def _end_of(lines: Sequence[str], index: int, goes_on: Callable[[str], bool]) -> int:
    """The first line from `index` on that does not go on."""
    while index < len(lines) and goes_on(lines[index]):
        index += 1
    return index


def _to_cells(row: str) -> list[str]:
    return [strip_marks(cell) for cell in row.strip().strip("|").split("|")]


def _without_break(line: str) -> str:
    return line.strip().removesuffix("\\\\").rstrip()


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedent(lines: Sequence[str]) -> Iterator[str]:
    margin = min((_margin(line) for line in lines if line.strip()), default=0)
    return (line[margin:].removeprefix(",") for line in lines)
