"""Sample searches: the titles of sampled documents as queries. A document should be the first answer to its title."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aidre.api.cli import search
from aidre.api.cli.report.sample import Sample
from aidre.api.config import Settings
from aidre.engine.ports import Reader
from aidre.engine.retrieve import Question, State, resolve_mode
from aidre.engine.types import RetrievedChunk

MAX_SEARCHES: Final = 40
_HITS: Final = 10
_SHOWN: Final = 10


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
        asked = search.Asked(title, _HITS, correct=False, operators=False)
        hits = search.find(reader, asked, settings, notes.setdefault, embed).hits
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
