"""Where the words of a query are in a text, by the analyser's terms, and which sentences of the text have most of them.

A word of the text is a whole token, so a compound such as `fromBytes` is marked whole where a part of it is a word of
the query; in a script without spaces it is a pair of characters, or one character where the query has that alone.

The normalised form of a text, with the characters of the text that each of its characters comes from.

Unicode's form NFKC replaces characters one by one or in clusters: a character, and those after it that may be reordered
or composed with it. So the parts of a text between clusters are normalised apart, and the parts joined are the form of
the whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice, takewhile
from typing import Final, NamedTuple

from aidre.engine.index.text import characters
from aidre.engine.index.text.analysis import (
    MAX_CACHED_CHARACTERS,
    PIECE,
    RUNS,
    UNSPACED_RUN,
    split_text,
    to_plain_term,
    to_term,
    token_words,
)
from aidre.engine.index.text.characters import MARKS, NON_JOINER, UNSPACED, places_of_kept, strip_ignored
from aidre.engine.model import Highlight, HighlightLimits, Span

_JOINING: Final = frozenset(
    "\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0f73\u0f75\u0f81\u102e"
    "\u1b35\uff9e\uff9f\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930"
)
"""Characters of combining class 0 that compose with a character before them, beside those of Hangul; a newer Unicode
may have more."""


class Aligned(NamedTuple):
    """A normalised text. Character n comes from the characters `starts[n]` to `ends[n]` of the text; where both are
    None, from the one in the same place."""

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the text that a part of the normalised one, not empty, comes from."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]


def align(text: str) -> Aligned:
    """The text as `normalize` returns it, with its places."""
    if text.isascii():
        return Aligned(text)
    places = places_of_kept(text)
    if places is None:
        return _align(text)
    aligned = _align(strip_ignored(text))
    starts, ends = aligned.starts or range(len(places)), aligned.ends or range(1, len(places) + 1)
    return Aligned(aligned.text, [places[start] for start in starts], [places[end - 1] + 1 for end in ends])


def _align(text: str) -> Aligned:
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return Aligned(text)
    forms = {letter: _form_alone(letter) for letter in set(text)}
    if None not in forms.values():  # such as the punctuation of Chinese
        for letter, form in forms.items():
            text = text if form is None or form == letter else text.replace(letter, form)
        return Aligned(text)
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    place = 0
    for piece in PIECE.findall(text):
        for cluster in _checked_clusters(piece):
            form = unicodedata.normalize("NFKC", cluster)
            parts.append(form)
            starts += [place] * len(form)
            place += len(cluster)
            ends += [place] * len(form)
    return Aligned("".join(parts), starts, ends)


@lru_cache(maxsize=1 << 12)
def _form_alone(letter: str) -> str | None:
    """The form of a character, if it is one character and the same in every text."""
    form = unicodedata.normalize("NFKC", letter)
    return form if len(form) == 1 and not _joins(letter) else None


def _checked_clusters(piece: str) -> list[str]:
    """The clusters of a piece; the piece itself where they are not apart, by characters of a newer Unicode."""
    if piece.isascii():
        return list(piece)
    clusters = list(_clusters(piece))
    forms = [unicodedata.normalize("NFKC", cluster) for cluster in clusters]
    return clusters if "".join(forms) == unicodedata.normalize("NFKC", piece) else [piece]


def _clusters(piece: str) -> Iterator[str]:
    start = 0
    for place in range(1, len(piece)):
        if not _joins(piece[place]):
            yield piece[start:place]
            start = place
    yield piece[start:]


@lru_cache(maxsize=1 << 12)
def _joins(letter: str) -> bool:
    """Whether a character may be reordered or composed with the one before it."""
    first = unicodedata.normalize("NFKD", letter)[0]
    is_jamo = "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"  # vowels and finals of Hangul
    return unicodedata.combining(letter) > 0 or unicodedata.combining(first) > 0 or is_jamo or first in _JOINING


MAX_HIGHLIGHTED: Final = 32_768
"""Characters of a text in which words are looked for."""

_WORD: Final = re.compile(r"\w+")
_TO_SPACES: Final = {point: " " for point in range(0x80) if _WORD.match(chr(point)) is None}
_SPACED_TOKEN: Final = re.compile(rf"(?:[^\W{UNSPACED}]|[{MARKS}{NON_JOINER}{characters.SIGN_MARKS}])+")
"""The tokens of `analysis` that are not runs of a script without spaces."""
_SPECIAL: Final = re.compile(f"[{UNSPACED}{MARKS}{NON_JOINER}{characters.SIGN_MARKS}]")
"""Without such a character the tokens of a text are those of _WORD."""
_SENTENCE_END: Final = re.compile(r"[.!?…؟۔।。！？\n](?:(?<=[。！？\n])[」』”’）]*|[\"'”’»)\]]*(?=\s))\s*")
_HEADING: Final = re.compile(r"[ ]{0,3}#{1,6}[ \t]+")
_FENCE: Final = re.compile(r"[ \t]{0,12}(?:```|~~~)")
_UNDERLINE: Final = re.compile(r"(?:={3,}|-{3,}|~{3,}|\^{3,})[ \t]*")
_RULE: Final = re.compile(r"[ \t]{0,12}\|?(?:[ \t]{0,9}:?-+:?[ \t]{0,9}\|)+(?:[ \t]{0,9}:?-+:?)?[ \t]*")
_BOLD: Final = re.compile(r"(\*\*|__)[^*_\n]{1,80}\1:?[ \t]*")
_INDENT: Final = 40
_LETTER: Final = re.compile(r"[^\W_]")
_SPACE: Final = re.compile(r"\s")
_SIGNS: Final = frozenset(characters.SIGN_BYTES.decode())
_MAX_CACHED_TOKENS: Final = 1 << 14
_MAX_WINDOWS: Final = 64
"""Windows of a long sentence that are compared."""
_LEAD: Final = 4
"""A window begins a quarter of its length before its first word."""


class Word(NamedTuple):
    """A word of a query in a text; `found` has bit n set for word n of the query."""

    start: int
    end: int
    found: int


class WordFinder:
    """The words of one query, each as its terms in the languages of the collection, with its weight."""

    def __init__(self, words: Sequence[tuple[Sequence[str], float]]) -> None:
        self._weights = [weight for _, weight in words]
        self._bits: dict[str, int] = {}
        for number, (terms, _) in enumerate(words):
            for term in terms:
                self._bits[term] = self._bits.get(term, 0) | 1 << number
        self._unspaced = [term for term in self._bits if UNSPACED_RUN.fullmatch(term)]
        self._runs = {term for term in self._bits if " " in term}
        self._has_names = not _SIGNS.isdisjoint("".join(self._bits))

    def find(self, text: str, language: str) -> list[Word]:
        """The words of the query in a text of a language (a tag), in order, none overlapping another."""
        if not self._bits:
            return []
        if len(text) > MAX_HIGHLIGHTED:
            text = split_text(text[: MAX_HIGHLIGHTED + 1], MAX_HIGHLIGHTED)[0]
        if text.isascii() and not self._has_names and not self._runs:
            return self._find_ascii(text, language)
        aligned = align(text)
        text = characters.mark_names(aligned.text) if self._has_names else aligned.text
        if _SPECIAL.search("".join(set(text))):
            words = self._find_spaced(text, language, _SPACED_TOKEN) + self._find_unspaced(text, language)
            words.sort()
        else:
            words = self._find_spaced(text, language, _WORD)
        if self._runs:
            words = sorted(words + list(self._find_runs(text)))
        return list(_apart(aligned, words))

    def _find_ascii(self, text: str, language: str) -> list[Word]:
        """The words of a text in ASCII, by a copy with spaces around its tokens: faster than the pattern by half."""
        spaced = f" {text.translate(_TO_SPACES)} "
        words = [
            Word(start, start + len(token), bits)
            for token, bits in self._known(spaced.split(), language).items()
            for start in _occurrences(spaced, f" {token} ")
        ]
        words.sort()
        return words

    def _find_spaced(self, text: str, language: str, pattern: re.Pattern[str]) -> list[Word]:
        """The words that are tokens of a normalised text."""
        found = self._known(pattern.findall(text), language)
        if not found:
            return []
        return [Word(*match.span(), found[match[0]]) for match in pattern.finditer(text) if match[0] in found]

    def _find_runs(self, text: str) -> Iterator[Word]:
        """The neighbouring stop words of the query."""
        tokens = list(_SPACED_TOKEN.finditer(text))
        words = [token[0].lower() for token in tokens]
        for length in RUNS:
            for n in range(len(tokens) - length + 1):
                run = " ".join(words[n : n + length])
                if run in self._runs:
                    yield Word(tokens[n].start(), tokens[n + length - 1].end(), self._bits[run])

    def _known(self, tokens: Iterable[str], language: str) -> dict[str, int]:
        """Those of the tokens that are words of the query, and which."""
        terms_of, wanted = _terms_in(language), self._bits.keys()
        matching = [token for token in set(tokens) if not wanted.isdisjoint(terms_of[token])]
        return {token: self._bits_of(terms_of[token]) for token in matching}

    def _find_unspaced(self, text: str, language: str) -> list[Word]:
        """The characters and pairs of runs without spaces, which are their own terms."""
        terms = [term for term in self._unspaced if to_term(term, language) == term]
        return [
            Word(start, start + len(term), self._bits[term]) for term in terms for start in _occurrences(text, term)
        ]

    def _bits_of(self, terms: Iterable[str]) -> int:
        found = 0
        for term in terms:
            found |= self._bits.get(term, 0)
        return found

    def highlight(
        self, language: str, text: str, title: str | None, section: str | None, limits: HighlightLimits
    ) -> Highlight:
        """The words of the query in a chunk of a language, and in the headings of that."""
        words = self.find(text, language)

        def spans(heading: str | None) -> list[Span]:
            return [] if not heading else [word[:2] for word in self.find(heading, language)[: limits.spans]]

        titles = {*(section or "").split(" > "), title or ""}
        snippets = self.snippets(text, words, limits.snippets, limits.snippet_chars, titles)
        return Highlight([word[:2] for word in words[: limits.spans]], spans(title), spans(section), snippets)

    def weight(self, found: int) -> float:
        return sum(weight for number, weight in enumerate(self._weights) if found >> number & 1)

    def snippets(
        self, text: str, words: Sequence[Word], count: int, max_characters: int, titles: Collection[str] = ()
    ) -> list[Span]:
        """The sentences of a text whose words of the query weigh most, in order, each cut to `max_characters`; without
        a word the first one.

        Headings, lines that are among the `titles`, the names of columns of a table and marks of code are none: their
        words count for the sentence below, which says more.
        """
        by_sentence: dict[Span, list[Word]] = {}
        sentences = _without_headings(text, _sentences(text[:MAX_HIGHLIGHTED]), titles)
        first = sentence = next(sentences, None)
        following = next(sentences, None)
        for word in words:
            while following is not None and sentence is not None and sentence[1] <= word.start:
                sentence, following = following, next(sentences, None)
            if sentence is not None:
                by_sentence.setdefault(sentence, []).append(word)
        if not count or first is None:
            return []
        if not by_sentence:
            return [_cut(text, first, first[0], max_characters)]
        ranked = sorted(by_sentence.items(), key=lambda pair: -self._weight_of(pair[1]))[:count]
        return sorted(self._window(text, span, inside, max_characters) for span, inside in ranked)

    def _weight_of(self, words: Sequence[Word]) -> float:
        found = 0
        for word in words:
            found |= word.found
        return self.weight(found)

    def _window(self, text: str, sentence: Span, words: Sequence[Word], max_characters: int) -> Span:
        """The part of a long sentence that holds the words of most weight."""
        if sentence[1] - sentence[0] <= max_characters:
            return sentence
        words = [word for word in words if sentence[0] <= word.start < sentence[1]]  # the others are in headings
        if not words:
            return _cut(text, sentence, sentence[0], max_characters)
        reach = max_characters - max_characters // _LEAD
        windows = (
            list(takewhile(partial(_ends_by, word.start + reach), islice(words, number, None)))
            for number, word in enumerate(words[:_MAX_WINDOWS])
        )
        best = max(windows, key=self._weight_of)
        start = best[0].start if best else words[0].start
        return _cut(text, sentence, start - max_characters // _LEAD, max_characters)


class _TermsOfTokens(dict[str, tuple[str, ...]]):
    """By token, its terms in a language; emptied when it is full."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __missing__(self, token: str) -> tuple[str, ...]:
        words = token_words(token)
        terms = tuple(filter(None, (to_term(word, self._language) for word in words)))
        if not token.isascii():
            terms += tuple(filter(None, (to_plain_term(word, self._language) for word in words)))
        if len(token) <= MAX_CACHED_CHARACTERS:
            if len(self) >= _MAX_CACHED_TOKENS:
                self.clear()
            self[token] = terms
        return terms


