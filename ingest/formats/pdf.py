"""PDF as text: pages in PDFium's reading order, lines joined into paragraphs, bookmarks as headings.

Running heads, contents and indexes are left out (pdf_pages.py). Tables with ruled cells are tables of Markdown
(pdf_cells.py); rows of others are lines (pdf_lines.py).

Runs in the sandbox's child; knows no file.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.pdf_cells import LastTable, write_tables
from aidre.ingest.formats.pdf_lines import UNSPACED, TableLines, find_table_lines, is_ruled, order_ligatures
from aidre.ingest.formats.pdf_pages import find_page_title, strip_page_furniture

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

MAX_PAGES = 20_000
MAX_BOOKMARKS = 10_000
MAX_CHARACTERS = 16 << 20
MAX_VALUE_CHARACTERS = 1000
"""Characters of a title, a property or a bookmark; further ones are cut off."""

MAX_LANGUAGE_CHARACTERS = 40
_PAGE_BOUND = 1e6
"""Points from the origin, beyond the edge of any page."""

_HYPHENS = "\x02\ufffe"
"""PDFium's characters for a hyphen at a line's end, which the next line follows without a line break."""

_SPLIT_WORD = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")
"""A hyphen at the end of a line as OCR gives it."""

_HYPHEN = re.compile(rf"(\w{{0,40}}[^\W\d_])[{_HYPHENS}](\w{{0,40}})")
_WORD = re.compile(r"\w+(?:-\w+)*")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff\ufffe\uffff]")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\xad": ""})
_ITEM = re.compile(r"[•‣▪◦●○■□–—*·-]\s|[(\[]?(?:\d{1,3}|[a-zA-Z])[.)\]]\s")
_UNSPACED = re.compile(UNSPACED)
_SENTENCE_ENDS = tuple('.!?:…。！？”"»')
_SENTENCE_END = re.compile(r"[.!?…]\s+")
_MAX_SENTENCE_CHARACTERS = 1000
"""Characters of a page in which a sentence of the page before it may end; the section of the page begins behind it."""

_FULL_LINE = 0.75
"""Share of the length of the page's longer lines: a line of at least this length was wrapped."""

