"""The sandbox's parser of AsciiDoc: the blocks of a page with its headings, and its attributes as metadata.

It reads what Asciidoctor documents as blocks, lists, tables and inline marks, line by line. Includes are left out,
and so is what a condition excludes: attributes are those that the text itself sets. Tables of AsciiDoc: the cells of
each row, of `|` tables and of those in CSV, TSV and with colons.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.engine.index.text import strip_layout
from aidre.engine.model import Json
from aidre.ingest.formats.markup.asciidoc_inline import MAX_ATTRIBUTE_CHARACTERS, SET_ATTRIBUTES, strip_inline
from aidre.ingest.formats.markup.text_writer import MAX_CELLS, TextWriter, split_members
from aidre.ingest.records import decode

_CELL = re.compile(r"(?<!\\)(?:(?:(\d{1,3})?(?:\.(\d{1,3}))?([+*]))?[<^>]?(?:\.[<^>])?[aehlmsd]?)?\|", re.ASCII)
_COLUMN = re.compile(r"(?:(\d{1,3})\*)?.*")
_MAX_SPAN = 100


def read_cells(
    lines: Sequence[str],
    mark: str,
    attributes: Mapping[str, str],
    words: Sequence[str],
    strip: Callable[[str], str],
) -> Iterator[list[str]]:
    """The rows; `mark` is the first character of the table's line, `attributes` and `words` are those above it."""
    form = attributes.get("format", "csv" if mark == "," else "dsv" if mark == ":" else "psv")
    if form in ("csv", "tsv", "dsv"):
        separator = attributes.get("separator") or {"csv": ",", "tsv": "\t", "dsv": ":"}[form]
        yield from _read_separated(lines, "\t" if separator == "\\t" else separator, strip)
        return
    count = _count_columns(attributes.get("cols", ""))
    cells: list[str] = []
    for line in lines:
        if line.startswith("//") and not line.startswith("///"):
            continue
        found = list(_split_line((line.replace("!", "|") if mark == "!" else line).removesuffix(" +")))
        if found and found[0][0] is None:
            if cells:
                cells[-1] += " " + found[0][1]
            found = found[1:]
        own: list[str] = []
        for repeat, text in found:
            own += [text] if repeat is None else repeat(text)
        if own and not count:
            count = len(own)
        cells += own
        if len(cells) > MAX_CELLS:
            break
    count = count or 1
    rows = (cells[start : start + count] for start in range(0, len(cells), count))
    yield from ([strip(cell.replace("\\|", "|").strip()) for cell in row] for row in rows)


def _split_line(line: str) -> Iterator[tuple[Callable[[str], list[str]] | None, str]]:
    """The texts of the cells that begin in a line, each with how it is repeated; first (None) what goes on with the
    cell above."""
    matches = list(_CELL.finditer(line))
    before = line[: matches[0].start()] if matches else line
    if before.strip() or not matches:
        yield None, before.strip()
    for index, match in enumerate(matches):
        end = matches[index + 1].start() if index + 1 < len(matches) else len(line)
        yield _repeat(match), line[match.end() : end].strip()


def _repeat(match: re.Match[str]) -> Callable[[str], list[str]]:
    """`3*|` is three cells, `2+|` one that spans two columns."""
    number = min(int(match[1] or 1), _MAX_SPAN)
    if match[3] == "*":
        return lambda text: [text] * number
    return lambda text: [text] + [""] * (number - 1)


def _count_columns(columns: str) -> int:
    """The columns of `cols="1,2"`, `cols="3*"` or `cols=3`."""
    columns = columns.strip().strip('"')
    if columns.isascii() and columns.isdecimal() and len(columns) < 4:
        return int(columns) if "," not in columns and int(columns) > 0 else 0
    total = 0
    for part in columns.replace(";", ",").split(",") if columns else ():
        match = _COLUMN.match(part.strip())
        total += int(match[1]) if match and match[1] else 1
    return total


def _read_separated(lines: Sequence[str], separator: str, strip: Callable[[str], str]) -> Iterator[list[str]]:
    if len(separator) == 1:
        try:
            for row in csv.reader((line for line in lines if line), delimiter=separator):
                yield [strip(cell.strip()) for cell in row]
        except csv.Error:
            return


MAX_DEPTH = 20
"""Nesting of blocks."""

