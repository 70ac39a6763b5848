"""Sample searches: the titles of sampled documents as queries. A document should be the first answer to its title."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aidre.api.cli import search
from aidre.api.cli.report.sample import Sample
from aidre.api.config import Settings
from aidre.api.retrieval import Question, resolve_mode
from aidre.engine.model import Json
from aidre.engine.ports import Reader
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
    mode, _ = resolve_mode(reader, Question(1, text="title"))
    models = search.Models(settings, notes.setdefault)
    for chunk, title in _titled(sample):
        asked = search.Asked(title, _HITS, correct=False)
        records = search.find(reader, asked, settings, notes.setdefault, models).records
        found = [record["document_id"] == chunk.document_id or _title_of(record) == title for record in records]
        place = found.index(True) + 1 if any(found) else None
        places.append(place)
        if place != 1:
            first_id, first_title = _shown(records)
            missed.append(Missed(title, chunk.document_id, place, first_id, first_title))
    if any(note.startswith("lexical search only") for note in notes):
        mode = "lexical"
    first_places = sum(place == 1 for place in places)
    in_ten = sum(place is not None for place in places)
    return Searches(mode, len(places), first_places, in_ten, tuple(missed[:_SHOWN]), tuple(notes))


def _title_of(record: Mapping[str, Json]) -> str | None:
    title: str | None = record["source"].get("title")
    return title


def _shown(records: Sequence[Mapping[str, Json]]) -> tuple[str | None, str | None]:
    """Document id and title of the first hit."""
    return (records[0]["document_id"], _title_of(records[0])) if records else (None, None)


def _titled(sample: Sample) -> Iterator[tuple[RetrievedChunk, str]]:
    """Sampled documents from everywhere with a title that has a letter or digit, each title once."""
    titles: dict[str, RetrievedChunk] = {}
    for chunk in sample.documents:
        title = chunk.title
        if title is not None and any(map(str.isalnum, title)):
            titles.setdefault(title, chunk)
    step = max(1, -(-len(titles) // MAX_SEARCHES))
    return ((chunk, title) for title, chunk in list(titles.items())[::step])
