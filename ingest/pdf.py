"""PDF as text: pages in the order that PDFium reads them, lines made paragraphs again, bookmarks as headings.

Runs in the sandbox's child; knows no file.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from aidre.engine.errors import InvalidDocument

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

MOST_PAGES = 20_000
MOST_BOOKMARKS = 10_000
MOST_CHARACTERS = 16 << 20
LONGEST_VALUE = 1000
"""Of a title, a name or a bookmark: what follows is no title any more."""

LONGEST_LANGUAGE = 40
_EVERYWHERE = 1e6
_HYPHENS = "\x02\ufffe"
"""How PDFium writes a hyphen at the end of a line, with the next line right behind it."""

_HYPHEN = re.compile(rf"(\w{{0,40}}[^\W\d_])[{_HYPHENS}](\w{{0,40}})")
_WORD = re.compile(r"\w+(?:-\w+)*")
_UNWRITTEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff\ufffe\uffff]")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\xad": ""})
_ITEM = re.compile(r"[•‣▪◦●○■□–—*·-]\s|[(\[]?(?:\d{1,3}|[a-zA-Z])[.)\]]\s")
_UNSPACED = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]")
_SENTENCE_ENDS = tuple('.!?:…。！？”"»')
_FULL = 0.75
"""Of the page's longer lines: a line that reaches so far was broken for want of room."""

