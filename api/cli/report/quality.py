"""Judges a sample of chunks: lengths, languages, copies.

A copy is looked for in the whole collection: the nearest neighbours of a sampled chunk by its stored vector are
compared with it word by word. So the share of chunks with a copy is estimated without bias, whatever the size of the
collection, where pairs inside of a sample would be missed. Sample searches: the titles of sampled documents as
queries. A document should be the first answer to its title.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aidre.api.cli import search
from aidre.api.cli.report.sample import Sample
from aidre.api.config import Settings
from aidre.engine.index.text import LexicalText, Lexicon, build_lexicon
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.ports import Reader
from aidre.engine.retrieve import Question, State, resolve_mode
from aidre.engine.types import RetrievedChunk

MAX_COMPARED: Final = 400
"""Chunks whose neighbours are searched: the share of copies is then uncertain by 5 percentage points at most."""
NEAR: Final = 0.8
"""Share of common word triples (Jaccard) from which two texts are near-duplicates."""
_NEIGHBOURS: Final = 6
_DEVIATIONS: Final = 1.96
_DETECTED: Final = 2_000
"""Texts whose language is detected where the collection does not record it."""
_BOUNDS: Final = (0, 50, 100, 200, 400, 800, 1_600, 3_200)
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class LengthRange:
    """Sampled chunks of at least `start` characters and less than `end` (None: no bound)."""

    start: int
    end: int | None
    chunks: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Two chunks with nearly the same text. `similarity` is the share of common word triples; 1 for the same text."""

    id: str
    other_id: str
    title: str | None
    other_title: str | None
    similarity: float
    same_document: bool
    text: str


@dataclass(frozen=True, slots=True)
class NearCopies:
    """Of `compared` sampled chunks `copied` have a near-duplicate somewhere in the collection, `exact` the same text;
    `elsewhere` have it in another document. `examples` are some of the pairs."""

    compared: int
    copied: int
    exact: int
    elsewhere: int
    examples: tuple[Copy, ...]

    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the share of copies among all chunks (Wilson's score interval)."""
        share, squared = self.copied / self.compared, _DEVIATIONS**2 / self.compared
        middle = (share + squared / 2) / (1 + squared)
        half = math.sqrt(share * (1 - share) * squared + squared**2 / 4) / (1 + squared)
        return max(0.0, middle - half), min(1.0, middle + half)


def lengths(sample: Sample) -> tuple[LengthRange, ...]:
    counts = Counter(max(bound for bound in _BOUNDS if bound <= len(chunk.text)) for chunk in sample.chunks)
    ends = (*_BOUNDS[1:], None)
    return tuple(LengthRange(start, end, counts[start]) for start, end in zip(_BOUNDS, ends, strict=True))


def detected_languages(sample: Sample) -> Mapping[str, int]:
    """Sampled chunks by the tag of their detected language, most frequent first."""
    texts = [LexicalText(chunk.text) for chunk in sample.chunks[:_DETECTED]]
    if not texts:
        return {}
    lexicon = Lexicon(build_lexicon(texts))
    return dict(Counter(lexicon.tags[number] for number in lexicon.languages.tolist()).most_common())


def find_copies(reader: Reader, sample: Sample) -> NearCopies | None:
    """None where the collection has no space to find neighbours in."""
    space = next(iter(reader.collection.spaces), None)
    if space is None or not sample.chunks:
        return None
    every = -(-len(sample.chunks) // MAX_COMPARED)
    compared = [chunk for chunk in sample.chunks[::every] if _words(chunk.text)]
    found = [copy for chunk in compared if (copy := _nearest_copy(reader, space, chunk)) is not None]
    exact = sum(copy.similarity == 1 for copy in found)
    elsewhere = sum(not copy.same_document for copy in found)
    return NearCopies(len(compared), len(found), exact, elsewhere, tuple(_without_mirrored(found)[:_SHOWN]))


def _nearest_copy(reader: Reader, space: EmbeddingSpace, chunk: RetrievedChunk) -> Copy | None:
    """The most similar neighbour that is a near-duplicate; one in another document is preferred."""
    own = _triples(chunk.text)
    best: Copy | None = None
    for hit in reader.search(Query(chunk.vectors()[space.id], space.id, _NEIGHBOURS, mode="dense")):
        other = hit.chunk
        if other.id == chunk.id:
            continue
        text = other.text
        triples = _triples(text)
        similarity = 1.0 if text == chunk.text else min(len(own & triples) / len(own | triples), 0.999)
        same = other.document_id == chunk.document_id
        if similarity >= NEAR and (best is None or (not same, similarity) > (not best.same_document, best.similarity)):
            best = Copy(chunk.id, other.id, chunk.title, hit.title, similarity, same, text)
    return best


def _without_mirrored(copies: Sequence[Copy]) -> list[Copy]:
    """The pairs without those that were found from the other side, too; the most similar first."""
    pairs = {frozenset((copy.id, copy.other_id)): copy for copy in reversed(copies)}
    return sorted(pairs.values(), key=lambda copy: (copy.same_document, -copy.similarity, copy.id))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _triples(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[start : start + 3]) for start in range(max(1, len(words) - 2))}


MAX_SEARCHES: Final = 40
_HITS: Final = 10


@dataclass(frozen=True, slots=True)
class Missed:
    """A title whose document is not the first answer: its place (None: not among the first ten), and what is first."""

    title: str
    document_id: str
    place: int | None
    first_id: str | None
    first_title: str | None


@dataclass(frozen=True, slots=True)
class Searches:
    """Of `asked` titles `first` have their document at place 1, or another one with the same title, and `in_ten` among
    the first ten. `mode` is how was searched, `notes` what the search has said of it."""

    mode: str
    asked: int
    first: int
    in_ten: int
    missed: tuple[Missed, ...]
    notes: tuple[str, ...]


def search_titles(reader: Reader, sample: Sample, settings: Settings) -> Searches:
    """Raises what a search raises."""
    notes: dict[str, None] = {}
    places: list[int | None] = []
    missed: list[Missed] = []
    mode, _ = resolve_mode(State(reader, settings.collection(reader.collection.name).policy), Question(1, text="title"))
    embed = search.embedding_of(settings)
    for chunk, title in _titled(sample):
        arguments = search.SearchArguments(title, _HITS, correct=False, operators=False)
        hits = search.find(reader, arguments, settings, notes.setdefault, embed).hits
        found = [hit.document_id == chunk.document_id or hit.title == title for hit in hits]
        place = found.index(True) + 1 if any(found) else None
        places.append(place)
        if place != 1:
            first_id, first_title = (hits[0].document_id, hits[0].title) if hits else (None, None)
            missed.append(Missed(title, chunk.document_id, place, first_id, first_title))
    if any(note.startswith("lexical search only") for note in notes):
        mode = "lexical"
    first_places = sum(place == 1 for place in places)
    in_ten = sum(place is not None for place in places)
    return Searches(mode, len(places), first_places, in_ten, tuple(missed[:_SHOWN]), tuple(notes))


def _titled(sample: Sample) -> Iterator[tuple[RetrievedChunk, str]]:
    """Sampled documents from everywhere with a title that has a letter or digit, each title once."""
    titles: dict[str, RetrievedChunk] = {}
    for chunk in sample.documents:
        title = chunk.title
        if title is not None and any(map(str.isalnum, title)):
            titles.setdefault(title, chunk)
    step = max(1, -(-len(titles) // MAX_SEARCHES))
    return ((chunk, title) for title, chunk in list(titles.items())[::step])
