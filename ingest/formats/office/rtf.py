"""RTF as text: paragraphs, headings by their styles and outline levels, tables; title, author and dates.

What is not text of the document (fonts, styles, pictures, headers, fields' instructions) is left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup import TextWriter, to_line

MAX_DEPTH = 1000
"""Groups inside each other."""

_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(-?\d{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)
_HIDDEN = frozenset(
    {
        "colortbl", "pict", "object", "objdata", "header", "headerl", "headerr", "headerf", "footer", "footerl",
        "footerr", "footerf", "fldinst", "themedata", "datastore", "listtable", "listoverridetable", "rsidtbl",
        "generator", "xmlnstbl", "latentstyles", "filetbl", "revtbl", "listtext", "pntext", "colorschememapping",
        "bkmkstart", "bkmkend", "annotation", "atnid", "atnauthor", "tc", "xe", "rxe", "nonshppict", "shppict", "sp",
        "panose", "falt", "stylerestrictions", "docvar", "userprops", "template", "operator", "company", "doccomm",
    }
)  # fmt: skip
"""Groups without text of the document."""

_READ = frozenset({"fonttbl", "stylesheet", "info", "title", "author", "subject", "keywords", "creatim", "revtim"})
_SHOWN_IGNORABLE = frozenset({"shptxt", "shprslt", "upr", "ud"})
_CHARACTERS = {
    "tab": "\t", "line": " ", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“",
    "rdblquote": "”", "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ",
}  # fmt: skip
_ESCAPED = {b"~": " ", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}", b"\n": "\x01", b"\r": "\x01"}
_CHARSETS = {
    0: "cp1252", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
    77: "mac_roman",
}  # fmt: skip
"""Encodings by the number that a font has for its characters."""

_HEADING = re.compile(r"heading ([1-9])")


@dataclass(frozen=True, slots=True)
class _GroupState:
    """What holds inside a group: `place` is the group that is read apart, or `hidden`; `skip` characters stand for one
    of Unicode."""

    place: str = ""
    codec: str = "cp1252"
    skip: int = 1
    hidden: bool = False


@dataclass(slots=True)
class _Paragraph:
    parts: list[str] = field(default_factory=list)
    style: int = 0
    level: int = 0
    in_table: bool = False


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata; raises InvalidDocument."""
    if not content.strip():
        return {"text": ""}
    if not content.lstrip()[:5].lower().startswith(b"{\\rt"):
        raise InvalidDocument("is not an RTF file: it does not begin with {\\rtf")
    reader = _RtfReader()
    reader.read(content)
    properties = {name: to_line("".join(parts)) for name, parts in reader.properties.items()}
    keywords = [word for part in re.split("[,;]", properties.get("keywords", "")) if (word := part.strip())]
    metadata = {"author": properties.get("author"), "subject": properties.get("subject"), "keywords": keywords}
    return reader.writer.answer(
        {
            "title": properties.get("title"),
            "updated_at": _to_date(reader.dates.get("revtim") or reader.dates.get("creatim")),
            "metadata": {name: value for name, value in metadata.items() if value},
        }
    )