_ENTRY = re.compile(r":(!?)(\w[\w-]{0,80})(!?):(?:[ \t]{1,99}(.*))?")
_CONDITION = re.compile(r"(ifdef|ifndef|ifeval|endif)::([^\[\s]{0,200})\[(.*)\][ \t]{0,99}")
_SECTION = re.compile(r"(={1,6}|#{1,6})[ \t]{1,99}(\S.*?)(?:[ \t]{1,99}\1)?[ \t]{0,99}")
_STYLE = re.compile(r"\[((?!\[).{0,2000})\][ \t]{0,99}|\[\[.{1,500}\]\][ \t]{0,99}")
_TITLE = re.compile(r"\.([^\s.].*|\.[^\s.].*)")
_DELIMITER = re.compile(r"(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|~{4,}|`{3,})[\w+-]{0,30}[ \t]{0,99}")
_TABLE = re.compile(r"([|,:!]={3,})[ \t]{0,99}")
_MACRO = re.compile(
    r"(image|video|audio|toc|include|xref|link|icon|plantuml|diagram)::(\S{0,2000}?)\[(.*)\][ \t]{0,99}"
)
_RULE = re.compile(r"'{3,}[ \t]{0,99}|<{3,}[ \t]{0,99}|-{3}[ \t]{0,99}|\*{3}[ \t]{0,99}|- - -|\* \* \*")
_ITEM = re.compile(r"[ \t]{0,99}(\*{1,9}|-|\.{1,9}|\d{1,9}[.)]|[a-zA-Z]\.|<(?:\d{1,3}|\.)>)[ \t]{1,99}(\S.*)")
_TERM = re.compile(r"[ \t]{0,99}(\S.{0,500}?)(:{2,4}|;;)(?:[ \t]{1,99}(.*))?")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]{1,99}(.*)")
_UNDERLINES = "=-~^+"
_CALLOUT = re.compile(
    r"[ \t]{0,99}(?:(?://|#|--|;;|<!--)[ \t]?)?<(?:!--)?(?:\d{1,3}|\.)(?:--)?>(?:[ \t]{0,99}-->)?[ \t]{0,99}$"
)
_CHECK = re.compile(r"\[[ xX*]\][ \t]{1,99}")
_REVISION = re.compile(
    r"(?:v?[\w.]{1,40},[ \t]{0,99})?"
    r"(\d{4}-\d{1,2}-\d{1,2}|[A-Z][a-z]+ \d{1,2},? \d{4}|\d{1,2} [A-Z][a-z]+ \d{4})(?::.*)?"
)
_AUTHOR = re.compile(
    r"[^\W\d_][\w.'-]{0,60}(?:[ \t][^\W\d_][\w.'-]{0,60}){0,3}(?:[ \t]{1,99}<[^<>\s]{1,200}>)?(?:;.*)?"
)
_CODE_STYLES = frozenset({"source", "listing", "literal", "console", "terminal"})
_NAMES = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
_KEPT = frozenset({"description", "keywords", "draft", "tags"})


@dataclass(slots=True)
class _BlockStyle:
    """What the lines above a block say of it."""

    title: str = ""
    words: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.words[0].split("#")[0].split(".")[0].split("%")[0].strip() if self.words else ""

    def add(self, text: str) -> None:
        for part in _split_attributes(text):
            name, equals, value = part.partition("=")
            if equals:
                self.attributes[name.strip()] = value.strip().strip("\"'")
            else:
                self.words.append(part.strip())


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """Text, headings and metadata; raises InvalidDocument."""
    decoded = decode(content, options.get("charset"))
    members, body = split_members(strip_layout(decoded.text))
    page = _AsciidocPage()
    page.read([line.rstrip() for line in body.expandtabs(4).splitlines()])
    return page.writer.answer(_to_answer(page.attributes) | members | {"notice": decoded.notice})


def _to_answer(attributes: Mapping[str, str]) -> dict[str, Json]:
    metadata: dict[str, Json] = {}
    for name, value in attributes.items():
        bare = name.removeprefix("page-")
        if bare in _KEPT and bare not in metadata:
            is_list = bare in ("keywords", "tags")
            metadata[bare] = [word for part in value.split(",") if (word := part.strip())] if is_list else value or True
    if attributes.get("author"):
        metadata["author"] = attributes["author"]
    dates = ("page-revdate", "revdate", "page-date", "date", "page-updated")
    return {
        "title": attributes.get("doctitle") or attributes.get("title"),
        "language": attributes.get("lang"),
        "updated_at": next((attributes[name] for name in dates if attributes.get(name)), None),
        "metadata": {name: value for name, value in metadata.items() if value},
    }


