"""Splits documents into chunks within a model's limit: at headings, paragraphs, sentences, clauses and words.

Code and tables of data stay whole where a chunk can hold them, and are split between lines where none can.

Every chunk has a span of the text, and together the spans hold every non-blank character exactly once. The text of a
chunk is that of its span; in front of it, where a chunk begins among the rows of a table, are the names of the columns,
and the caption. So the last `end - start` characters of a chunk's text are those of its span.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from operator import attrgetter, itemgetter
from typing import TypeAlias

import orjson

from aidre.engine.model import Chunk, Document, Heading, Record

TokenCounter: TypeAlias = Callable[[Sequence[str]], Sequence[int]]
Span: TypeAlias = tuple[int, int]

TARGET_TOKENS = 200
"""Tokens that a chunk is filled up to."""

DEFAULT_LIMIT_TOKENS = 256
"""Tokens of a chunk without a model: the limit of the default model."""

MAX_LIMIT_TOKENS = 512
"""Tokens of the longest code block that stays whole, even if a model reads more."""

VERSION = 3
"""Part of every fingerprint: raise it when chunk boundaries change, so that documents are chunked again."""

MAX_REPEATED_BYTES = 256 << 20
"""Bytes that all chunks of a document together may repeat: a few megabytes of metadata would fill a disk."""

_MAX_COUNTED_CHARACTERS = 4000
"""A longer text is not tokenized: it certainly exceeds every limit."""

_TOO_MANY = 1 << 30
"""The token count of a text that is too long to be tokenized."""

_COUNTED_AT_ONCE = 4096
"""Texts in one call of the tokenizer."""

_MIN_SENTENCE_CHARACTERS = 40
"""Shorter pieces stay with their neighbour: "e.g." and single words on lines are not sentences."""

_PARAGRAPH = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?…؟۔।])\s+|(?<=[.!?…؟۔।][\"'”’»)\]])\s+|[。！？]+[”’」』）]*\s*|\n\s*")
_LINE = re.compile(r"\n\s*")
_CLAUSE = re.compile(r"(?<=[,;:،؛])\s+|[，；：、]+\s*|(?<=\s[–—])\s+")
_WRAPPED_CHARACTERS = 40
"""Characters of a line that may have been wrapped inside a sentence; a shorter one ends where its author ended it."""

_LINE_START = re.compile(r"[-*+•‣▪◦●○■□–—|>#`~=]|[(\[]?\w{1,3}[.)\]]\s")
"""The beginning of a list item, a row or a quotation: no sentence goes on with it."""
_RULE = re.compile(r"^[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$", re.MULTILINE)
"""The line below the names of the columns of a Markdown table."""

_CAPTION_CHARACTERS = 120
"""Longest line above a table that is repeated in its chunks."""

_MIN_TABBED = 0.9
"""Share of the lines of a tab-separated table that must have as many cells as the first."""

_WORD = re.compile(r"\w+|[^\w\s]")
_SPACED = re.compile(r"\w\S*")
"""Each match is at least one token, since no token contains white space."""


@dataclass(frozen=True, slots=True)
class _Atom:
    """A span that is not split further; `paragraph` is the token count of the paragraph that it begins, else 0.

    `lead` are the tokens of what a chunk repeats that begins with it.
    """

    start: int
    end: int
    tokens: int
    paragraph: int = 0
    lead: int = 0


@dataclass(frozen=True, slots=True)
class _TextTable:
    """A table whose rows begin at `rows`; `lead` is what a chunk that begins among them repeats, with its tokens."""

    start: int
    rows: int
    end: int
    lead: str = ""
    tokens: int = 0


class _SectionTables:
    """The tables of a section, in order."""

    def __init__(self, tables: Sequence[_TextTable]) -> None:
        self._tables = tables

    def at(self, position: int) -> _TextTable | None:
        """The table among whose rows a position is."""
        found = bisect_right(self._tables, position, key=attrgetter("rows")) - 1
        return self._tables[found] if found >= 0 and position < self._tables[found].end else None

    def starting_at(self, position: int) -> _TextTable | None:
        found = bisect_left(self._tables, position, key=attrgetter("start"))
        return self._tables[found] if found < len(self._tables) and self._tables[found].start == position else None

    def read(self, text: str, start: int, end: int) -> str:
        """The text of a chunk with this span."""
        table = self.at(start)
        return text[start:end] if table is None or not table.lead else f"{table.lead}\n{text[start:end]}"


class Chunker:
    """Splits documents by a tokenizer's counts (without one: approximate counts); `limit` is the model's, in tokens.

    Shared by threads.
    """

    def __init__(
        self, count: TokenCounter | None = None, limit: int = DEFAULT_LIMIT_TOKENS, target: int | None = None
    ) -> None:
        self._is_exact = count is not None
        self._count = count or approximate_tokens
        self.limit = min(max(8, limit), MAX_LIMIT_TOKENS)
        self.target = min(target or TARGET_TOKENS, self.limit)
        self._last_prefix: tuple[tuple[str | None, str | None], str, int] = (None, None), "", 0

    @property
    def settings(self) -> tuple[int, int, int, bool]:
        """All that determines chunk boundaries, except the tokenizer."""
        return VERSION, self.limit, self.target, self._is_exact

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """The chunks of a document in order, none of them blank; a blank text has none."""
        chunks: list[Chunk] = []
        for section, start, end in _split_sections(document):
            limit = self.limit - self._prefix(document.title, section)[1]
            for span, text, tokens in self._split_section(document, (start, end), limit):
                number = len(chunks) + 1
                chunks.append(
                    Chunk(
                        f"{document.id}#chunk_{number}",
                        number,
                        text,
                        *span,
                        section,
                        tokens if self._is_exact else None,
                    )
                )
        return tuple(chunks)

    def embedding_input(self, document: Document, chunk: Chunk) -> str:
        """The exact string that a model embeds for a chunk: title, section path and text."""
        return self.join_embedding_input(document.title, chunk.section, chunk.text)

    def join_embedding_input(self, title: str | None, section: str | None, text: str) -> str:
        """`embedding_input` from its parts, for stored chunks."""
        prefix, _ = self._prefix(title, section)
        return f"{prefix}\n{text}" if prefix and text else prefix or text

    def _prefix(self, title: str | None, section: str | None) -> tuple[str, int]:
        """Title and section path as they are embedded before the text, and their tokens: at most half the limit.

        Caches the last result. Threads may overwrite each other's entry, which costs time but is never wrong.
        """
        last = self._last_prefix
        if last[0] != (title, section):
            prefix = _join_prefix(title, section)[:_MAX_COUNTED_CHARACTERS]
            last = self._last_prefix = (title, section), *self._shorten(prefix, self.limit // 2)
        return last[1:]

    def _shorten(self, prefix: str, max_tokens: int) -> tuple[str, int]:
        tokens = self._count([prefix])[0] if prefix else 0
        while tokens > max_tokens:
            prefix = prefix[: min(len(prefix) - 1, len(prefix) * max_tokens // tokens)].rstrip()
            tokens = self._count([prefix])[0] if prefix else 0
        return prefix, tokens

    def _split_section(self, document: Document, section: Span, limit: int) -> Iterator[tuple[Span, str, int]]:
        """Spans of the chunks of a section, their texts and their tokens."""
        text, target = document.text, min(self.target, limit)
        paragraphs = list(_split_paragraphs(text, *section, document.verbatim))
        tables = self._find_tables(document, paragraphs, target // 2)
        atoms = list(self._split_atoms(text, paragraphs, target, limit, tables))
        counts = {(atom.start, atom.end): atom.tokens for atom in atoms if not atom.lead}
        for span, tokens in self._enforce_limit(text, _pack(atoms, target), limit, counts, tables):
            yield span, tables.read(text, *span), tokens

    def _find_tables(
        self, document: Document, paragraphs: Sequence[tuple[int, int, bool]], max_tokens: int
    ) -> _SectionTables:
        """The tables among the paragraphs of a section, with what their chunks repeat: at most `max_tokens`."""
        text, tables = document.text, list[_TextTable]()
        for index, (start, end, _) in enumerate(paragraphs):
            table = _find_table(text, start, end)
            if table is None:
                continue
            names = text[start : table.rows].rstrip()
            above = paragraphs[index - 1] if index else None
            caption = "" if above is None or above[2] else _read_caption(document, *above[:2])
            if not _SPACED.search(names):  # no row names the columns
                names = ""
            forms = [f"{caption}\n\n{names}" if caption and names else caption or names, names]
            forms.append(names.partition("\n")[0])
            forms = [form[:_MAX_COUNTED_CHARACTERS] for form in forms]
            fitting = (pair for pair in zip(forms, self._count(forms), strict=True) if pair[1] <= max_tokens)
            lead, tokens = next(fitting, None) or self._shorten(forms[-1], max_tokens)
            tables.append(replace(table, lead=lead, tokens=tokens))
        return _SectionTables(tables)

    def _split_atoms(
        self, text: str, paragraphs: Sequence[tuple[int, int, bool]], target: int, limit: int, tables: _SectionTables
    ) -> Iterator[_Atom]:
        limits = [limit if is_code else target for _, _, is_code in paragraphs]
        short = [
            span for span, most in zip(paragraphs, limits, strict=True) if not _surely_exceeds(text, *span[:2], most)
        ]
        counts = dict(zip(short, self._count_spans(text, short), strict=True))
        for span, most in zip(paragraphs, limits, strict=True):
            begin, stop, is_code = span
            tokens = counts.get(span, _TOO_MANY)
            if tokens <= most:
                yield _Atom(begin, stop, tokens, tokens)
            else:
                table = tables.starting_at(begin)
                pieces = self._split_paragraph(text, begin, stop, target, is_code=is_code, table=table)
                total = sum(count for _, count in pieces)
                lead = 0 if table is None else table.tokens
                for index, (piece, count) in enumerate(pieces):
                    yield _Atom(*piece, count, 0 if index else total, lead if index else 0)

    def _split_paragraph(
        self, text: str, start: int, end: int, target: int, *, is_code: bool, table: _TextTable | None
    ) -> list[tuple[Span, int]]:
        """Sentences, of code and tables lines; a long one as lines, clauses, runs of words, and runs of characters."""
        done: list[tuple[Span, int]] = []
        if is_code or table is not None:
            pending = list(_split(text, start, end, _LINE))
        else:
            pending = list(_split(text, start, end, _SENTENCE, _MIN_SENTENCE_CHARACTERS, is_boundary=_ends_sentence))
        if table is not None:
            pending = self._join_first_row(text, pending, table, target)
        while pending:
            counts = self._count_spans(text, pending)
            pieces: list[Span] = []
            for span, count in zip(pending, counts, strict=True):
                if count <= target or span[1] - span[0] <= 1:
                    done.append((span, count))
                else:
                    pieces.extend(_split_sentence(text, *span, target))
            pending = pieces
        return sorted(done)

    def _join_first_row(self, text: str, lines: Sequence[Span], table: _TextTable, target: int) -> list[Span]:
        """The lines of a table, with the names of its columns and the first row as one, if a chunk can hold it."""
        above = bisect_left(lines, table.rows, key=itemgetter(0))
        joined = [(lines[0][0], lines[last][1]) for last in (above, above - 1) if 0 <= last < len(lines)]
        for span, count in zip(joined, self._count_spans(text, joined), strict=True):
            if count <= target:
                return [span, *(line for line in lines if line[0] >= span[1])]
        return list(lines)

    def _count_spans(
        self, text: str, spans: Sequence[tuple[int, ...]], tables: _SectionTables | None = None
    ) -> list[int]:
        """Tokens of each span, with what `tables` add to it; _TOO_MANY for one that is too long to be tokenized."""
        counts = [_TOO_MANY] * len(spans)
        short = [index for index, span in enumerate(spans) if span[1] - span[0] <= _MAX_COUNTED_CHARACTERS]
        for first in range(0, len(short), _COUNTED_AT_ONCE):
            batch = short[first : first + _COUNTED_AT_ONCE]
            bounds = [spans[index][:2] for index in batch]
            texts = [text[start:end] if tables is None else tables.read(text, start, end) for start, end in bounds]
            for index, count in zip(batch, self._count(texts), strict=True):
                counts[index] = count
        return counts

    def _enforce_limit(
        self, text: str, spans: Iterable[Span], limit: int, atom_counts: Mapping[Span, int], tables: _SectionTables
    ) -> Iterator[tuple[Span, int]]:
        """Spans with their tokens, halved until they are within the limit.

        A span of several atoms is counted as a whole: its tokens are not the sum of theirs.
        """
        pending = list(spans)
        done: list[tuple[Span, int]] = []
        while pending:
            halves: list[Span] = []
            uncounted = [span for span in pending if span not in atom_counts]
            counts = dict(zip(uncounted, self._count_spans(text, uncounted, tables), strict=True))
            for start, end in pending:
                count = counts[start, end] if (start, end) in counts else atom_counts[start, end]
                if count <= limit or end - start <= 1:
                    done.append(((start, end), count))
                else:
                    middle = _find_break(text, start, (start + end) // 2)
                    halves.extend(filter(None, (_trim(text, start, middle), _trim(text, middle, end))))
            pending = halves
        return iter(sorted(done))


def approximate_tokens(texts: Sequence[str]) -> list[int]:
    """Token counts without a tokenizer: words and punctuation; long words and unspaced scripts by their length."""
    return [sum(_approximate_pieces(word) for word in _WORD.findall(text)) for text in texts]


def _approximate_pieces(word: str) -> int:
    return 1 + len(word) // 8 if word.isascii() else len(word)


def _join_prefix(title: str | None, section: str | None) -> str:
    """Title and section path on a line each; a path that begins with the title does not repeat it."""
    title, section = title or "", section or ""
    if title and (section == title or section.startswith(f"{title} > ")):
        section = section[len(title) + 3 :]
    return "\n".join(filter(None, (" ".join(title.split()), " ".join(section.split()))))


def _split_sections(document: Document) -> Iterator[tuple[str | None, int, int]]:
    """Path, start and end of each section; a heading without text of its own belongs to the section below it."""
    text = document.text
    own = [document.section] if document.section else []
    path: list[Heading] = []
    begin = 0
    bounds = [*document.headings, Heading(len(text), 0, "")]
    label: str | None = document.section
    if bounds[0].start > 0:
        yield label, 0, bounds[0].start
        begin = bounds[0].start
    for heading, following in pairwise(bounds):
        path = [*(outer for outer in path if outer.level < heading.level), heading]
        if following.level > heading.level and _has_no_body(text, heading, following.start):
            continue
        label = " > ".join([*own, *(outer.title for outer in path if outer.title)]) or None
        yield label, begin, following.start
        begin = following.start


def _has_no_body(text: str, heading: Heading, end: int) -> bool:
    line_end = text.find("\n", heading.start, end)
    return line_end < 0 or not text[line_end:end].strip(" \t\r\n=-")


def _split_paragraphs(text: str, start: int, end: int, verbatim: Sequence[Span]) -> Iterator[tuple[int, int, bool]]:
    """Spans between blank lines, and whether each is code or a table of data, which is never split here.

    Such spans are `verbatim`, in order and apart; where there are none, fenced code blocks.
    """
    position = start
    first = bisect_right(verbatim, start, key=itemgetter(1))
    last = bisect_left(verbatim, end, key=itemgetter(0))
    inside = ((max(start, begin), min(end, stop)) for begin, stop in verbatim[first:last])
    for begin, stop in inside if verbatim else _find_code_blocks(text, start, end):
        yield from _split_prose(text, position, begin)
        block = _trim(text, begin, stop)
        if block:
            yield (*block, True)
        position = stop
    yield from _split_prose(text, position, end)


def _split_prose(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    for span in _split(text, start, end, _PARAGRAPH):
        yield from ((*part, False) for part in _find_tables_inside(text, *span))


def _find_code_blocks(text: str, start: int, end: int) -> Iterator[Span]:
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text, start, end):
        mark = match[1]
        if opening is None:
            opening = match if mark[0] == "~" or "`" not in match[2] else None
        elif mark[0] == opening[1][0] and len(mark) >= len(opening[1]) and not match[2].strip():
            yield opening.start(), match.end()
            opening = None


def _split(
    text: str,
    start: int,
    end: int,
    boundary: re.Pattern[str],
    min_characters: int = 1,
    *,
    is_boundary: Callable[[re.Match[str]], bool] | None = None,
) -> Iterator[Span]:
    """Trimmed spans between boundaries, at least `min_characters` long; a boundary belongs to the span before it."""
    position = start
    for match in boundary.finditer(text, start, end):
        if match.end() >= position + min_characters and (is_boundary is None or is_boundary(match)):
            span = _trim(text, position, match.end())
            if span:
                yield span
            position = match.end()
    span = _trim(text, position, end)
    if span:
        yield span


def _surely_exceeds(text: str, start: int, end: int, tokens: int) -> bool:
    """A lower bound without tokenizing: whether the span has more words than `tokens`."""
    if end - start <= tokens:
        return False
    return next(islice(_SPACED.finditer(text, start, end), tokens, None), None) is not None


def _trim(text: str, start: int, end: int) -> Span | None:
    """The span without white space at its ends; None if it is blank."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