def _occurrences(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


_terms_in = lru_cache(maxsize=8)(_TermsOfTokens)
"""For the languages of the latest searches: most words of a text are in many others."""


def _apart(aligned: Aligned, words: Iterable[Word]) -> Iterator[Word]:
    """The words in the places of the text, those joined that overlap."""
    last: Word | None = None
    for start, end, found in words:
        word = Word(*aligned.span(start, end), found)
        if last is not None and word.start < last.end:
            last = Word(last.start, max(last.end, word.end), last.found | word.found)
            continue
        if last is not None:
            yield last
        last = word
    if last is not None:
        yield last


def _sentences(text: str) -> Iterator[Span]:
    """The sentences and lines that are not blank, without the white space around them."""
    start = len(text) - len(text.lstrip())
    for match in _SENTENCE_END.finditer(text, start):
        end = start + len(text[start : match.end()].rstrip())
        if end > start:
            yield start, end
        start = match.end()
    end = len(text.rstrip())
    if end > start:
        yield start, end


def _without_headings(text: str, sentences: Iterable[Span], titles: Collection[str]) -> Iterator[Span]:
    """The sentences but for headings and the like; of a text of headings alone the last, without its mark."""
    heading: Span | None = None
    is_alone = True
    for span in sentences:
        if heading is not None and span[0] < heading[1]:  # a heading may have several sentences: "## 3. Look"
            continue
        end = _line_end(text, span[0]) if _begins_line(text, span[0]) else span[0]
        mark = _mark_of(text, span[0], end, titles) if end > span[0] else None
        if mark is not None:
            heading = span[0] + mark, end
        elif _LETTER.search(text, *span):
            is_alone = False
            yield span
    if heading is not None and is_alone and text[slice(*heading)].strip():
        yield heading[0], heading[0] + len(text[slice(*heading)].rstrip())


def without_headings(text: str, titles: Collection[str] = ()) -> str:
    """The lines of a text that are sentences, rows or code; all of a text that has no such line."""
    lines, start = list[str](), 0
    while start < len(text):
        end = _line_end(text, start)
        if _mark_of(text, start, end, titles) is None and (_LETTER.search(text, start, end) or start == end):
            lines.append(text[start:end])
        start = end + 1
    return "\n".join(lines).strip() or text


def _mark_of(text: str, start: int, end: int, titles: Collection[str]) -> int | None:
    """The length of the mark of a line that is a heading, a fence of code, or the names of columns; else None."""
    heading = _HEADING.match(text, start, end)
    if heading is not None:
        return heading.end() - start
    if _FENCE.match(text, start, end) is not None:
        return end - start
    line = text[start:end].strip()
    following = _line_end(text, end + 1)
    is_above_rule = _RULE.fullmatch(text, end + 1, following) is not None and "|" in line
    underline = _UNDERLINE.fullmatch(text, end + 1, following)
    is_underlined = underline is not None and (text[end + 1] in "=-" or following - end > len(line))
    return 0 if line in titles or is_above_rule or is_underlined or _BOLD.fullmatch(line) else None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _begins_line(text: str, start: int) -> bool:
    """Whether nothing but spaces is before a place in its line."""
    before = text[max(0, start - _INDENT) : start].rstrip(" \t")
    return not before or before.endswith("\n")


def _ends_by(end: int, word: Word) -> bool:
    return word.end <= end


def _cut(text: str, sentence: Span, start: int, max_characters: int) -> Span:
    """At most `max_characters` of a sentence from `start` on, between white space where there is some near."""
    first, last = sentence
    start = max(first, min(start, last - max_characters))
    end = min(last, start + max_characters)
    if start > first:
        space = _SPACE.search(text, start - 1, start + max_characters // _LEAD)
        start = space.end() if space is not None else start
    if end < last:
        near = next((n for n in range(end, end - max_characters // _LEAD, -1) if text[n].isspace()), end)
        end = near if near > start else end
    return start, max(start + 1, start + len(text[start:end].rstrip()))
