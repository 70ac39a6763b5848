"""What readers of engines elsewhere share: the members that need a capability which they lack, refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import GenerationMissing, InvalidInput, SpaceMissing, Unsupported, printable_name
from aidre.engine.index.fields import Filter, Kind, ValueRange, meant_field, unknown_fields, with_dates, with_members
from aidre.engine.index.vectors import encode_query
from aidre.engine.model import Highlight, HighlightLimits, Query
from aidre.engine.ports import Capabilities, TextDictionary
from aidre.engine.types import ChangeCursor, ChangesPage, Facet, Hit, Layout, facet_of
from aidre_rows.state import CollectionState, StoredSpace

_MOST_KNOWN_FIELDS = 1_000
"""Names of fields of which a reader remembers whether a document has them."""

_CAPABILITIES = Capabilities(exact_scores=True, complete_filters=True)
_SECONDS = 0.02
"""About what a search takes; longer than any caller is willing to wait in its event loop."""


class DenseReader:
    """The members of a `Reader` of an engine that searches vectors and knows no words."""

    engine: str
    can = _CAPABILITIES
    warnings: tuple[str, ...] = ()
    waits = True

    def __init__(self, state: CollectionState) -> None:
        self._state = state
        self.collection = state.collection
        self.generation, self.lineage = state.generation, state.lineage
        self.documents, self.chunks, self.dates = state.documents, state.chunks, state.dates
        self._known_fields: dict[str, bool] = {}

    def search(self, query: Query) -> list[Hit]:
        raise NotImplementedError

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        return [self.search(query) for query in queries]

    def splice(self, hits: Sequence[Hit], scores: Sequence[bytes], layout: Layout) -> bytes | None:
        return None

    def estimated_seconds(self, query: Query) -> float:
        return _SECONDS

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        return unknown_fields(filter, self.has_field)

    def has_field(self, name: str) -> bool:
        known = self._known_fields.get(name)
        if known is None:
            known = self._find_field(name)
            if len(self._known_fields) >= _MOST_KNOWN_FIELDS:
                self._known_fields.clear()
            self._known_fields[name] = known
        return known

    def _find_field(self, name: str) -> bool:
        """As `has_field`, by asking the engine."""
        raise NotImplementedError

    def facet(
        self,
        field: str,
        filter: Filter | None = None,
        *,
        text: str | None = None,
        limit: int | None = None,
        ranges: Sequence[ValueRange] = (),
    ) -> Facet:
        """Without `text` and `ranges`."""
        if text is not None or ranges:
            self._refuse("facets")
        field = meant_field(field, self.has_field, f"facets.{printable_name(field)}")
        facet = facet_of(*self._counts(field, self._resolved(filter)))
        return replace(facet, counts=facet.counts[:limit])

    def _counts(self, field: str, filter: Filter | None) -> tuple[Mapping[tuple[Kind, Any], int], int, int]:
        """The documents with each value of a field, those that pass, and those of them that lack the field."""
        raise NotImplementedError

    def highlight(self, text: str, hits: Sequence[Hit], limits: HighlightLimits) -> list[Highlight]:
        self._refuse("highlight")

    def changes(self, cursor: ChangeCursor | None, limit: int) -> ChangesPage:
        self._refuse("changes")

    def fields(self) -> frozenset[str]:
        self._refuse("vocabulary")

    def dictionaries(self, name: str) -> Sequence[TextDictionary]:
        self._refuse("vocabulary")

    def is_object_field(self, name: str) -> bool:
        self._refuse("vocabulary")

    def corrected(self, text: str) -> str | None:
        self._refuse("words")

    def completions(self, text: str, limit: int) -> list[str]:
        self._refuse("words")

    def word_shares(self, text: str, hits: Sequence[Hit]) -> tuple[int, list[float]]:
        self._refuse("words")

    def question_language(self, text: str) -> str | None:
        return None

    def knows_question(self, space_id: str, text: str) -> bool:
        return True

    def cosines(self, space_id: str, vector: NDArray[np.float32], hits: Sequence[Hit]) -> None:
        return None

    def centroid(self, space_id: str) -> NDArray[np.float32] | None:
        return None

    def _refuse(self, capability: str) -> NoReturn:
        raise unsupported(self.engine, capability)

    def _asked(self, query: Query) -> tuple[StoredSpace, NDArray[np.float32], int]:
        """The space, the vector as it is compared, and the hits to find. The errors of `Reader.search`."""
        if query.top_k < 1 or query.offset < 0:
            raise InvalidInput(
                f"top_k is {query.top_k} and offset is {query.offset}: ask for at least one hit, after none or more"
            )
        if query.mode != "dense":
            self._refuse(query.mode)
        if query.space is None or query.vector is None:
            raise InvalidInput("a dense search needs a space and a vector")
        for stored in self._state.spaces:
            if stored.space.id == query.space:
                return stored, encode_query(stored.space, query.vector), query.offset + query.top_k
        raise SpaceMissing(
            f"collection {self.collection.name!r} has no embedding space {query.space!r}", embedding_space=query.space
        )

    def _generation_missing(self) -> GenerationMissing:
        """A later page does not fit to an earlier one where rows were written in between."""
        return GenerationMissing(
            f"collection {self.collection.name!r} has no generation {self.generation} any more",
            collection=self.collection.name,
            generation=self.generation,
        )

    def _resolved(self, filter_: Filter | None) -> Filter | None:
        """The filter over stored fields, those that are declared dates compared as instants."""
        return None if filter_ is None else with_dates(with_members(filter_, self.has_field), self.dates)


def unsupported(engine: str, capability: str) -> Unsupported:
    return Unsupported(f"the engine {engine} lacks the capability {capability}", capability=capability)
