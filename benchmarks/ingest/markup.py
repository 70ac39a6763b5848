"""What a file itself says about its parts: code blocks, tables and links of navigation, read without `aidre.ingest`.

HTML is read by the standard library's parser, Markdown line by line. So the counts of `ingest/faults.py` depend on
nothing that they measure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

NAVIGATION_RELATIONS: Final = frozenset({"prev", "previous", "next", "up", "home", "start", "contents", "index"})
NAVIGATION_KEYS: Final = frozenset("npuhi")
"""Values of `accesskey` that DocBook, Sphinx and Texinfo give to the links between pages."""

MIN_PARAGRAPH_WORDS: Final = 8
_HIDDEN: Final = {"<!--": "-->", "<script": "</script>", "<style": "</style>"}
_PLAIN: Final = re.compile(r"[^<>\[\]{}`*_|#:/\\&]+")
"""A line of Markdown without any mark."""


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of each row, as text."""

    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Markup:
    """The parts of one file in their order; `links` are the texts of links between pages.

    `paragraphs` (<p>, and DocBook's <div class="para">) are those of several words without links of navigation.
    """

    code: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    links: tuple[str, ...] = ()
    paragraphs: tuple[str, ...] = ()


def read_markup(path: Path) -> Markup:
    """Empty for formats without markup, such as PDF."""
    match path.suffix.lower():
        case ".html" | ".htm":
            return read_html_markup(path.read_text(encoding="utf-8", errors="replace"))
        case ".md" | ".markdown":
            return read_markdown_markup(path.read_text(encoding="utf-8", errors="replace"))
    return Markup()


def read_html_markup(content: str) -> Markup:
    reader = _Reader()
    reader.feed(content)
    reader.close()
    tables = tuple(Table(tuple(rows)) for rows in reader.tables)
    return Markup(tuple(reader.code), tables, tuple(reader.links), tuple(reader.paragraphs))


@dataclass(slots=True)
class _Part:
    tag: str
    texts: list[str] = field(default_factory=list)
    is_navigation: bool = False
    """Whether a link of navigation is inside."""

    is_prose: bool = False
    """Whether words outside of links are inside."""


class _Reader(HTMLParser):
    """Collects the texts of <pre>, of the cells of tables without tables inside, and of links of navigation."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.code: list[str] = []
        self.tables: list[list[tuple[str, ...]]] = []
        self.links: list[str] = []
        self.paragraphs: list[str] = []
        self._links = 0
        self._open: list[_Part] = []
        self._rows: list[list[tuple[str, ...]]] = []
        self._cells: list[list[str]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._links += tag == "a"
        if tag in ("script", "style", "head"):
            self._hidden += 1
        elif tag == "p" or (tag == "div" and dict(attrs).get("class") == "para"):
            self._finish("p")
            self._open.append(_Part("p"))
        elif tag in ("td", "th"):
            self._finish("td", "th")
            self._open.append(_Part("td"))
        elif tag == "tr":
            self._finish_row()
            self._cells.append([])
        elif tag == "table":
            self._rows.append([])
        elif tag == "pre" or (tag == "a" and _is_navigation(dict(attrs))):
            for part in self._open:
                part.is_navigation = part.is_navigation or tag == "a"
            self._open.append(_Part(tag))

    def handle_endtag(self, tag: str) -> None:
        self._links = max(0, self._links - (tag == "a"))
        if tag in ("script", "style", "head"):
            self._hidden -= 1
        elif tag in ("pre", "a", "p"):
            self._finish(tag)
        elif tag == "div":
            self._finish("p")
        elif tag in ("td", "th"):
            self._finish("td")
        elif tag == "tr":
            self._finish_row()
        elif tag == "table" and self._rows:
            self._finish_row()
            rows = self._rows.pop()
            if self._rows:  # a table inside a table is layout: neither of them is measured
                self._rows[-1].clear()
            elif sum(len(row) > 1 for row in rows) > 1:
                self.tables.append(rows)

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            for part in self._open:
                part.texts.append(data)
                part.is_prose = part.is_prose or (not self._links and any(map(str.isalpha, data)))

    def _finish(self, *tags: str) -> None:
        index = next((index for index in range(len(self._open) - 1, -1, -1) if self._open[index].tag in tags), None)
        if index is None:
            return
        part = self._open.pop(index)
        text = "".join(part.texts)
        if part.tag == "p" and len(text.split()) >= MIN_PARAGRAPH_WORDS and part.is_prose and not part.is_navigation:
            self.paragraphs.append(text)
        elif part.tag == "pre" and text.strip():
            self.code.append(text)
        elif part.tag == "a" and text.strip():
            self.links.append(" ".join(text.split()))
        elif part.tag == "td" and self._cells:
            self._cells[-1].append(text)

    def _finish_row(self) -> None:
        self._finish("td")
        if self._cells and len(self._cells) >= max(1, len(self._rows)):
            cells = self._cells.pop()
            if self._rows and cells:
                self._rows[-1].append(tuple(cells))


def _is_navigation(attributes: dict[str, str | None]) -> bool:
    relations = (attributes.get("rel") or "").lower().split()
    return (attributes.get("accesskey") or "").lower() in (NAVIGATION_KEYS - {""}) or any(
        relation in NAVIGATION_RELATIONS for relation in relations
    )


def read_markdown_markup(content: str) -> Markup:
    """Fenced code without its fences, tables with pipes at the beginning of their lines, lines without any mark."""
    code: list[str] = []
    tables: list[Table] = []
    paragraphs: list[str] = []
    rows: list[tuple[str, ...]] = []
    fence, block = "", list[str]()
    hidden = ""
    for line in content.splitlines():
        stripped = line.strip()
        mark = re.match(r"(`{3,}|~{3,})", stripped)
        if fence:
            if mark and mark[1].startswith(fence) and stripped == mark[1]:
                code.append("\n".join(block))
                fence = ""
            else:
                block.append(line)
            continue
        if hidden or (hidden := next((end for begin, end in _HIDDEN.items() if stripped.startswith(begin)), "")):
            hidden = "" if hidden in line else hidden
            continue
        if mark:
            fence, block = mark[1], []
        elif _PLAIN.fullmatch(stripped) and len(stripped.split()) >= MIN_PARAGRAPH_WORDS:
            paragraphs.append(stripped)
        if stripped.startswith("|") and stripped.endswith("|"):
            rows.append(tuple(stripped.strip("|").split("|")))
        elif rows:
            tables.append(Table(tuple(rows)))
            rows = []
    if rows:
        tables.append(Table(tuple(rows)))
    written = tuple(block for block in code if block.strip())
    return Markup(written, tuple(tables), paragraphs=tuple(paragraphs))