class _RtfReader:
    """Reads the tokens of a file; `properties` and `dates` are those of its information."""

    def __init__(self) -> None:
        self.writer = TextWriter()
        self.properties: dict[str, list[str]] = {}
        self.dates: dict[str, dict[str, int]] = {}
        self._state = _GroupState()
        self._outer: list[_GroupState] = []
        self._paragraph = _Paragraph()
        self._bytes = bytearray()
        self._to_skip = 0
        self._is_ignorable = False
        self._fonts: dict[int, str] = {}
        self._font = self._style = 0
        self._styles: dict[int, int] = {}
        self._name: list[str] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._high = 0

    def read(self, content: bytes) -> None:
        position = 0
        while match := _TOKEN.match(content, position):
            position = match.end()
            word, number, code, escaped, brace, text = match.groups()
            if word:
                position = self._read_word(word.decode("ascii"), number, position)
            elif code:
                self._add_bytes(bytes([int(code, 16)]))
            elif escaped:
                self._read_escaped(escaped)
            elif brace:
                self._read_brace(brace)
            elif text:
                self._add_bytes(text)
        self._end_paragraph()
        self._end_table()

    def _read_word(self, word: str, digits: bytes | None, position: int) -> int:
        number = int(digits) if digits else None
        if word == "u" and number is not None:
            self._add_unicode(number)
        elif word == "bin":
            self._flush()
            return position + min(max(number or 0, 0), 1 << 27)
        else:
            self._flush()
            self._to_skip = 0
            self._obey(word, number)
        self._is_ignorable = False
        return position

    def _obey(self, word: str, number: int | None) -> None:
        if word in _HIDDEN or (self._is_ignorable and word not in _READ and word not in _SHOWN_IGNORABLE):
            self._state = replace(self._state, hidden=True)
        elif word in _READ:
            self._state = replace(self._state, place=word)
        elif self._state.place in ("creatim", "revtim"):
            self.dates.setdefault(self._state.place, {})[word] = number or 0
        elif word == "ansicpg" and number:
            self._state = replace(self._state, codec=_find_codec(f"cp{number}"))
        elif word in ("f", "fcharset"):
            self._choose_font(word, number or 0)
        elif word == "uc":
            self._state = replace(self._state, skip=min(max(number or 0, 0), 100))
        elif self._state.place == "stylesheet":
            self._style = (number or 0) if word == "s" else self._style
        elif self._state.hidden or self._state.place:
            return
        elif word in _CHARACTERS:
            self._paragraph.parts.append(_CHARACTERS[word])
        else:
            self._obey_layout(word, number)

    def _obey_layout(self, word: str, number: int | None) -> None:
        paragraph = self._paragraph
        if word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word in ("cell", "nestcell"):
            self._cells.append("".join(paragraph.parts))
            paragraph.parts.clear()
        elif word in ("row", "nestrow"):
            self._rows.append(self._cells)
            self._cells = []
        elif word == "pard":
            paragraph.style = paragraph.level = 0
            paragraph.in_table = False
        elif word == "intbl":
            paragraph.in_table = True
        elif word == "s":
            paragraph.style = number or 0
        elif word == "outlinelevel":
            paragraph.level = (number or 0) + 1 if 0 <= (number or 0) < 9 else 0

    def _choose_font(self, word: str, number: int) -> None:
        if self._state.place == "fonttbl":
            self._font = number if word == "f" else self._font
            if word == "fcharset" and number in _CHARSETS and len(self._fonts) < 10_000:
                self._fonts[self._font] = _CHARSETS[number]
        elif word == "f" and number in self._fonts:
            self._state = replace(self._state, codec=self._fonts[number])

    def _read_escaped(self, character: bytes) -> None:
        if character == b"*":
            self._is_ignorable = True
            return
        self._flush()
        text = _ESCAPED.get(character, "")
        if text == "\x01":
            self._end_paragraph()
        else:
            self._add(text)

    def _read_brace(self, brace: bytes) -> None:
        self._flush()
        self._to_skip = 0
        self._is_ignorable = False
        if brace == b"{":
            if len(self._outer) >= MAX_DEPTH:
                raise InvalidDocument(f"has more than {MAX_DEPTH} groups inside each other")
            self._outer.append(self._state)
        elif self._outer:
            if self._state.place == "stylesheet":
                self._end_style()
            self._state = self._outer.pop()

    def _end_style(self) -> None:
        match = _HEADING.match("".join(self._name).strip().rstrip(";").lower())
        if match:
            self._styles[self._style] = int(match[1])
        self._name, self._style = [], 0

    def _add_bytes(self, found: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(found))
            self._to_skip -= skipped
            found = found[skipped:]
        if not self._state.hidden:
            self._bytes += found

    def _add_unicode(self, number: int) -> None:
        self._flush()
        point = number % 65536
        self._to_skip = self._state.skip
        if 0xD800 <= point < 0xDC00:
            self._high = point
            return
        if 0xDC00 <= point < 0xE000:
            point = 0x10000 + ((self._high - 0xD800) << 10) + (point - 0xDC00) if self._high else 0xFFFD
        self._high = 0
        self._add(chr(point))

    def _flush(self) -> None:
        """The bytes so far as text: characters of several bytes come as several tokens."""
        if self._bytes:
            text = self._bytes.decode(self._state.codec, "replace")
            self._bytes.clear()
            self._add(text)

    def _add(self, text: str) -> None:
        place = self._state.place
        if self._state.hidden or not text:
            return
        if place == "stylesheet":
            self._name.append(text)
        elif place in ("title", "author", "subject", "keywords"):
            self.properties.setdefault(place, []).append(text)
        elif not place:
            self._paragraph.parts.append(text)

    def _end_paragraph(self) -> None:
        paragraph = self._paragraph
        text = "".join(paragraph.parts)
        if paragraph.in_table or self._cells:
            paragraph.parts[:] = [f"{text} "] if text else []
            if self._cells or text:
                return
        self._end_table()
        level = paragraph.level or self._styles.get(paragraph.style, 0)
        if level:
            self.writer.heading(text, level)
        else:
            self.writer.paragraph(text)
        paragraph.parts.clear()

    def _end_table(self) -> None:
        self.writer.table(self._rows)
        self._rows = []


def _find_codec(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _to_date(members: Mapping[str, int] | None) -> str | None:
    if not members or not 1900 < members.get("yr", 0) < 10_000:
        return None
    parts = [max(1, members.get(name, 1)) for name in ("mo", "dy")] + [members.get(name, 0) for name in ("hr", "min")]
    if any(not 0 <= part < 60 for part in parts):
        return None
    return f"{members['yr']:04}-{parts[0]:02}-{parts[1]:02}T{parts[2]:02}:{parts[3]:02}:00Z"
