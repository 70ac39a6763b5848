"""What stands on PDF pages beside their text: running heads, contents, indexes; and the title on the first page.

Contents and indexes are known by their page numbers, which exist in the document and are in order (or their terms are),
so that price lists and tables of numbers stay. Running heads are known by page numbers that grow with the pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_PAGES = r"\d{1,4}(?:\s?[-–]\s?\d{1,4})?"
_LEADERS = ".·…"
_MIN_LEADERS = 4
_PAGE_LIST = re.compile(rf"{_PAGES}(?:,\s?{_PAGES})*|[ivxlc]{{1,6}}")

_ENTRY = re.compile(rf"(\S.{{0,80}}?),\s({_PAGES}(?:,\s?{_PAGES})*),?$")
"""A line of an index without dots."""

_ENTRY_PART = re.compile(rf"\W?\s?\w{{1,20}}$|\S.{{0,80}},$|{_PAGES}(?:,\s?{_PAGES})*,?$|\S.{{0,60}}, see .*$")
"""A letter, a keyword, a term whose pages follow on the next line, or such pages."""

_MIN_ENTRIES = 3
_ENTRY_SHARE = 0.6
"""Lines of a page of an index that are entries or parts of entries."""

_MIN_HEADED_PAGES = 4
_MIN_BOOK_PAGES = 10
_MAX_HEAD_CHARACTERS = 120
_NUMBER_FIRST = re.compile(r"(\d{1,4})(?:\s+(.*))?$")
_NUMBER_LAST = re.compile(r"(?:(.*\S)\s+)?(\d{1,4})$")
_ROMAN = re.compile(r"[ivxlc]{1,6}$")

_MAX_TITLE_LENGTH = 200
_MAX_SCANNED_CHARACTERS = 3000
_LARGER = 1.15
"""The type of a title by the smallest of its page: smaller type is not a title."""

_SAME = 0.95
"""Lines of at least this share of the largest type are of one title."""


def strip_page_furniture(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """The lines of each page without running heads, contents and index; all of them if nothing else is there."""
    heads = [head for line in (0, -1) if (head := _find_head(pages, line))]
    stripped: list[list[str]] = []
    is_listed = False
    for number, lines in enumerate(pages):
        own = _strip_heads(lines, number, heads)
        stripped.append(_strip_lists(own, len(pages), 1 if is_listed else _MIN_ENTRIES))
        is_listed = any(own) and not any(stripped[-1])
    return stripped if any(any(lines) for lines in stripped) else [list(lines) for lines in pages]


@dataclass(frozen=True, slots=True)
class _Head:
    """Running heads: which line of a page (0 or -1), its page number minus the number of the page, repeated words."""

    line: int
    offset: int
    words: frozenset[str]
    is_book: bool
    """Whether the number stands right on all pages, or left on some of many: words of one page alone go, too."""


def _find_head(pages: Sequence[Sequence[str]], line: int) -> _Head | None:
    numbered: list[tuple[int, str, bool]] = []
    for number, lines in enumerate(pages):
        numbered += [
            (value - number, words, is_first)
            for text, _ in _edges(lines, line)
            for value, words, is_first in _numbers(text)
        ]
    offsets = Counter(offset for offset, _, _ in numbered)
    offset, count = offsets.most_common(1)[0] if offsets else (0, 0)
    if count < _MIN_HEADED_PAGES or 3 * count < len(pages):
        return None
    words = Counter(words for found, words, _ in numbered if found == offset)
    firsts = sum(is_first for found, words, is_first in numbered if found == offset and words)
    lasts = sum(not is_first for found, words, is_first in numbered if found == offset and words)
    repeated = frozenset(each for each, times in words.items() if times > 1 or not each)
    is_book = count >= _MIN_BOOK_PAGES and 2 * count > len(pages)
    return _Head(line, offset, repeated, is_book and (4 * min(firsts, lasts) > max(firsts, lasts) or not firsts))


def _edges(lines: Sequence[str], line: int) -> Iterator[tuple[str, Sequence[int]]]:
    """The first line of a page (or the last, -1), and the first two if one of them is a number, with their places."""
    places = [place for place, text in enumerate(lines) if text]
    pair = places[:2] if line == 0 else places[-2:]
    found = [[places[line]]] if places else []
    if len(places) > 2 and sum(lines[place].isdigit() for place in pair) == 1 and not lines[places[line]].isdigit():
        found.append(pair)
    for each in found:
        text = " ".join(lines[place] for place in each)
        if len(text) <= _MAX_HEAD_CHARACTERS:
            yield text, each


def _numbers(text: str) -> Iterator[tuple[int, str, bool]]:
    """The number at the beginning and at the end of a line, the other words, and whether it is at the beginning."""
    first, last = _NUMBER_FIRST.match(text), _NUMBER_LAST.match(text)
    if first:
        yield int(first[1]), first[2] or "", True
    if last and not (first and not last[1]):
        yield int(last[2]), last[1] or "", False


def _strip_heads(lines: Sequence[str], number: int, heads: Sequence[_Head]) -> list[str]:
    body = list(lines)
    for head in heads:
        for text, places in _edges(body, head.line):
            is_head = _ROMAN.match(text) is not None or any(
                value - number == head.offset and (words in head.words or head.is_book)
                for value, words, _ in _numbers(text)
            )
            if is_head:
                for place in places:
                    body[place] = ""
                break
    return body


def _strip_lists(lines: Sequence[str], pages: int, least: int) -> list[str]:
    """The lines of a page without those of contents and of an index of at `least` so many entries.

    `pages` is the number of pages of the document.
    """
    leaders = {place: entry for place, line in enumerate(lines) if (entry := _split_leaders(line))}
    if len(leaders) >= least and _is_list(list(leaders.values()), pages):
        return _strip_leaders(lines, sorted(leaders))
    texts = [line for line in lines if line]
    entries = [match for line in texts if (match := _ENTRY.match(line))]
    parts = sum(_ENTRY.match(line) is None and _ENTRY_PART.match(line) is not None for line in texts)
    is_index = (
        len(entries) >= 2 * least
        and len(entries) + parts >= _ENTRY_SHARE * len(texts)
        and (3 * len(entries) >= len(texts))
    )
    if is_index and _is_list([(match[1], match[2]) for match in entries], pages):
        return []
    return list(lines)


def _split_leaders(line: str) -> tuple[str, str] | None:
    """The words and the page numbers of a line of contents or of an index, between which dots lead; else None."""
    last = max(map(line.rfind, _LEADERS))
    words = line[: last + 1].rstrip(_LEADERS + " \t")
    dots = sum(map(line[len(words) : last + 1].count, _LEADERS))
    pages = line[last + 1 :].strip()
    return (words, pages) if dots >= _MIN_LEADERS and _PAGE_LIST.fullmatch(pages) else None


def _strip_leaders(lines: Sequence[str], leaders: Sequence[int]) -> list[str]:
    """The lines without those with leaders, those between two of them, and the title and the letters of the list."""
    left_out = set(leaders)
    for leader, following in pairwise(leaders):
        if following - leader <= 3:
            left_out.update(range(leader, following))
    rest = [place for place, line in enumerate(lines) if len(line) > 2 and place not in left_out]
    if 2 * len(rest) < len(leaders):
        return []
    return [line for place, line in enumerate(lines) if place not in left_out]


def _is_list(entries: Sequence[tuple[str, str]], pages: int) -> bool:
    """Whether entries have page numbers of a document of so many pages, in order, or have terms in order."""
    numbers = [int(match[0]) for _, found in entries if (match := re.match(r"\d+", found))]
    if any(number > pages + 50 for number in numbers):
        return False
    words = [re.sub(r"\W+", "", words).casefold() for words, _ in entries]
    return _is_ordered(numbers, 0.9) or _is_ordered([word for word in words if word], 0.7)


def _is_ordered(values: Sequence[int] | Sequence[str], share: float) -> bool:
    steps = list(pairwise(values))
    return sum(number <= other for number, other in steps) >= share * len(steps)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class _PageLine:
    text: str
    size: float
    """Points, the median of its characters."""


def find_page_title(page: PdfPage) -> str | None:
    """The lines in the largest type of a page; None if all of the page is in one type, or for too many words."""
    lines = [line for line in _read_lines(page) if line.text.strip()]
    if not lines:
        return None
    largest = max(line.size for line in lines)
    if largest < _LARGER * min(line.size for line in lines):
        return None
    groups = groupby(lines, lambda line: line.size >= _SAME * largest)
    words = next(" ".join(line.text.strip() for line in group) for is_title, group in groups if is_title)
    return words if len(words) <= _MAX_TITLE_LENGTH and sum(map(str.isalpha, words)) > 1 else None


def _read_lines(page: PdfPage) -> Iterator[_PageLine]:
    """The horizontal lines of a page, each with the height of its type."""
    from ctypes import byref

    from pypdfium2 import raw as pdfium

    text_page = page.get_textpage()
    characters: list[str] = []
    sizes: list[float] = []
    box = pdfium.FS_RECTF()
    for index in range(min(text_page.count_chars(), _MAX_SCANNED_CHARACTERS)):
        character = chr(pdfium.FPDFText_GetUnicode(text_page, index))
        if character in "\r\n":
            if sizes:
                yield _PageLine("".join(characters), median(sizes))
            characters, sizes = [], []
            continue
        if abs(pdfium.FPDFText_GetCharAngle(text_page, index)) > 0.1 and not character.isspace():
            continue
        characters.append(character)
        if not character.isspace() and pdfium.FPDFText_GetLooseCharBox(text_page, index, byref(box)):
            sizes.append(abs(box.top - box.bottom))
    if sizes:
        yield _PageLine("".join(characters), median(sizes))
