"""What readers of engines elsewhere share; what they lack is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import reads_language
from aidre.engine.errors import GenerationMissing, InvalidInput, SpaceMissing, Unsupported, printable_name
from aidre.engine.index.fields import (
    Filter,
    ValueRange,
    meant_field,
    range_with_dates,
    unknown_fields,
    with_dates,
    with_members,
)
from aidre.engine.index.text import WordFinder, question_language
from aidre.engine.index.vectors import encode_query, is_unit
from aidre.engine.model import EmbeddingSpace, Fusion, Highlight, HighlightLimits, Query
from aidre.engine.ports import Capabilities
from aidre.engine.search import MIN_CHUNKS, UNMEASURED_WEIGHT
from aidre.engine.segment import BoundedCache
from aidre.engine.types import Facet, Hit
from aidre_rows.ranking import RowsSearch, Vectors, fused, ordered, ranked_by_words
from aidre_rows.state import CollectionState, StoredSpace, languages_of
from aidre_rows.words import QueryWords

_MOST_KNOWN_FIELDS = 1_000
"""Names of fields of which a reader remembers whether a document has them."""

_STRAY_SHARE = 0.01
"""Of the chunks: languages of fewer do not count."""
_SECONDS = 0.02
"""About what a search takes; longer than any caller is willing to wait in its event loop."""

DENSE = Capabilities(exact_scores=True, complete_filters=True)
WITH_WORDS = replace(DENSE, lexical=True, hybrid=True, feedback=True, facets=True, highlight=True)


def _lacks(capability: str) -> Callable[..., NoReturn]:
    """A method of a reader that refuses."""

    def refuse(reader: RowsReader, *_: object, **__: object) -> NoReturn:
        reader._refuse(capability)

    return refuse


class RowsReader:
    """The members of a `Reader` that do not depend on the engine."""

    engine: str
    can = DENSE
    warnings: tuple[str, ...] = ()
    waits = True

    def __init__(self, state: CollectionState) -> None:
        self._state = state
        self.collection = state.collection
        self.generation, self.lineage = state.generation, state.lineage
        self.documents, self.chunks, self.dates = state.documents, state.chunks, state.dates
        self._known_fields = BoundedCache[str, bool](_MOST_KNOWN_FIELDS)

    def search(self, query: Query) -> list[Hit]:
        stored, vector, k = self._asked(query)
        words = None if query.mode == "dense" else self._words(query.text or "")
        with self._searching(query, stored, vector, words) as search:
            if stored is None or vector is None:
                assert words is not None  # so mode is lexical
                ranked = ranked_by_words(search, words, k)
            elif words is None:
                ranked = Vectors(search, stored.space, vector).nearest(k)
            else:
                fusion = self._weighed(query.fusion, stored.space, words.text)
                ranked = fused(Vectors(search, stored.space, vector), words, fusion, k)
            numbers, scores = ordered(search, *ranked, k)
            chunks = search.chunks_of(numbers)
            found = zip(numbers.tolist(), scores.tolist(), strict=True)
            return [Hit(chunks[number], score) for number, score in found if number in chunks][query.offset :]

    def _searching(
        self, query: Query, stored: StoredSpace | None, vector: NDArray[np.float32] | None, words: QueryWords | None
    ) -> AbstractContextManager[RowsSearch]:
        """`stored` and `vector` are None for a search by words alone. GenerationMissing for a later page, where another
        state was committed since."""
        raise NotImplementedError

    def _weighed(self, fusion: Fusion, space: EmbeddingSpace, text: str) -> Fusion:
        """With little weight of the vectors where their model does not know the language of the question."""
        is_unread = self.question_language(text) in self._unread_languages(space)
        return replace(fusion, a=min(fusion.a, UNMEASURED_WEIGHT)) if is_unread else fusion

    def _unread_languages(self, space: EmbeddingSpace) -> set[str]:
        """Those of the collection that the model of a space does not know."""
        least = min(MIN_CHUNKS, _STRAY_SHARE * self.chunks)
        counts = self._state.languages.items()
        return {tag for tag, chunks in counts if chunks >= least and not reads_language(space, tag)}

    def _words(self, text: str) -> QueryWords:
        state = self._state
        return QueryWords(text, state.chunks, state.terms / max(1, state.chunks), state.languages, self._frequencies)

    def _frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """How many chunks have each of some terms."""
        raise NotImplementedError

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        return [self.search(query) for query in queries]

    def estimated_seconds(self, query: Query) -> float:
        return _SECONDS

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        return unknown_fields(filter, self.has_field)

    def has_field(self, name: str) -> bool:
        known = self._known_fields.get(name)
        return self._known_fields.add(name, self._find_field(name)) if known is None else known

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
        path = f"facets.{printable_name(field)}"
        field = meant_field(field, self.has_field, path, by_words=self.can.lexical)
        wanted = [range_with_dates(field, bounds, self.dates) for bounds in ranges]
        words = None if text is None else self._words(text)
        return self._facet(field, self._resolved(filter), words, limit, wanted)

    def _facet(
        self,
        field: str,
        filter: Filter | None,
        words: QueryWords | None,
        limit: int | None,
        ranges: Sequence[ValueRange],
    ) -> Facet:
        """With `words` of the documents that have one of them in a chunk."""
        raise NotImplementedError

    def highlight(self, text: str, hits: Sequence[Hit], limits: HighlightLimits) -> list[Highlight]:
        words = self._words(text).words
        finder = WordFinder([(word.terms, word.weight) for word in words])
        languages = self._languages_of([hit.chunk.id for hit in hits])
        found = [(hit.chunk, languages.get(hit.chunk.id, "")) for hit in hits]
        return [finder.highlight(tag, chunk.text, chunk.title, chunk.section, limits) for chunk, tag in found]

    def _languages_of(self, chunk_ids: Sequence[str]) -> Mapping[str, str]:
        """By chunk the tag of its language."""
        self._refuse("highlight")

    changes = _lacks("changes")
    fields = dictionaries = is_object_field = _lacks("vocabulary")
    corrected = completions = word_shares = _lacks("words")

    def question_language(self, text: str) -> str | None:
        languages = self._state.languages
        tag = question_language(text, languages) if languages else None
        return next(iter(languages)) if tag is None and len(languages) == 1 else tag

    @property
    def languages(self) -> Mapping[str, int]:
        return languages_of(self._state)

    def knows_question(self, space_id: str, text: str) -> bool:
        unread = next(
            (self._unread_languages(space) for space in self.collection.spaces if space.id == space_id), set()
        )
        return not unread or self.question_language(text) not in unread

    def splice(self, *_: object, **__: object) -> None:
        """The caller does this itself."""

    cosines = centroid = splice

    def _refuse(self, capability: str) -> NoReturn:
        raise unsupported(self.engine, capability)

    def _asked(self, query: Query) -> tuple[StoredSpace | None, NDArray[np.float32] | None, int]:
        """The space, the vector as it is compared, and the hits to find. The errors of `Reader.search`."""
        if query.top_k < 1 or query.offset < 0:
            raise InvalidInput(
                f"top_k is {query.top_k} and offset is {query.offset}: ask for at least one hit, after none or more"
            )
        if query.mode != "dense" and not getattr(self.can, query.mode):
            self._refuse(query.mode)
        if query.mode != "dense" and query.text is None:
            raise InvalidInput(f"a {query.mode} search needs text")
        k = query.offset + query.top_k
        if query.mode == "lexical":
            return None, None, k
        if query.space is None or query.vector is None:
            raise InvalidInput("a dense or hybrid search needs a space and a vector")
        for stored in self._state.spaces:
            if stored.space.id == query.space:
                if query.mode == "hybrid" and not is_unit(stored.space):
                    raise InvalidInput(
                        f"embedding space {query.space!r} cannot be searched hybrid: its scores have no common scale; "
                        "use mode dense or lexical"
                    )
                return stored, encode_query(stored.space, query.vector), k
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
        if filter_ is None:
            return None
        return with_dates(with_members(filter_, self.has_field, by_words=self.can.lexical), self.dates)


def unsupported(engine: str, capability: str) -> Unsupported:
    return Unsupported(f"the engine {engine} lacks the capability {capability}", capability=capability)