_NUMBERING = re.compile(
    r"(?:(?:chapter|part|section|appendix|kapitel|teil|anhang|chapitre)\s+)?(?:[a-z]|[ivxlc]+|\d+)?(?:\.\d+)*[.):]?\s+",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?\s*(?:(Z)|([+-]\d\d)'?(\d\d)?)?")
_PROGRAM = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel|Office\w*)\s+-\s+", re.IGNORECASE)
_PLACEHOLDER_TITLE = re.compile(
    r"\S.*\.(?:pdf|docx?|dotx?|rtf|od[tpsg]|pp[st]x?|xls[xm]?|tex|dvi|e?ps|ai|indd|qxd|pub|pages|key|numbers|html?|txt|"
    r"csv|md|vsdx?|tiff?|jpe?g|png|svg)"
    r"|\(?(?:anonymous|unspecified|unknown|none|null|no title)\)?|(?:untitled|unbenannt|sans titre|sin título).{0,20}"
    r"|(?:(?:microsoft )?powerpoint[ -]pr(?:e|ä|é)sentation|pr(?:e|ä|é)sentation|presentaci[oó]n|book|workbook|mappe|"
    r"classeur|libro|sheet|tabelle|document|dokument|documento|slide|folie|layout|title|print|scan)\s*\d*|[\W\d_]*",
    re.IGNORECASE,
)  # fmt: skip
_NO_PAGE_TITLE = re.compile(
    r"(?:table of )?contents?|inhalt(?:sverzeichnis)?|sommaire|table des matières|índice|indice|index|[a-zà-ÿ]\S*\.",
    re.IGNORECASE,
)
"""Large type that is not a title: the heading of a list of contents, and the only word of a line."""


@dataclass(frozen=True, slots=True)
class _Bookmark:
    page: int
    level: int
    title: str


class _PdfPage(NamedTuple):
    """The text has "\\r\\n" between lines."""

    text: str
    tables: TableLines
    is_picture: bool


_NO_PAGE = _PdfPage("", TableLines(), is_picture=True)


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text, headings and metadata of a PDF; raises InvalidDocument.

    `pictures` are the indexes of pages that are images without a text, but for those whose text the option `scanned`
    has, by index. The option `unread` is the number of those that OCR has left out, which the notice does not count.
    """
    scanned = {int(number): text for number, text in (options.get("scanned") or {}).items()}
    document = _open(content)
    try:
        bookmarks = _read_bookmarks(document)
        read = [_with_scan(page, scanned.get(number)) for number, page in enumerate(_read_pages(document))]
        properties = _read_properties(document)
        if "title" not in properties:
            properties |= _find_title(document, bookmarks)
    finally:
        document.close()
    answer = _join(read, bookmarks) | properties
    pictures = [number for number, page in enumerate(read) if page.is_picture]
    if scanned:
        answer["notice"] = _describe_scans(len(scanned), len(pictures) - options.get("unread", 0))
    elif pictures:
        answer |= {"notice": _describe_pictures(len(pictures), len(read)), "pictures": pictures}
    return answer


def join_scan(content: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Text and headings of images, from the lines that OCR found on each."""
    return _join([_with_scan(_NO_PAGE, text) for text in options["pages"]], ())


def _with_scan(page: _PdfPage, text: str | None) -> _PdfPage:
    """The page with the text that OCR found on it, if it did."""
    if not text:
        return page
    return page._replace(text=_SPLIT_WORD.sub(_HYPHENS[0], text).replace("\n", "\r\n"), is_picture=False)


def _join(pages: Sequence[_PdfPage], bookmarks: Sequence[_Bookmark]) -> dict[str, Any]:
    joined = _join_hyphenated([page.text for page in pages])
    lines = [[line.strip() for line in page.split("\n")] for page in joined]
    text, headings = _join_pages(strip_page_furniture(lines), bookmarks, [page.tables for page in pages])
    return {"text": text, "headings": headings}


def _describe_pictures(pictures: int, pages: int) -> str:
    need = "1 page needs OCR (--ocr)" if pictures == 1 else f"{pictures:,} pages need OCR (--ocr)"
    return f"no text: {need}" if pictures == pages else f"{need}: of {pages:,} pages they have no text"


def _describe_scans(scanned: int, left: int) -> str:
    read = "OCR read 1 page" if scanned == 1 else f"OCR read {scanned:,} pages"
    return f"{read}, and found no text on {left:,} more" if left > 0 else read


def _open(content: bytes) -> PdfDocument:
    from pypdfium2 import PdfDocument, PdfiumError, raw as pdfium

    if b"%PDF-" not in content[:1024]:
        raise InvalidDocument("is not a PDF file, whatever its name says")
    try:
        document = PdfDocument(content)
    except PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise InvalidDocument("is encrypted: ingest a copy that opens without a password") from None
        raise InvalidDocument("is a damaged PDF file: it cannot be opened") from None
    if len(document) > MAX_PAGES:
        raise InvalidDocument(f"has {len(document)} pages, more than {MAX_PAGES}: split it")
    return document


def _read_pages(document: PdfDocument) -> Iterator[_PdfPage]:
    """Raises InvalidDocument."""
    from pypdfium2 import PdfiumError

    budget = MAX_CHARACTERS
    last: LastTable | None = None
    for number in range(len(document)):
        try:
            page = document[number]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded(-_PAGE_BOUND, -_PAGE_BOUND, _PAGE_BOUND, _PAGE_BOUND)
            text = order_ligatures(text, text_page)
            tables = find_table_lines(text_page)
            text, last = write_tables(text, page, text_page, last)
            is_picture = not text.strip() and _has_picture(page)
        except PdfiumError:
            raise InvalidDocument(f"is a damaged PDF file: page {number + 1} cannot be read") from None
        page.close()
        budget -= len(text)
        if budget < 0:
            raise InvalidDocument(f"has more than {MAX_CHARACTERS >> 20} million characters of text: split it")
        yield _PdfPage(text, TableLines(*(frozenset(map(_clean_line, lines)) for lines in tables)), is_picture)


def _has_picture(page: PdfPage) -> bool:
    from pypdfium2 import raw as pdfium

    return next(iter(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3)), None) is not None


def _clean_line(line: str) -> str:
    return _clean(line).strip()


