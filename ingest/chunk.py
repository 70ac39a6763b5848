"""Documents cut into chunks: at headings, then paragraphs, then sentences, then words, within a model's token limit.

Every chunk is a span of the text; together they hold every character that is not blank, each once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TypeAlias

import orjson

from aidre.engine.model import Chunk, Document, Heading, Record

Counter: TypeAlias = Callable[[Sequence[str]], Sequence[int]]
Span: TypeAlias = tuple[int, int]

TARGET = 200
LIMIT = 256
"""Tokens of a chunk without a model: what the default model has."""

LONGEST = 512
"""Tokens of the longest block of code that stays whole, however much a model reads."""

VERSION = 1
"""Part of every fingerprint: a change of what is cut where raises it, and documents are cut anew."""

LARGEST_REPEATED = 256 << 20
"""Bytes of what all chunks of a document repeat, in all of them: a few megabytes of metadata would fill a disk."""

_COUNTED = 4000
"""Characters that are given to a tokenizer in one piece; more than that is certainly too long for a chunk."""

_BATCH = 4096
_SENTENCE_LEAST = 40
"""Shorter ones stay with their neighbour: "e.g." and single words on lines are no sentences."""

_PARAGRAPH = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’»)\]])\s+|[。！？]+[”’」』）]*\s*|\n\s*")
_WORD = re.compile(r"\w+|[^\w\s]")
_SPACED = re.compile(r"\w\S*")
"""Each match is a token at least: none reaches beyond white space."""

_UNCOUNTED = 1 << 30


@dataclass(frozen=True, slots=True)
class _Atom:
    """A piece that is not cut any further: its span, its tokens, and those of its paragraph where it begins one."""

    start: int
    end: int
    tokens: int
    paragraph: int = 0


class Chunker:
    """Cuts documents; `count` tells how many tokens each of some texts has, `limit` how many the model reads."""

    def __init__(self, count: Counter | None = None, limit: int = LIMIT, target: int | None = None) -> None:
        self._exact = count is not None
        self._count = count or approximate_tokens
        self.limit = min(max(8, limit), LONGEST)
        self.target = min(target or TARGET, self.limit)
        self._last: tuple[tuple[str | None, str | None], str, int] = (None, None), "", 0

    @property
    def settings(self) -> tuple[int, int, int, bool]:
        """What decides where a text is cut, beside the model."""
        return VERSION, self.limit, self.target, self._exact

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """The chunks of a document in order, none of them blank; none at all of a blank text."""
        found: list[Chunk] = []
        for section, start, end in _sections(document):
            room = self._room(document.title, section)
            for span, tokens in self._section(document.text, start, end, room):
                number = len(found) + 1
                found.append(
                    Chunk(
                        f"{document.id}#chunk_{number}",
                        number,
                        document.text[span[0] : span[1]],
                        *span,
                        section,
                        tokens if self._exact else None,
                    )
                )
        return tuple(found)

    def embedded(self, document: Document, chunk: Chunk) -> str:
        """The exact string that stands for a chunk before a model: title, section path and text."""
        return self.embedded_text(document.title, chunk.section, chunk.text)

    def embedded_text(self, title: str | None, section: str | None, text: str) -> str:
        """The same from its parts, for chunks that are stored already."""
        around, _ = self._around(title, section)
        return f"{around}\n{text}" if around and text else around or text

    def _room(self, title: str | None, section: str | None) -> int:
        """Tokens that are left for the text."""
        return self.limit - self._around(title, section)[1]

    def _around(self, title: str | None, section: str | None) -> tuple[str, int]:
        """What is embedded before the text and its tokens, at most half the limit. Threads may replace each other's."""
        last = self._last
        if last[0] != (title, section):
            last = self._last = (title, section), *self._shortened(_joined(title, section)[:_COUNTED])
        return last[1:]

    def _shortened(self, around: str) -> tuple[str, int]:
        most = self.limit // 2
        tokens = self._count([around])[0] if around else 0
        while tokens > most:
            around = around[: min(len(around) - 1, len(around) * most // tokens)].rstrip()
            tokens = self._count([around])[0] if around else 0
        return around, tokens

    def _section(self, text: str, start: int, end: int, room: int) -> Iterator[tuple[Span, int]]:
        target = min(self.target, room)
        atoms = list(self._atoms(text, start, end, target, room))
        known = {(atom.start, atom.end): atom.tokens for atom in atoms}
        yield from self._verified(text, _packed(atoms, target), room, known)

    def _atoms(self, text: str, start: int, end: int, target: int, room: int) -> Iterator[_Atom]:
        paragraphs = list(_paragraphs(text, start, end))
        most = [room if fenced else target for _, _, fenced in paragraphs]
        short = [
            span for span, limit in zip(paragraphs, most, strict=True) if not _surely_has_more(text, *span[:2], limit)
        ]
        counts = dict(zip(short, self._counts(text, short), strict=True))
        for span, limit in zip(paragraphs, most, strict=True):
            begin, stop, _ = span
            tokens = counts.get(span, _UNCOUNTED)
            if tokens <= limit:
                yield _Atom(begin, stop, tokens, tokens)
            else:
                pieces = self._cut(text, begin, stop, target)
                total = sum(count for _, count in pieces)
                for at, (piece, count) in enumerate(pieces):
                    yield _Atom(*piece, count, 0 if at else total)

    def _cut(self, text: str, start: int, end: int, target: int) -> list[tuple[Span, int]]:
        """A long paragraph as sentences, a long sentence as runs of words, a long word as runs of characters."""
        done: list[tuple[Span, int]] = []
        pending = list(_split(text, start, end, _SENTENCE, _SENTENCE_LEAST))
        while pending:
            counts = self._counts(text, pending)
            longer: list[Span] = []
            for span, count in zip(pending, counts, strict=True):
                if count <= target or span[1] - span[0] <= 1:
                    done.append((span, count))
                else:
                    longer.extend(_windows(text, *span, target))
            pending = longer
        return sorted(done)

    def _counts(self, text: str, spans: Sequence[tuple[int, ...]]) -> list[int]:
        """Tokens of each span; of one too long to be worth counting, more than any limit."""
        counts = [_UNCOUNTED] * len(spans)
        short = [at for at, span in enumerate(spans) if span[1] - span[0] <= _COUNTED]
        for first in range(0, len(short), _BATCH):
            part = short[first : first + _BATCH]
            for at, count in zip(part, self._count([text[spans[at][0] : spans[at][1]] for at in part]), strict=True):
                counts[at] = count
        return counts

    def _verified(
        self, text: str, spans: Iterable[Span], room: int, known: Mapping[Span, int]
    ) -> Iterator[tuple[Span, int]]:
        """Spans with their tokens counted as a whole, where they are not known; one that has too many is halved."""
        pending = list(spans)
        done: list[tuple[Span, int]] = []
        while pending:
            halves: list[Span] = []
            unknown = [span for span in pending if span not in known]
            counts = dict(zip(unknown, self._counts(text, unknown), strict=True))
            for start, end in pending:
                count = counts[start, end] if (start, end) in counts else known[start, end]
                if count <= room or end - start <= 1:
                    done.append(((start, end), count))
                else:
                    middle = _break(text, start, (start + end) // 2)
                    halves.extend(filter(None, (_trimmed(text, start, middle), _trimmed(text, middle, end))))
            pending = halves
        return iter(sorted(done))


def approximate_tokens(texts: Sequence[str]) -> list[int]:
    """A count without a tokenizer: words and marks, long words and scripts without spaces by their length."""
    return [sum(_pieces(word) for word in _WORD.findall(text)) for text in texts]


def _pieces(word: str) -> int:
    return 1 + len(word) // 8 if word.isascii() else len(word)


def _joined(title: str | None, section: str | None) -> str:
    """Title and section path, a line each; a path that begins with the title does not repeat it."""
    title, section = title or "", section or ""
    if title and (section == title or section.startswith(f"{title} > ")):
        section = section[len(title) + 3 :]
    return "\n".join(filter(None, (" ".join(title.split()), " ".join(section.split()))))


def _sections(document: Document) -> Iterator[tuple[str | None, int, int]]:
    """Path, start and end of each section; one that is a mere heading stays with the section after it."""
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
        path = [*(each for each in path if each.level < heading.level), heading]
        if following.level > heading.level and _is_bare(text, heading, following.start):
            continue
        label = " > ".join([*own, *(each.title for each in path if each.title)]) or None
        yield label, begin, following.start
        begin = following.start


def _is_bare(text: str, heading: Heading, end: int) -> bool:
    line = text.find("\n", heading.start, end)
    return line < 0 or not text[line:end].strip(" \t\r\n=-")


def _paragraphs(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Spans between blank lines, a fenced block of code as one of them."""
    at = start
    for begin, stop in _fences(text, start, end):
        yield from ((*span, False) for span in _split(text, at, begin, _PARAGRAPH))
        block = _trimmed(text, begin, stop)
        if block:
            yield (*block, True)
        at = stop
    yield from ((*span, False) for span in _split(text, at, end, _PARAGRAPH))


def _fences(text: str, start: int, end: int) -> Iterator[Span]:
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text, start, end):
        mark = match[1]
        if opening is None:
            opening = match if mark[0] == "~" or "`" not in match[2] else None
        elif mark[0] == opening[1][0] and len(mark) >= len(opening[1]) and not match[2].strip():
            yield opening.start(), match.end()
            opening = None


def _split(text: str, start: int, end: int, boundary: re.Pattern[str], least: int = 1) -> Iterator[Span]:
    """Trimmed spans of at least so many characters between boundaries, whose words belong to what stands before."""
    at = start
    for match in boundary.finditer(text, start, end):
        if match.end() >= at + least:
            span = _trimmed(text, at, match.end())
            if span:
                yield span
            at = match.end()
    span = _trimmed(text, at, end)
    if span:
        yield span


def _surely_has_more(text: str, start: int, end: int, tokens: int) -> bool:
    """Whether a text has more tokens for sure, which is known sooner than how many."""
    if end - start <= tokens:
        return False
    return next(islice(_SPACED.finditer(text, start, end), tokens, None), None) is not None


def _trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without the white space at its ends, None where nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


def _windows(text: str, start: int, end: int, target: int) -> Iterator[Span]:
    """Runs of words of about equal length: a text beyond counting into small pieces, a shorter one into halves."""
    length = target if end - start > _COUNTED else (end - start + 1) // 2
    while end - start > length:
        stop = _break(text, start, start + length)
        span = _trimmed(text, start, stop)
        if span:
            yield span
        start = stop
    span = _trimmed(text, start, end)
    if span:
        yield span


def _break(text: str, start: int, wanted: int) -> int:
    """The best place to cut at or before `wanted`: after the last white space of the second half, else right there."""
    low = start + (wanted - start) // 2
    for at in range(wanted, low, -1):
        if text[at - 1].isspace():
            return at
    return max(start + 1, min(wanted, len(text)))


def _packed(atoms: Sequence[_Atom], target: int) -> Iterator[Span]:
    """Neighbouring atoms joined up to the target, evenly, rather between paragraphs than inside one."""
    total = sum(atom.tokens for atom in atoms)
    parts = max(1, -(-total // target))
    even = total / parts
    start, end, tokens = 0, 0, 0
    for atom in atoms:
        if tokens and _closes(atom, tokens, target, even):
            yield start, end
            tokens = 0
        if not tokens:
            start = atom.start
        end = atom.end
        tokens += atom.tokens or 1
    if tokens:
        yield start, end


def _closes(atom: _Atom, tokens: int, target: int, even: float) -> bool:
    """Whether a chunk of so many tokens ends before this atom."""
    if tokens + atom.tokens > target:
        return True
    if atom.paragraph:
        return tokens + atom.paragraph > target and tokens >= even / 2
    return tokens + atom.tokens / 2 > even * 1.05


def repeats_too_much(record: Record) -> str | None:
    """Why a record is not stored: what all its chunks repeat would fill a disk. None where it is."""
    document, count = record.document, len(record.chunks)
    about = (document.title, document.url, document.section, document.metadata)
    size = len(orjson.dumps(about)) if count > 1 else 0
    if size * count <= LARGEST_REPEATED:
        return None
    return (
        f"its title, url, section and metadata have {size:,} bytes, which each of its {count:,} chunks repeats: "
        "shorten them, or move what nobody filters by into semantic_payload"
    )