def _find_table(text: str, start: int, end: int) -> _TextTable | None:
    """The table that a paragraph is: of Markdown, or lines with tabs between cells, of which the first is repeated."""
    first = text.find("\n", start, end)
    if first < 0:
        return None
    second = text.find("\n", first + 1, end)
    second = end if second < 0 else second
    if "|" in text[start:first] and "|" in text[first:second] and _RULE.fullmatch(text, first + 1, second):
        return _TextTable(start, min(second + 1, end), end)
    if text.startswith("|", start) and text.startswith("|", first + 1):
        return _TextTable(start, first + 1, end)
    tabs = text.count("\t", start, first)
    if not tabs:
        return None
    lines = text[start:end].splitlines()
    tabbed = sum(line.count("\t") == tabs and "\t" in line.strip() for line in lines)
    return _TextTable(start, first + 1, end) if tabbed >= _MIN_TABBED * len(lines) else None


def _find_tables_inside(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph, apart from it the table of Markdown that follows its words without a blank line."""
    rule = _RULE.search(text, start, end) if "|" in text[start:end] else None
    if rule is not None and "|" in rule[0]:
        above = text.rfind("\n", start, max(start, rule.start() - 1)) + 1
        if start < above < rule.start() and "|" in text[above : rule.start()]:
            before = _trim(text, start, above)
            yield from () if before is None else (before,)
            start = above
    span = _trim(text, start, end)
    yield from () if span is None else (span,)


def _read_caption(document: Document, start: int, end: int) -> str:
    """A paragraph above a table, if it is a short line; a heading is in the section already."""
    line = document.text[start:end]
    found = bisect_left(document.headings, start, key=attrgetter("start"))
    is_heading = found < len(document.headings) and document.headings[found].start == start
    return "" if is_heading or "\n" in line or len(line) > _CAPTION_CHARACTERS else line


def _ends_sentence(boundary: re.Match[str]) -> bool:
    """Whether a sentence ends at a match of _SENTENCE: a line that was wrapped does not end one."""
    text, start = boundary.string, boundary.start()
    if not boundary[0].startswith("\n"):
        return True
    line_start = text.rfind("\n", max(0, start - 2 * _WRAPPED_CHARACTERS), start) + 1
    is_long = start - line_start > _WRAPPED_CHARACTERS
    following = text[boundary.end() : boundary.end() + 1]
    if _LINE_START.match(text, boundary.end()) or text[max(0, start - 1) : start] in ":;":
        return True
    return not (is_long or following.islower())


def _split_sentence(text: str, start: int, end: int, target: int) -> Iterator[Span]:
    """A long sentence as its lines, else its clauses, else runs of words."""
    for boundary in (_LINE, _CLAUSE):
        pieces = list(_split(text, start, end, boundary, _MIN_SENTENCE_CHARACTERS))
        if len(pieces) > 1:
            yield from pieces
            return
    yield from _split_words(text, start, end, target)


def _split_words(text: str, start: int, end: int, target: int) -> Iterator[Span]:
    """Runs of words: two halves, or pieces of `target` characters if the text is too long to be tokenized."""
    length = target if end - start > _MAX_COUNTED_CHARACTERS else (end - start + 1) // 2
    while end - start > length:
        stop = _find_break(text, start, start + length)
        span = _trim(text, start, stop)
        if span:
            yield span
        start = stop
    span = _trim(text, start, end)
    if span:
        yield span


def _find_break(text: str, start: int, stop: int) -> int:
    """The best end of a piece, at most `stop`: after the last white space of its second half, else `stop` itself."""
    middle = start + (stop - start) // 2
    for position in range(stop, middle, -1):
        if text[position - 1].isspace():
            return position
    return max(start + 1, min(stop, len(text)))


def _pack(atoms: Sequence[_Atom], target: int) -> Iterator[Span]:
    """Joins neighbouring atoms up to the target, in even portions, preferably between paragraphs."""
    total = sum(atom.tokens * target / max(1, target - atom.lead) for atom in atoms)
    portions = max(1, math.ceil(total / target))
    even = total / portions
    start, end, tokens = 0, 0, 0
    for atom in atoms:
        if tokens and _closes(atom, tokens, target, even):
            yield start, end
            tokens = 0
        if not tokens:
            start, tokens = atom.start, atom.lead
        end = atom.end
        tokens += atom.tokens or 1
    if tokens:
        yield start, end


def _closes(atom: _Atom, tokens: int, target: int, even: float) -> bool:
    """Whether a chunk of `tokens` ends before this atom; `even` is the size of an even portion."""
    if tokens + atom.tokens > target:
        return True
    if atom.paragraph:
        return tokens + atom.paragraph > target and tokens >= even / 2
    return tokens + atom.tokens / 2 > even * 1.05


def find_repetition_fault(record: Record) -> str | None:
    """The fault of a record whose chunks repeat more than MAX_REPEATED_BYTES of the document's metadata; else None."""
    document, count = record.document, len(record.chunks)
    repeated = (document.title, document.url, document.section, document.metadata)
    size = len(orjson.dumps(repeated)) if count > 1 else 0
    if size * count <= MAX_REPEATED_BYTES:
        return None
    return (
        f"its title, url, section and metadata have {size:,} bytes, which each of its {count:,} chunks repeats: "
        "shorten them, or move what nobody filters by into semantic_payload"
    )
