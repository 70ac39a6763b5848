"""Counts what a reader would call wrong in chunks and titles made from real documents.

Each count is of chunks, or of titles, that show a fault. The measures know neither the readers nor the chunker: they
look at the texts, at the file itself (`ingest/markup.py`), and at what the documents of a source have in common.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from aidre.engine.index.text import strip_layout
from aidre.engine.model import Chunk, Document
from benchmarks.ingest.markup import Markup, Table

CountTokens: TypeAlias = Callable[[Sequence[str]], Sequence[int]]

CHUNK_FAULTS: Final = {
    "anchors": "attributes of headings, as `{#anchor}`",
    "directives": "lines for a site generator: includes, containers, comments, tags of components",
    "pilcrows": "signs of permalinks",
    "navigation": "links to other pages, and lines that many pages of a folder begin or end with",
    "admonitions": "a section that is named Note, Tip or Warning",
    "contents": "lines of a table of contents or of an index with page numbers",
    "tables": "a row on several lines, a row that is cut, a short table that is cut",
    "code": "a short code block that is cut, a longer one that is cut inside a line",
    "sentences": "a chunk that begins inside a sentence that is shorter than a chunk",
}
TITLE_FAULTS: Final = {
    "stems": "no title, or the file's name",
    "tails": "a title with the name of the site",
}
LOST: Final = {"lost": "a paragraph of the file that no chunk holds"}

WHOLE_TOKENS: Final = 160
"""A code block or table of at most so many tokens fits into one chunk, whatever its title and section are."""

_MIN_CHARACTERS: Final = 12
"""Characters without white space of a block or row that is searched: a shorter one is found by chance."""

_ATTRIBUTES: Final = re.compile(r"\{:?\s*[#.][\w:.-]+[^{}\n]*\}\s*(?=$|>)", re.MULTILINE)
_DIRECTIVE: Final = re.compile(
    r"""^[ \t>]*(?: :{3,}.* | /{3}(?:[ \t][\w|&;, \t-].*)? | \{[*%!]\s.*[*%!]\} | \{\{\s?\#\w+.*\}\} | <!--.*
      | </?(?:[A-Z]\w*|script|div|sup|figure)(?:[ \t\n][^<>]*)?/?> )[ \t]*$
      | <(?:sup|span|Badge|Listing)[ \t][^<>]*class= | <Listing """,
    re.MULTILINE | re.VERBOSE,
)
_PILCROW: Final = re.compile(r"[\w)\]\"'.:?!][ \t]*¶(?=\s|$)")
_ADMONITIONS: Final = frozenset(
    {
        "Note", "NOTE", "Tip", "TIP", "Warning", "WARNING", "Caution", "CAUTION", "Important", "IMPORTANT",
        "Hint", "Danger", "Info", "Attention", "注意", "提示", "警告", "Remarque", "Astuce", "Avertissement",
        "Hinweis", "Tipp", "Warnung", "Nota", "Consejo", "Advertencia", "Замечание", "Совет", "ملاحظة",
    }
)  # fmt: skip
"""Names of boxes; in small letters they may be names of functions."""

_LEADERS: Final = re.compile(r"(?:\.[ \t]?){8,}[ \t]*(?:\d{1,4}|[ivxlc]{1,6})\b")
_LISTED: Final = re.compile(r"^(\S.{0,70}?)[ .,]+(\d{1,4}(?:, ?\d{1,4})*)$")
_SENTENCE_END: Final = re.compile(r"(?:[.!?…؟۔][)\"'”’»]*\s)|[。！？]|\n[ \t\r]*\n")
_PROSE: Final = re.compile(r"[,;)]|[^\W\d_]+[,;:.]? \(?[^\W\d_]+[,;:.)]*(?:\s|$)")
"""The beginning of prose on a new line: two words; of code, one of them has other signs."""

_BLANK: Final = re.compile(r"\n[ \t\r]*\n")
_GAP: Final = 200
"""Characters before a chunk in which the end of the text before it is sought."""

_EDGE_LINES: Final = 3
_EDGE_SHARE: Final = 0.4
_TAIL: Final = re.compile(r"\s[-–—|·:«»]\s|:\s")
_ENDS: Final = frozenset(".!?:;…。！？：；؟۔।)]}>\"'”’»」』）*_`|،")
_GRAVE: Final = re.compile(r"^ {0,3}(?:`{3,}|~{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document, its chunks, and what its file says."""

    document: Document
    chunks: tuple[Chunk, ...]
    markup: Markup = field(default_factory=Markup)


@dataclass(frozen=True, slots=True)
class Faults:
    """The chunks and titles of a source, and how many of them show each fault, with some places of each."""

    chunks: int
    titles: int
    counts: Mapping[str, int]
    places: Mapping[str, Sequence[str]]
    paragraphs: int = 0
    """Paragraphs of the files, of which `counts["lost"]` are in no chunk."""

    def share(self, fault: str) -> float:
        """Of all chunks, of all titles, or of all paragraphs; 0 without any."""
        total = {**dict.fromkeys(TITLE_FAULTS, self.titles), "lost": self.paragraphs}.get(fault, self.chunks)
        return self.counts[fault] / total if total else 0.0


def count_faults(documents: Sequence[ReadDocument], count: CountTokens) -> Faults:
    """The faults of the documents of one source that have any text; `count` gives the tokens of texts."""
    found: dict[str, list[str]] = {fault: [] for fault in (*CHUNK_FAULTS, *TITLE_FAULTS, *LOST)}
    documents = [read for read in documents if read.chunks]
    repeated = _repeated_edges(documents)
    tails = _common_tails([read.document.title or "" for read in documents])
    for read in documents:
        title = read.document.title or ""
        if not title.strip() or title == PurePosixPath(read.document.origin).stem:
            found["stems"].append(f"{read.document.origin}: {title!r}")
        if any(title.endswith(tail) for tail in tails):
            found["tails"].append(f"{read.document.origin}: {title!r}")
        text = _without_notes("".join(_squeeze(chunk.text) for chunk in read.chunks))
        found["lost"] += [
            f"{read.document.origin}: {paragraph[:200]!r}"
            for paragraph in read.markup.paragraphs
            if _without_notes(_squeeze(strip_layout(paragraph))) not in text
        ]
        for fault, numbers in _chunk_faults(read, repeated, count).items():
            found[fault] += [f"{read.chunks[number].id}: {read.chunks[number].text[:200]!r}" for number in numbers]
    chunks = sum(len(read.chunks) for read in documents)
    paragraphs = sum(len(read.markup.paragraphs) for read in documents)
    counts = {fault: len(places) for fault, places in found.items()}
    return Faults(chunks, len(documents), counts, found, paragraphs)


def _chunk_faults(read: ReadDocument, repeated: frozenset[str], count: CountTokens) -> dict[str, list[int]]:
    """The numbers of the chunks of a document that show each fault, from 0."""
    layout = _Layout(read)
    text = read.document.text
    code = _merge(layout.spans(block) for block in read.markup.code)
    links = frozenset(read.markup.links)
    numbers = {
        "anchors": layout.chunks_at(_outside(code, _ATTRIBUTES.finditer(text)))
        | {index for index, chunk in enumerate(read.chunks) if _ATTRIBUTES.search((chunk.section or "") + ">")},
        "directives": layout.chunks_at(_outside(code, _DIRECTIVE.finditer(text))) if _is_markdown(read) else set(),
        "pilcrows": layout.chunks_at(_outside(code, _PILCROW.finditer(text)))
        | {index for index, chunk in enumerate(read.chunks) if "¶" in (chunk.section or "")},
        "navigation": {
            index
            for index, chunk in enumerate(read.chunks)
            if shows_navigation(chunk.text, links) or not repeated.isdisjoint(map(_squeeze, chunk.text.splitlines()))
        },
        "admonitions": {index for index, chunk in enumerate(read.chunks) if _is_admonition(chunk.section)},
        "contents": {index for index, chunk in enumerate(read.chunks) if shows_contents(chunk.text)},
        "tables": layout.cut_tables(read.markup.tables, count),
        "code": layout.cut_code(read.markup.code, count),
        "sentences": {index for index in range(len(read.chunks)) if _begins_inside(read, index, code, count)},
    }
    return {fault: sorted(indexes) for fault, indexes in numbers.items()}


class _Layout:
    """Where passages stand in a document, whatever their white space, and in which chunks."""

    def __init__(self, read: ReadDocument) -> None:
        self._text = read.document.text
        self._places = [place for place, character in enumerate(self._text) if not character.isspace()]
        self._solid = "".join([self._text[place] for place in self._places])
        self._starts = [chunk.start for chunk in read.chunks]
        self._ends = [chunk.end for chunk in read.chunks]
        self._after: dict[str, int] = {}

    def spans(self, passage: str) -> list[tuple[int, int]]:
        """Where a passage stands; a second call with the same passage finds its next place."""
        solid = _squeeze(passage)
        at = self._solid.find(solid, self._after.get(solid, 0)) if len(solid) >= _MIN_CHARACTERS else -1
        if at < 0:
            return []
        self._after[solid] = at + 1
        return [(self._places[at], self._places[at + len(solid) - 1] + 1)]

    def chunks_at(self, places: Iterable[int]) -> set[int]:
        return {index for place in places if (index := self._chunk_at(place)) is not None}

    def _chunk_at(self, place: int) -> int | None:
        for index, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            if start <= place < end:
                return index
        return None

    def cuts(self, start: int, end: int) -> list[int]:
        """The chunks that begin inside a span."""
        return [index for index, begin in enumerate(self._starts) if start < begin < end]

    def cut_code(self, blocks: Sequence[str], count: CountTokens) -> set[int]:
        found: set[int] = set()
        self._after.clear()
        sizes = _tokens(blocks, count)
        for block, size in zip(blocks, sizes, strict=True):
            for start, end in self.spans(block):
                cuts = self.cuts(start, end)
                found.update(index for index in cuts if size <= WHOLE_TOKENS or not self._begins_line(index))
        return found

    def cut_tables(self, tables: Sequence[Table], count: CountTokens) -> set[int]:
        found: set[int] = set()
        self._after.clear()
        sizes = _tokens([_text_of(table) for table in tables], count)
        for table, size in zip(tables, sizes, strict=True):
            for start, end in self.spans(_text_of(table)):
                found.update(self.cuts(start, end) if size <= WHOLE_TOKENS else ())
            for row in table.rows:
                for start, end in self.spans("".join(row)):
                    found.update(self.cuts(start, end))
                    if self._is_scattered(row, start):
                        found.update(self.chunks_at([start]))
        return found

    def _begins_line(self, index: int) -> bool:
        start = self._starts[index]
        before = self._text[max(0, start - _GAP) : start]
        return "\n" in before[len(before.rstrip()) :]

    def _is_scattered(self, row: Sequence[str], start: int) -> bool:
        """Whether there is a line end between two cells."""
        position = start
        for cell in row:
            solid = _squeeze(cell)
            if not solid:
                continue
            gap = position
            while position < len(self._text) and self._text[position].isspace():
                position += 1
            if gap > start and "\n" in self._text[gap:position]:
                return True
            for _ in solid:
                while position < len(self._text) and self._text[position].isspace():
                    position += 1
                position += 1
        return False


def shows_navigation(text: str, links: frozenset[str]) -> bool:
    """Whether two links to other pages stand beside each other, and nothing else does."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    solid = {_squeeze(link) for link in links}
    whole = [_squeeze(line) in solid for line in lines]
    if any(whole[index] and any(whole[index + 1 : index + 3]) for index in range(len(lines))):
        return True
    for line in lines:
        covered, rest = 0, line
        for link in sorted((link for link in links if link in line), key=len, reverse=True):
            before = rest
            rest = re.sub(rf"(?<!\w){re.escape(link)}(?!\w)", "", rest, count=1)
            covered += rest != before
        if covered > 1 and 2 * len(rest) < len(line):
            return True
    return False


def shows_contents(text: str) -> bool:
    """Whether dots lead to page numbers, or most lines end in page numbers and are in the order of a list of pages."""
    if _LEADERS.search(text):
        return True
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    listed = [match for match in map(_LISTED.match, lines) if match]
    if len(listed) < 5 or 2 * len(listed) < len(lines):
        return False
    words = [match[1].strip(" .,").casefold() for match in listed]
    pages = [int(match[2].split(",")[0]) for match in listed]
    is_index = (
        _ordered(words) > 0.7
        and 2 * len(set(words)) > len(words)
        and sum(word[:1].isalpha() for word in words) > len(words) / 2
    )
    return is_index or (_ordered(pages) > 0.9 and len(set(pages)) > 2 and _are_headings(words))


def _ordered(values: Sequence[str] | Sequence[int]) -> float:
    steps = list(pairwise(values))
    return sum(one <= other for one, other in steps) / len(steps)  # type: ignore[operator]


def _are_headings(words: Sequence[str]) -> bool:
    """Whether they are words rather than the numbers of a table."""
    return sum(sum(map(str.isalpha, word)) > len(word) / 2 for word in words) > 0.8 * len(words)


def _begins_inside(read: ReadDocument, index: int, code: Sequence[tuple[int, int]], count: CountTokens) -> bool:
    """Whether a chunk goes on with a sentence of the text before it, and this sentence would fit into one chunk."""
    text, start = read.document.text, read.chunks[index].start
    nearby, first = text[max(0, start - _GAP) : start], text[start : start + 1]
    before = nearby.rstrip()
    if not before or before[-1] in _ENDS or any(begin <= start < end for begin, end in code):
        return False
    heading = _squeeze((read.chunks[index].section or "").split(" > ")[-1])
    if heading and _squeeze(read.chunks[index].text).startswith(heading):
        return False
    gap = nearby[len(before) :]
    line = text[text.rfind("\n", 0, start) + 1 : start + _GAP].split("\n", 1)[0]
    if "\t" in line or line.lstrip().startswith("|"):
        return False
    if "\n" in gap:
        is_new = _suffix(read) in (".html", ".htm") or (_BLANK.search(gap) is not None and _suffix(read) != ".pdf")
        if is_new or not (first.islower() or first in ",;)") or not _PROSE.match(text, start):
            return False
    return count([_sentence_at(text, start)])[0] <= WHOLE_TOKENS


def _sentence_at(text: str, place: int) -> str:
    """The sentence around a place, or as much of it as no chunk holds."""
    before, after = text[max(0, place - 20 * WHOLE_TOKENS) : place], text[place : place + 20 * WHOLE_TOKENS]
    begins = [match.end() for match in _SENTENCE_END.finditer(before)]
    end = _SENTENCE_END.search(after)
    return before[begins[-1] if begins else 0 :] + (after[: end.start()] if end else after)


def _is_admonition(section: str | None) -> bool:
    return (section or "").split(" > ")[-1].strip(" :") in _ADMONITIONS


def _repeated_edges(documents: Sequence[ReadDocument]) -> frozenset[str]:
    """Lines with which many documents of one folder begin or end; three documents at least."""
    folders: dict[PurePosixPath, list[ReadDocument]] = {}
    for read in documents:
        folders.setdefault(PurePosixPath(read.document.origin).parent, []).append(read)
    found: set[str] = set()
    for inside in folders.values():
        counts: Counter[str] = Counter()
        for read in inside:
            lines = [line for line in read.document.text.splitlines() if line.strip()]
            counts.update({_squeeze(line) for line in (*lines[:_EDGE_LINES], *lines[-_EDGE_LINES:]) if _is_words(line)})
        found.update(line for line, number in counts.items() if number >= max(3, _EDGE_SHARE * len(inside)))
    return frozenset(found)


def _is_words(line: str) -> bool:
    """Whether a line is neither code nor markup."""
    return line[0].isalpha() and not _DIRECTIVE.match(line)


def _common_tails(titles: Sequence[str]) -> frozenset[str]:
    """What follows the last separator in at least a quarter of the titles, in three of them at least."""
    tails: Counter[str] = Counter()
    for title in titles:
        matches = list(_TAIL.finditer(title))
        if matches:
            tails[title[matches[-1].start() :]] += 1
    least = max(3, len(titles) / 4)
    return frozenset(tail for tail, number in tails.items() if number >= least)


def _tokens(texts: Sequence[str], count: CountTokens) -> list[int]:
    """Long texts are not counted: they are longer than any chunk."""
    short = [text for text in texts if len(text) <= 20 * WHOLE_TOKENS]
    sizes = iter(count(short) if short else ())
    return [next(sizes) if len(text) <= 20 * WHOLE_TOKENS else 1 << 30 for text in texts]


def _text_of(table: Table) -> str:
    return "\n".join("".join(row) for row in table.rows)


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _without_notes(text: str) -> str:
    """Without the brackets in which the text of a chunk has the mark of a note."""
    return re.sub(r"\[(\d{1,3})\]", r"\1", text)


def _merge(spans: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [span for each in spans for span in each]


def _outside(spans: Sequence[tuple[int, int]], matches: Iterable[re.Match[str]]) -> Iterator[int]:
    """The starts of the matches that are not inside a span, nor between grave accents."""
    for match in matches:
        line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
        start = match.start() + len(match[0]) - len(match[0].lstrip(" \t"))
        if line.count("`") % 2 == 0 and not any(begin <= start < end for begin, end in spans):
            yield start


def _suffix(read: ReadDocument) -> str:
    return PurePosixPath(read.document.origin).suffix.lower()


def _is_markdown(read: ReadDocument) -> bool:
    return _suffix(read) in (".md", ".markdown")