_NUMBERING = re.compile(
    r"(?:(?:chapter|part|section|appendix|kapitel|teil|anhang|chapitre)\s+)?(?:[a-z]|[ivxlc]+|\d+)?(?:\.\d+)*[.):]?\s+",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?\s*(?:(Z)|([+-]\d\d)'?(\d\d)?)?")
_PROGRAM = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel|Office\w*)\s+-\s+", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"\S.*\.(?:pdf|docx?|dotx?|rtf|odt|pptx?|xlsx?|tex|dvi|e?ps|ai|indd|qxd|pub|pages|html?|txt|tiff?|jpe?g|png)"
    r"|untitled.{0,20}|unbenannt.{0,20}|no title|(?:document|dokument|slide|layout|title)\s*\d*|[\W\d_]*",
    re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Bookmark:
    page: int
    level: int
    title: str


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a PDF; raises InvalidDocument. Text is empty where pages are mere images."""
    document = _opened(content)
    try:
        bookmarks = _bookmarks(document)
        pages = list(_pages(document))
        facts = _facts(document)
    finally:
        document.close()
    text, headings = _composed(_without_hyphens(pages), bookmarks)
    return {"text": text, "headings": headings} | facts


def _opened(content: bytes) -> PdfDocument:
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2 import raw as pdfium

    if b"%PDF-" not in content[:1024]:
        raise InvalidDocument("is no PDF file, whatever its name says")
    try:
        document = PdfDocument(content)
    except PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise InvalidDocument("is encrypted: ingest a copy that opens without a password") from None
        raise InvalidDocument("is a damaged PDF file: it cannot be opened") from None
    if len(document) > MOST_PAGES:
        raise InvalidDocument(f"has {len(document)} pages, more than {MOST_PAGES}: split it")
    return document


def _pages(document: PdfDocument) -> Iterator[str]:
    """The text of each page, with "\\r\\n" between lines."""
    from pypdfium2 import PdfiumError

    room = MOST_CHARACTERS
    for number in range(len(document)):
        try:
            page = document[number]
            text = page.get_textpage().get_text_bounded(-_EVERYWHERE, -_EVERYWHERE, _EVERYWHERE, _EVERYWHERE)
        except PdfiumError:
            raise InvalidDocument(f"is a damaged PDF file: page {number + 1} cannot be read") from None
        page.close()
        room -= len(text)
        if room < 0:
            raise InvalidDocument(f"has more than {MOST_CHARACTERS >> 20} million characters of text: split it")
        yield text


def _bookmarks(document: PdfDocument) -> list[_Bookmark]:
    """The outline in the order of its pages; those that lead to none are left out."""
    found: list[_Bookmark] = []
    for each in islice(document.get_toc(), MOST_BOOKMARKS):
        target = each.get_dest()
        page = None if target is None else target.get_index()
        title = _value(each.get_title())
        if page is not None and page < len(document) and title:
            found.append(_Bookmark(page, each.level + 1, title))
    return sorted(found, key=lambda bookmark: bookmark.page)


def _facts(document: PdfDocument) -> dict[str, Any]:
    """What the document says of itself, as far as it says anything."""
    said = {
        key: _value(document.get_metadata_value(key))
        for key in ("Title", "Author", "Subject", "Keywords", "ModDate", "CreationDate")
    }
    created = _date(said["CreationDate"])
    metadata = {
        "author": said["Author"],
        "subject": said["Subject"],
        "keywords": [word for word in map(str.strip, re.split("[,;]", said["Keywords"])) if word],
        "created": created,
    }
    facts = {
        "title": _title(said["Title"]),
        "language": _language(document),
        "updated_at": _date(said["ModDate"]) or created,
    }
    return {name: value for name, value in facts.items() if value} | {
        "metadata": {name: value for name, value in metadata.items() if value}
    }


def _language(document: PdfDocument) -> str:
    from pypdfium2 import raw as pdfium

    size = pdfium.FPDFCatalog_GetLanguage(document, None, 0)
    if not 2 < size <= 2 * LONGEST_LANGUAGE:
        return ""
    buffer = (ctypes.c_ushort * size)()
    pdfium.FPDFCatalog_GetLanguage(document, buffer, size)
    return _value(bytes(buffer)[: size - 2].decode("utf-16-le", "ignore"))


def _value(text: str) -> str:
    return " ".join(_UNWRITTEN.sub("", text[:LONGEST_VALUE]).split())


def _title(text: str) -> str | None:
    """A title, unless it is what a program wrote there for want of one."""
    text = _PROGRAM.sub("", text)
    return None if _NO_TITLE.fullmatch(text) else text


def _date(text: str) -> str | None:
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, utc, offset, minutes = match.groups()
    zone = "Z" if utc or not offset else f"{offset}:{minutes or '00'}"
    return f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"


def _without_hyphens(pages: Sequence[str]) -> list[str]:
    """Words that a line's end has parted, whole again; the document's other words say which keep their hyphen."""
    if not any(mark in page for page in pages for mark in _HYPHENS):
        return [_clean(page) for page in pages]
    words: Counter[str] = Counter()
    for page in pages:
        words.update(word.casefold() for word in _WORD.findall(_HYPHEN.sub(" ", page)))

    def joined(match: re.Match[str]) -> str:
        first, second = match.groups()
        whole, parted = first + second, f"{first}-{second}"
        if words[whole.casefold()] > words[parted.casefold()]:
            return whole
        are_words = words[first.casefold()] and words[second.casefold()]
        is_compound = words[parted.casefold()] or not second[:1].islower() or are_words
        return parted if is_compound else whole

    return [_clean(_HYPHEN.sub(joined, page)) for page in pages]


def _clean(text: str) -> str:
    return _UNWRITTEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_LIGATURES)


def _composed(pages: Sequence[str], bookmarks: Sequence[_Bookmark]) -> tuple[str, list[list[Any]]]:
    """The whole text and its headings; without bookmarks each of several pages is a section."""
    waiting = deque(bookmarks)
    parts: list[str] = []
    headings: list[list[Any]] = []
    length = 0
    for number, page in enumerate(pages):
        lines = [line.strip() for line in page.split("\n")]
        own = []
        while waiting and waiting[0].page == number:
            own.append(waiting.popleft())
        places = _places(lines, own)
        text, starts = _paragraphs(lines, frozenset(places))
        gap = "\n\n" if length and text else ""
        start = length + len(gap)
        headings += [
            [start + starts[at], bookmark.level, bookmark.title] for at, bookmark in zip(places, own, strict=True)
        ]
        if not bookmarks and len(pages) > 1 and text:
            headings.append([start, 1, f"Page {number + 1}"])
        parts.append(gap + text)
        length = start + len(text)
    return "".join(parts), headings


def _places(lines: Sequence[str], bookmarks: Sequence[_Bookmark]) -> list[int]:
    """For each bookmark the line of its page that says the same, in order; where none does, the place before it."""
    if not bookmarks:
        return []
    known: dict[str, list[int]] = {}
    keys = [_key(line) for line in lines]
    for at, key in enumerate(keys):
        for said in {key, key + (keys[at + 1] if at + 1 < len(keys) else "")}:
            known.setdefault(said, []).append(at)
    places: list[int] = []
    place = after = 0
    for bookmark in bookmarks:
        saying = known.get(_key(bookmark.title), [])
        following = bisect_left(saying, after)
        if following < len(saying):
            place = saying[following]
            after = place + 1
        places.append(place)
    return places


def _key(line: str) -> str:
    """The letters of a heading, without its number."""
    line = line[:LONGEST_VALUE]
    number = _NUMBERING.match(line)
    return re.sub(r"\W+", "", line[number.end() :] if number else line).casefold()


def _paragraphs(lines: Sequence[str], headings: frozenset[int]) -> tuple[str, dict[int, int]]:
    """Lines as paragraphs, and where the lines that are headings start in them."""
    lengths = sorted(map(len, filter(None, lines)))
    width = lengths[len(lengths) * 9 // 10] if lengths else 0
    parts: list[str] = []
    starts: dict[int, int] = {}
    length = 0
    before = ""
    gap = ""
    for at, line in enumerate(lines):
        if at in headings:
            gap = "\n\n"
        elif line and before and not gap:
            gap = _gap(before, line, width)
        if not line:
            gap = "\n\n"
        elif length:
            parts.append(gap)
            length += len(gap)
        if at in headings:
            starts[at] = length
        if line:
            parts.append(line)
            length += len(line)
            before, gap = line, "\n\n" if at in headings else ""
    return "".join(parts), starts


def _gap(line: str, following: str, width: int) -> str:
    """What parts two lines: nothing or a space inside a paragraph, else a line end or a blank line."""
    is_full = len(line) >= _FULL * width
    is_ended = line.endswith(_SENTENCE_ENDS)
    if _ITEM.match(following):
        return "\n"
    if is_full or (following[0].islower() and not is_ended):
        if line[-1] == "-" or (_UNSPACED.match(line[-1]) and _UNSPACED.match(following[0])):
            return ""
        return " "
    return "\n\n" if is_ended else "\n"