def _read_bookmarks(document: PdfDocument) -> list[_Bookmark]:
    """The bookmarks in the order of their pages, without those that lead to no page."""
    bookmarks: list[_Bookmark] = []
    for entry in islice(document.get_toc(), MAX_BOOKMARKS):
        target = entry.get_dest()
        page = None if target is None else target.get_index()
        title = _to_line(entry.get_title())
        if page is not None and page < len(document) and title:
            bookmarks.append(_Bookmark(page, entry.level + 1, title))
    return sorted(bookmarks, key=lambda bookmark: bookmark.page)


def _read_properties(document: PdfDocument) -> dict[str, Any]:
    """Title, language, date and metadata from the document's information dictionary, without empty values."""
    info = {
        key: _to_line(document.get_metadata_value(key))
        for key in ("Title", "Author", "Subject", "Keywords", "ModDate", "CreationDate")
    }
    created = _to_timestamp(info["CreationDate"])
    metadata = {
        "author": info["Author"],
        "subject": info["Subject"],
        "keywords": [word for word in map(str.strip, re.split("[,;]", info["Keywords"])) if word],
        "created": created,
    }
    properties = {
        "title": _clean_title(info["Title"]),
        "language": _read_language(document),
        "updated_at": _to_timestamp(info["ModDate"]) or created,
    }
    return {name: value for name, value in properties.items() if value} | {
        "metadata": {name: value for name, value in metadata.items() if value}
    }


def _read_language(document: PdfDocument) -> str:
    from pypdfium2 import raw as pdfium

    size = pdfium.FPDFCatalog_GetLanguage(document, None, 0)
    if not 2 < size <= 2 * MAX_LANGUAGE_CHARACTERS:
        return ""
    buffer = (ctypes.c_ushort * size)()
    pdfium.FPDFCatalog_GetLanguage(document, buffer, size)
    return _to_line(bytes(buffer)[: size - 2].decode("utf-16-le", "ignore"))


def _to_line(text: str) -> str:
    return " ".join(_INVISIBLE.sub("", text[:MAX_VALUE_CHARACTERS]).split())


def _clean_title(text: str) -> str | None:
    """A title without the name of the program; None for a file name or a placeholder."""
    text = _PROGRAM.sub("", text)
    return None if _PLACEHOLDER_TITLE.fullmatch(text) else text


def _to_timestamp(text: str) -> str | None:
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, utc, offset, minutes = match.groups()
    zone = "Z" if utc or not offset else f"{offset}:{minutes or '00'}"
    return f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"


def _join_hyphenated(pages: Sequence[str]) -> list[str]:
    """Joins words hyphenated at line ends. The document's other words decide which of them keep the hyphen."""
    if not any(mark in page for page in pages for mark in _HYPHENS):
        return [_clean(page) for page in pages]
    words: Counter[str] = Counter()
    for page in pages:
        words.update(word.casefold() for word in _WORD.findall(_HYPHEN.sub(" ", page)))

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        solid, hyphenated = first + second, f"{first}-{second}"
        if words[solid.casefold()] > words[hyphenated.casefold()]:
            return solid
        are_words = words[first.casefold()] and words[second.casefold()]
        is_compound = words[hyphenated.casefold()] or not second[:1].islower() or are_words
        return hyphenated if is_compound else solid

    return [_clean(_HYPHEN.sub(join, page)) for page in pages]


def _clean(text: str) -> str:
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_LIGATURES)


def _find_title(document: PdfDocument, bookmarks: Sequence[_Bookmark]) -> dict[str, str]:
    """The title as it stands in the largest type of the first page, else the only bookmark of the first level."""
    from pypdfium2 import PdfiumError

    title: str | None = None
    with suppress(PdfiumError):
        title = find_page_title(document[0]) if len(document) else None
    title = _clean_title(_to_line(_clean(_HYPHEN.sub(r"\1\2", title or ""))))
    title = None if title is None or _NO_PAGE_TITLE.fullmatch(title) else title
    roots = [bookmark.title for bookmark in bookmarks if bookmark.level == 1]
    title = title or (_clean_title(roots[0]) if len(roots) == 1 else None)
    return {"title": title} if title else {}