class _AsciidocPage:
    """A page as it is read; the `attributes` are those set so far."""

    def __init__(self) -> None:
        self.writer = TextWriter()
        self.attributes: dict[str, str] = dict(SET_ATTRIBUTES)

    def read(self, lines: Sequence[str]) -> None:
        lines = list(_join_entries(lines))
        self._read_blocks(self._read_header(list(self._choose(lines))), 0)

    # -- what is read before the blocks ------------------------------------------------------------------------

    def _choose(self, lines: Sequence[str]) -> Iterator[str]:
        """The lines that no condition excludes; attributes are set in their order, before what is below them."""
        excluded: list[bool] = []
        for line in lines:
            if "::" in line and (match := _CONDITION.fullmatch(line)):
                kind, names, content = match.groups()
                if kind == "endif":
                    excluded = excluded[:-1]
                    continue
                is_out = kind != "ifeval" and self._holds(names) != (kind == "ifdef")
                if content and kind != "ifeval":
                    if not is_out and not any(excluded):
                        yield content
                elif len(excluded) < 1000:
                    excluded.append(is_out)
                continue
            if any(excluded):
                continue
            if line.startswith(":") and (entry := _ENTRY.fullmatch(line)):
                self._set(*entry.groups())
            yield line

    def _holds(self, names: str) -> bool:
        """Whether attributes are set: any of `a,b`, all of `a+b`."""
        return any(all(name in self.attributes for name in part.split("+")) for part in names.split(","))

    def _set(self, before: str | None, name: str, after: str | None, value: str | None) -> None:
        if before or after:
            self.attributes.pop(name, None)
        elif len(self.attributes) < 10_000:
            text = self._inline(value or "") if "{" in (value or "") else value or ""
            self.attributes[name] = text[:MAX_ATTRIBUTE_CHARACTERS]

    def _read_header(self, lines: list[str]) -> list[str]:
        """The title, and the lines of authors and revision below it; returns the lines of the body."""
        start = 0
        while start < len(lines) and (not lines[start] or _is_entry_or_comment(lines[start])):
            start += 1
        match = _SECTION.fullmatch(lines[start]) if start < len(lines) else None
        if match is None or len(match[1]) > 1:
            return lines
        self.writer.heading(self._inline(match[2]), 1)
        start += 1
        for pattern, name in ((_AUTHOR, "author"), (_REVISION, "revdate")):
            while start < len(lines) and lines[start].startswith("//"):
                start += 1
            line = lines[start] if start < len(lines) else ""
            if line and (found := pattern.fullmatch(line)):
                self.attributes.setdefault(name, found[1] if name == "revdate" else line.partition("<")[0].strip())
                start += 1
            else:
                break
        return lines[start:]

    # -- blocks --------------------------------------------------------------------------------------------------

    def _read_blocks(self, lines: Sequence[str], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidDocument(f"has more than {MAX_DEPTH} blocks inside each other")
        index, style = 0, _BlockStyle()
        while index < len(lines):
            line = lines[index]
            if (
                not line
                or (line.startswith("//") and not line.startswith("///"))
                or (line.startswith(":") and _ENTRY.fullmatch(line))
            ):
                index += 1
            elif line.startswith("[") and (match := _STYLE.fullmatch(line)):
                style.add(match[1] or "")
                index += 1
            elif line.startswith(".") and (match := _TITLE.fullmatch(line)):
                style.title = self._inline(match[1])
                index += 1
            else:
                index = self._read_block(lines, index, style, depth)
                style = _BlockStyle()

    def _read_block(self, lines: Sequence[str], index: int, style: _BlockStyle, depth: int) -> int:
        """Write the block that begins at a line; returns the line behind it."""
        line = lines[index]
        if _DELIMITER.fullmatch(line):
            return self._read_delimited(lines, index, style, depth)
        if _TABLE.fullmatch(line):
            end = _find_end(lines, index, line)
            self._show_title(style)
            self.writer.table(read_cells(lines[index + 1 : end], line[0], style.attributes, style.words, self._inline))
            return end + 1
        is_top = depth == 0 and style.name not in ("discrete", "float")
        section, level = _SECTION.fullmatch(line), _underlined(lines, index)
        if is_top and (section or level):
            self.writer.heading(self._inline(section[2] if section else line), len(section[1]) if section else level)
            return index + (1 if section else 2)
        if macro := _MACRO.fullmatch(line):
            self._read_macro(macro, style)
        elif not _RULE.fullmatch(line):
            self._show_title(style)
            read = self._read_list if _ITEM.fullmatch(line) or _is_term(line) else self._read_paragraph
            return read(lines, index, style, depth)
        return index + 1

    def _read_macro(self, macro: re.Match[str], style: _BlockStyle) -> None:
        self._show_title(style)
        if macro[1] == "image":
            self.writer.paragraph(_alt(self._inline(macro[3].split(",")[0].strip('"'))))
        elif macro[1] in ("xref", "link"):
            self.writer.paragraph(self._inline(macro[3]))

    def _read_delimited(self, lines: Sequence[str], index: int, style: _BlockStyle, depth: int) -> int:
        mark = lines[index]
        closing = mark[: len(mark) - len(mark.lstrip("`"))] if mark[0] == "`" else mark
        end = _find_end(lines, index, closing)
        inner = lines[index + 1 : end]
        if mark[0] == "/" or (mark[0] == "+" and style.name not in ("stem", "latexmath", "asciimath")):
            return end + 1
        if style.name in _NAMES:
            self._read_box(style.title or style.name.capitalize(), inner, depth)
            return end + 1
        self._show_title(style)
        if (mark[0] in "-.`+" and mark != "--") or style.name in _CODE_STYLES:
            self.writer.code("\n".join(_CALLOUT.sub("", line) for line in inner))
        elif style.name != "comment":
            self._read_blocks(inner, depth + 1)
        return end + 1

    def _read_box(self, name: str, inner: Sequence[str], depth: int) -> None:
        """The name of a box in front of its first paragraph."""
        first = next((index for index, line in enumerate(inner) if line), None)
        if first is None:
            return
        is_text = not (
            _DELIMITER.fullmatch(inner[first]) or _ITEM.fullmatch(inner[first]) or inner[first][0] in "[.:|="
        )
        named = [f"{name}: {inner[first]}"] if is_text else [f"{name}:", "", inner[first]]
        self._read_blocks([*named, *inner[first + 1 :]], depth + 1)

    def _read_paragraph(self, lines: Sequence[str], index: int, style: _BlockStyle, depth: int) -> int:
        end = index + 1
        while end < len(lines) and lines[end] and not _ends_paragraph(lines[end]):
            end += 1
        block = lines[index:end]
        if block[0].startswith(" ") or style.name in _CODE_STYLES:
            self.writer.code(_dedent(block))
            return end
        if style.name not in ("comment", "pass"):
            name = f"{style.name.capitalize()}: " if style.name in _NAMES else ""
            text = " ".join(line.strip().removesuffix(" +") for line in block if not line.startswith("//"))
            admonition = _ADMONITION.match(text)
            if admonition:
                name, text = f"{admonition[1].capitalize()}: ", admonition[2]
            self.writer.paragraph(name + self._inline(text))
        return end

    def _read_list(self, lines: Sequence[str], index: int, style: _BlockStyle, depth: int) -> int:
        """The items of a list and of lists in it, with the blocks that a `+` attaches."""
        numbers: dict[str, int] = {}
        while index < len(lines):
            line = lines[index]
            item, term = _ITEM.fullmatch(line), _is_term(line)
            if item is None and term is None:
                return index
            index += 1
            text = [item[2] if item else (term[3] or "") if term else ""]
            while index < len(lines) and lines[index] and not _ends_item(lines[index]):
                text.append(lines[index].strip())
                index += 1
            words = self._inline(" ".join(part.removesuffix(" +") for part in text))
            if term and not item:
                self.writer.item(self._inline(term[1]), "")
                self.writer.item(words, "")
            elif item:
                self.writer.item(_CHECK.sub("", words, count=1), _number(item[1], numbers))
            index = self._read_attached(lines, index, depth)
        return index

    def _read_attached(self, lines: Sequence[str], index: int, depth: int) -> int:
        """The blocks behind lines with a `+`; returns the next item, or the line behind the list."""
        while index < len(lines):
            if lines[index] == "+":
                style, index = _BlockStyle(), index + 1
                while index < len(lines) and (
                    match := _STYLE.fullmatch(lines[index]) or _TITLE.fullmatch(lines[index])
                ):
                    if lines[index].startswith("["):
                        style.add(match[1] or "")
                    else:
                        style.title = self._inline(match[1])
                    index += 1
                if index < len(lines) and lines[index] and not _ITEM.fullmatch(lines[index]):
                    index = self._read_block(lines, index, style, depth + 1)
            elif not lines[index] and (after := _next_text(lines, index)) < len(lines):
                if not (_ITEM.fullmatch(lines[after]) or _is_term(lines[after]) or lines[after] == "+"):
                    return index
                index = after
            else:
                return index
        return index

    def _show_title(self, style: _BlockStyle) -> None:
        self.writer.paragraph(style.title)

    def _inline(self, text: str) -> str:
        return strip_inline(text, self.attributes)


def _join_entries(lines: Sequence[str]) -> Iterator[str]:
    """Lines, those of attributes that go on behind a `\\` as one."""
    held = ""
    for each in lines:
        line = f"{held} {each.strip()}" if held else each
        held = ""
        if line.startswith(":") and line.endswith(" \\") and len(line) < MAX_ATTRIBUTE_CHARACTERS:
            held = line[:-2]
        else:
            yield line
    if held:
        yield held


def _find_end(lines: Sequence[str], start: int, mark: str) -> int:
    """The line that closes a block; the last where none does."""
    return next((index for index in range(start + 1, len(lines)) if lines[index] == mark), len(lines))


def _is_entry_or_comment(line: str) -> bool:
    return line.startswith("//") or _ENTRY.fullmatch(line) is not None


def _underlined(lines: Sequence[str], index: int) -> int:
    """The level of a title with a line of marks below it, else 0."""
    line, below = lines[index], lines[index + 1] if index + 1 < len(lines) else ""
    if len(below) < 3 or below[0] not in _UNDERLINES or below != below[0] * len(below) or line.startswith(" "):
        return 0
    return _UNDERLINES.index(below[0]) + 1 if abs(len(line) - len(below)) <= 2 and line[0].isalnum() else 0


def _is_term(line: str) -> re.Match[str] | None:
    if "::" not in line and ";;" not in line:
        return None
    match = _TERM.fullmatch(line)
    return match if match and not _MACRO.fullmatch(line) else None


def _ends_item(line: str) -> bool:
    return line == "+" or bool(_ITEM.fullmatch(line) or _is_term(line)) or _ends_paragraph(line)


def _ends_paragraph(line: str) -> bool:
    if line[0] not in "-.=*_+/~`|,:![":
        return False
    return bool(_DELIMITER.fullmatch(line) or _TABLE.fullmatch(line) or (line[0] == "[" and _STYLE.fullmatch(line)))


def _next_text(lines: Sequence[str], index: int) -> int:
    """The next line that is neither empty nor a comment."""
    while index < len(lines) and (not lines[index] or lines[index].startswith("// ")):
        index += 1
    return index


def _number(mark: str, numbers: dict[str, int]) -> str:
    """The number of an item, empty for an item of a list without numbers; deeper lists begin again."""
    for deeper in [other for other in numbers if len(other) > len(mark) and other[0] == mark[0] == "."]:
        del numbers[deeper]
    if mark[0] == "<":
        numbers[mark[0]] = numbers.get(mark[0], 0) + 1
        return f"{mark[1:-1] if mark != '<.>' else numbers[mark[0]]}."
    if mark[0] == ".":
        numbers[mark] = numbers.get(mark, 0) + 1
        return f"{numbers[mark]}."
    return mark if mark[0].isalnum() else ""


def _dedent(lines: Sequence[str]) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(_CALLOUT.sub("", line[margin:]) for line in lines)


def _alt(text: str) -> str:
    return text if " " in text.strip() else ""


def _split_attributes(text: str) -> list[str]:
    """The parts between commas outside of quotes."""
    return [part.strip() for part in re.findall(r"(?:\"[^\"]*\"|[^,\"])+|(?<=,)(?=,)", text)] or [text]