def _join_pages(
    pages: Sequence[Sequence[str]], bookmarks: Sequence[_Bookmark], tables: Sequence[TableLines]
) -> tuple[str, list[list[Any]]]:
    """The text and its headings (start, level, title); without bookmarks each of several pages is a section."""
    waiting = deque(bookmarks)
    parts: list[str] = []
    headings: list[list[Any]] = []
    length = 0
    for number, page in enumerate(pages):
        lines = page or [""]
        page_bookmarks = []
        while waiting and waiting[0].page == number:
            page_bookmarks.append(waiting.popleft())
        heading_lines = _find_heading_lines(lines, page_bookmarks)
        text, starts = _join_lines(lines, frozenset(heading_lines), tables[number])
        goes_on = bool(parts) and 0 not in starts.values() and _goes_on(parts[-1], text)
        gap = " " if goes_on else "\n\n" if length and text else ""
        start = length + len(gap)
        headings += [
            [start + starts[line], bookmark.level, bookmark.title]
            for line, bookmark in zip(heading_lines, page_bookmarks, strict=True)
        ]
        if not bookmarks and len(pages) > 1 and text:
            sentence = _SENTENCE_END.search(text, 0, _MAX_SENTENCE_CHARACTERS) if goes_on else None
            headings.append([start + (sentence.end() if sentence else 0), 1, f"Page {number + 1}"])
        if text:
            parts.append(gap + text)
        length = start + len(text)
    return "".join(parts), headings


def _goes_on(page: str, following: str) -> bool:
    """Whether a sentence goes on from the end of a page at the beginning of the next one."""
    return following[:1].islower() and not page.rstrip().endswith((*_SENTENCE_ENDS, "|"))


def _find_heading_lines(lines: Sequence[str], bookmarks: Sequence[_Bookmark]) -> list[int]:
    """For each bookmark the index of the line with its title, in order; without one, the line of the one before it."""
    if not bookmarks:
        return []
    lines_by_key: dict[str, list[int]] = {}
    keys = [_to_key(line) for line in lines]
    for index, key in enumerate(keys):
        for text in {key, key + (keys[index + 1] if index + 1 < len(keys) else "")}:
            lines_by_key.setdefault(text, []).append(index)
    heading_lines: list[int] = []
    line = min_line = 0
    for bookmark in bookmarks:
        matches = lines_by_key.get(_to_key(bookmark.title), [])
        match = bisect_left(matches, min_line)
        if match < len(matches):
            line = matches[match]
            min_line = line + 1
        heading_lines.append(line)
    return heading_lines


def _to_key(line: str) -> str:
    """The letters of a heading, without its number, for comparison."""
    line = line[:MAX_VALUE_CHARACTERS]
    number = _NUMBERING.match(line)
    return re.sub(r"\W+", "", line[number.end() :] if number else line).casefold()


def _join_lines(lines: Sequence[str], headings: frozenset[int], tables: TableLines) -> tuple[str, dict[int, int]]:
    """Lines joined into paragraphs, and the start of each heading in the text by the index of its line."""
    lengths = sorted(len(line) for line in lines if line and not is_ruled(line))
    width = lengths[len(lengths) * 9 // 10] if lengths else 0
    parts: list[str] = []
    starts: dict[int, int] = {}
    length = 0
    before = ""
    gap = ""
    for index, line in enumerate(lines):
        if index in headings:
            gap = "\n\n"
        elif line and before and not gap:
            gap = "\n" if tables.are_apart(before, line) else _find_gap(before, line, width)
        if not line:
            gap = "\n\n"
        elif length:
            parts.append(gap)
            length += len(gap)
        if index in headings:
            starts[index] = length
        if line:
            parts.append(line)
            length += len(line)
            before, gap = line, "\n\n" if index in headings else ""
    return "".join(parts), starts


def _find_gap(line: str, following: str, width: int) -> str:
    """The separator of two lines: nothing or a space inside a paragraph, else a line end or a blank line."""
    is_full = len(line) >= _FULL_LINE * width
    is_ended = line.endswith(_SENTENCE_ENDS)
    if _ITEM.match(following):
        return "\n"
    if is_full or (following[0].islower() and not is_ended):
        if line[-1] == "-" or (_UNSPACED.match(line[-1]) and _UNSPACED.match(following[0])):
            return ""
        return " "
    return "\n\n" if is_ended else "\n"
