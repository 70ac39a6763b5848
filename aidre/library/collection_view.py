"""One state of a collection of a store, as programs read it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from aidre.engine.errors import AidreError, DocumentMissing, InvalidInput, printable_name
from aidre.engine.index.fields import Filter, field_name
from aidre.engine.listing import MAX_LIMIT, check_limits, documents, some_of, stored_document, to_order as to_listing
from aidre.engine.model import Document, EmbeddingSpace, FusionMethod, Group, HighlightLimits, Json, Mode
from aidre.engine.retrieve import Policy, State, answer, query_of, read, run
from aidre.engine.types import Facet
from aidre.library.arguments import MAX_K, to_facets, to_filter, to_names, to_order, to_queries, to_question
from aidre.library.conversion import select_members
from aidre.library.foreign import no_attribute, own_words
from aidre.library.rerank import to_rerank
from aidre.library.spaces import Spaces
from aidre.library.values import to_hits
from aidre_client.values import (
    Facets,
    Hits,
    SearchOrder,
    SearchResults,
    Weights,
    as_html,
    beginning,
    check_fusion,
    check_group,
    check_least,
    check_range,
    check_recall,
    to_ids,
    to_limits,
    to_weight,
)

if TYPE_CHECKING:
    from aidre.engine.ports import Reader, Source
    from aidre.engine.types import RetrievedChunk

logger = logging.getLogger("aidre")

SHOWN_TEXTS, SHOWN_ROWS = 2, 5
"""Documents that the line and the table of a collection show."""

Reranker: TypeAlias = "str | PathLike[str] | Callable[[str, list[str]], Any] | Any"
"""The id of a space, the folder of a cross-encoder, a function of a text and texts to scores, or what has `predict`."""

OrderBy: TypeAlias = str | Sequence[str]
"""The name of a field, with "-" before it for the greatest value first, or several."""


class CollectionView:
    """One state of a collection, read-only: `Collection.at` returns it. A Collection has the same verbs for its newest
    state.

    Examples:
        >>> before = docs.at(docs.generation)
        >>> docs.delete(["soup"])
        1
        >>> len(before), len(docs)
        (3, 2)
    """

    def __init__(
        self, source: Source, name: str, spaces: Spaces, reader: Reader | None = None, *, policy: Policy
    ) -> None:
        self._source, self._reader = source, reader
        self._spaces, self._policy = spaces, policy
        self._logged: set[str] = set()
        self.name = name

    def __repr__(self) -> str:
        """With the first texts; it never fails, and asks no other machine."""
        what, shown = f"{type(self).__name__} {self.name!r} of {self._source.path}", ""
        with suppress(AidreError):
            if (reader := self.reader) is not None and not reader.waits:
                first = ", ".join(repr(beginning(document.text, 40)) for document in self.scan(limit=SHOWN_TEXTS))
                shown = f", {reader.documents:,} documents: {first}"
        return f"<{what}{shown}{', …' if shown and len(self) > SHOWN_TEXTS else ''}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        documents = self.get(limit=SHOWN_ROWS)
        names = ("id", "title", "text", "url", "metadata")
        rows = as_html({name: [getattr(document, name) for document in documents] for name in names})
        return f"<p>{escape(self.name)}: {len(self):,} documents</p>{rows}"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process, it opens the same state there."""
        return view_at, (self._source, self.name, self._spaces, self.generation, self._policy)

    @property
    def reader(self) -> Reader | None:
        """The state that is read; None before the first commit."""
        return self._reader

    @property
    def generation(self) -> int:
        """The number of the state that is read; it grows with each commit. 0: nothing was committed."""
        reader = self.reader
        return 0 if reader is None else reader.generation

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        reader = self.reader
        return tuple(self._spaces.for_writing(None)) if reader is None else reader.collection.spaces

    # -- search ------------------------------------------------------------------------------------------------

    @own_words
    def search(
        self,
        text: str | None = None,
        *,
        vector: Any = None,
        k: int = 10,
        offset: int = 0,
        filter: Json | None = None,
        mode: Mode | None = None,
        space: str | None = None,
        min_score: float | None = None,
        facets: Facets | None = None,
        highlight: bool | HighlightLimits = False,
        correct: bool = False,
        operators: bool = True,
        group: Group = "chunk",
        collapse: bool = True,
        recall: float | None = None,
        order: SearchOrder | None = None,
        weights: Weights | None = None,
        fusion: FusionMethod | None = None,
        rerank: Reranker | None = None,
    ) -> Hits:
        """The `k` best chunks after the `offset` best ones, best first; those below `min_score` are left out.

        A text is searched hybrid, dense where its space cannot be fused, lexical where no space has a model or that is
        missing; a vector, shape (dimensions,), dense; both hybrid, without a model. `space` is an id; without it the
        first space answers that can. A larger score is better; its scale depends on mode and space. `facets` counts
        values of fields in the documents of all matches, `highlight` tells where the words of the text are in each hit.
        With `correct` a text is answered without what may be typing errors in it, where it finds little as it is. With
        `operators` a phrase in double quotes has to stand in a hit as it is written, and `-word` must not be in one.
        With `group` "document" `k` and `offset` count documents: a hit is the best chunk of one, and `passages` of the
        hits has up to four more of each; with `collapse` documents that are near-copies of a better one are `copies` of
        its hit. `recall` is the share of the nearest vectors that is found: lower is faster, and 1 compares every
        vector; without it that of the collection holds, .99 unless configured. `order` puts the relevant ones of the
        hundred best hits first, by the greatest number or date that each has in a field, those without one last; the
        others follow by score. `weights` are those of vectors and words
        in a hybrid search, as {"dense": 0.7, "lexical": 0.3}. `fusion` "rrf" joins both by their ranks in two short
        lists, which is faster and finds less; without it that of the collection holds, "score" unless configured.
        `rerank` scores the best 50 hits anew, by their texts: a
        function of the text and a list of texts to numbers, the id of a second space, a cross-encoder or its folder.
        InvalidInput, InvalidFilter, InvalidVector, DimensionMismatch, SpaceMissing, ModelUnavailable, Unsupported.

        Parameters:
            text: What is looked for.
            vector: What is looked for as numbers, shape (dimensions,).
            k: Hits at most, up to 10,000.
            offset: Best hits that are left out.
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            mode: "hybrid", "dense" (by vectors) or "lexical" (by words); None: the first of them that can be
                done.
            space: The id of the embedding space; None: the first that can answer.
            min_score: Hits below this score are left out.
            facets: Fields whose values are counted, by name or as `FacetRequest`.
            highlight: Whether to tell where the words of the text are; `HighlightLimits` bounds how many.
            correct: Whether a text that finds little is answered without its typing errors.
            operators: Whether quotes, `-word` and conditions in the text are read.
            group: "document": each hit is the best chunk of another document.
            collapse: With `group="document"`: whether near-copies of a better document are counted, not
                listed.
            recall: The share of the nearest vectors to find: lower is faster, 1 compares all.
            order: A field with numbers or dates, `"-field"` for the greatest first.
            weights: The weights of meaning and of words in a hybrid search.
            fusion: How a hybrid search joins both: "score", or "rrf", by ranks.
            rerank: What orders the best hits anew.

        Examples:
            >>> hits = docs.search("something to eat", k=2, filter={"minutes": {"lt": 60}})
            >>> [hit.document_id for hit in hits]
            ['toast', 'soup']
            >>> docs.search("rye", mode="lexical")[0].text
            'Mackerel on rye toast takes a hot grill.'
            >>> found = docs.search("dinner", facets=["vegan"], highlight=True)
            >>> found.facets["vegan"].counts
            ((True, 1),)
            >>> [hit.document_id for hit in docs.search("a hot dish", order="-minutes", k=2)]
            ['soup', 'toast']
        """
        requests = () if facets is None else to_facets(facets)
        limits = None if highlight is False else to_limits(highlight)
        if limits is not None and text is None:
            raise InvalidInput("highlight needs a text: a vector has no words")
        reader = self.reader
        if text is None and vector is None:
            raise InvalidInput("search needs a text or vector=")
        check_least(min_score)
        check_group(group)
        check_recall(recall)
        check_fusion(fusion)
        if rerank is not None and text is None:
            raise InvalidInput("rerank= needs a text: it compares that with the texts of hits")
        if rerank is not None and order is not None:
            raise InvalidInput("order= and rerank= both say what comes first: pass one of them")
        parsed, weight, ordered = to_filter(filter), to_weight(weights), to_order(order)
        question = to_question(text, vector, k=k, offset=offset, filter=parsed, mode=mode, space=space)
        if reader is None:
            nothing = Hits()
            nothing.facets = {request.field: Facet((), 0, 0, None, None) for request in requests}
            return nothing
        if requests or limits is not None or correct or not operators or group != "chunk":
            question = question._replace(
                facets=requests, highlight=limits, correct=correct, operators=operators, group=group, collapse=collapse
            )
        if recall is not None:
            question = question._replace(recall=float(recall))
        if ordered is not None:
            question = question._replace(order=ordered)
        if weight is not None or fusion is not None or rerank is not None:
            by = None if rerank is None else to_rerank(rerank, reader, self._spaces)
            question = question._replace(weight=weight, fusion=fusion, rerank=by)
        found = run(answer(question, State(reader, self._policy)), self._spaces.embed)
        self._log_unknown(found.ignored)
        if found.problem is not None:
            self._log(str(found.problem), "%s is searched without a model: %s")
        return to_hits(found, min_score)

    @own_words
    def search_many(
        self,
        queries: Any,
        *,
        k: int = 10,
        filter: Json | None = None,
        mode: Mode | None = None,
        space: str | None = None,
        operators: bool = True,
        recall: float | None = None,
        fusion: FusionMethod | None = None,
    ) -> SearchResults:
        """The hits of each query: texts, or vectors as a matrix (queries, dimensions), which share the scan.

        With `operators` quotes, `-word` and conditions in a text are read as `search` does; such a text is searched by
        itself. `recall` and `fusion` are those of `search`.

        Parameters:
            queries: Texts, or vectors of shape (queries, dimensions).
            k: Hits at most, up to 10,000.
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            mode: "hybrid", "dense" (by vectors) or "lexical" (by words); None: the first of them that can be
                done.
            space: The id of the embedding space; None: the first that can answer.
            operators: Whether quotes, `-word` and conditions in the text are read.
            recall: The share of the nearest vectors to find: lower is faster, 1 compares all.
            fusion: How a hybrid search joins vectors and words: "score", or "rrf", by ranks.

        Examples:
            >>> found = docs.search_many(["a warm dish", "a flat tyre"], k=1)
            >>> [hits[0].document_id for hits in found]
            ['soup', 'tyre']
        """
        check_recall(recall)
        check_fusion(fusion)
        reader, queries = self.reader, to_queries(queries)
        if reader is None:
            return SearchResults([Hits() for _ in queries])
        parsed, state = to_filter(filter), State(reader, self._policy)
        found: dict[int, Hits] = {}
        converted = {}
        for number, query in enumerate(queries):
            text, vector = (query, None) if isinstance(query, str) else (None, query)
            question = to_question(text, vector, k=k, offset=0, filter=parsed, mode=mode, space=space)
            if recall is not None or fusion is not None:
                question = question._replace(recall=None if recall is None else float(recall), fusion=fusion)
            if operators and text is not None and run(read(text, [state]), self._spaces.embed) is not None:
                found[number] = to_hits(run(answer(question, state), self._spaces.embed), None)
            else:
                converted[number] = run(query_of(question, state), self._spaces.embed)
        if converted:
            found.update(zip(converted, map(Hits, reader.search_all([*converted.values()])), strict=True))
        return SearchResults([found[number] for number in sorted(found)], self._unknown_fields(reader, parsed))

    # -- look-up -----------------------------------------------------------------------------------------------

    @overload
    def get(
        self, ids: Iterable[str], *, limit: int | None = None, offset: int = 0, vectors: bool = False
    ) -> list[Document | None]: ...
    @overload
    def get(
        self,
        ids: None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
        vectors: bool = False,
    ) -> list[Document]: ...
    @own_words
    def get(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
        vectors: bool = False,
    ) -> Any:
        """The documents with these ids, in their order, None for one that is not stored; without ids the documents that
        pass a filter, as `scan` gives them.

        Of both, `limit` ones after the first `offset`. With `vectors`, a document of one chunk has its vectors by
        space, as they are stored.

        Parameters:
            ids: Ids of documents.
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            limit: Documents at most.
            offset: Documents that are left out before them.
            order_by: A field, `"-field"` for the greatest first, or several.
            vectors: Whether documents of one chunk bring their vectors.

        Examples:
            >>> [None if one is None else one.title for one in docs.get(["toast", "none"])]
            ['Toast', None]
        """
        if ids is None:
            return list(self.scan(filter, vectors=vectors, limit=limit, offset=offset, order_by=order_by))
        if isinstance(ids, str):
            raise InvalidInput("get needs a list of ids: one document is collection[id]")
        if filter is not None or order_by is not None:
            raise InvalidInput("get takes ids, which come in their order, or filter= and order_by=, and not both")
        check_limits(limit, offset)
        reader, listed = self.reader, to_ids(ids, "get")
        chosen = listed[offset : None if limit is None else offset + limit]
        found = [() if reader is None else reader.document(document_id) for document_id in chosen]
        return [stored_document(chunks, vectors=vectors) if chunks else None for chunks in found]

    def __getitem__(self, document_id: str) -> Document:
        """DocumentMissing, which is a KeyError."""
        if not isinstance(document_id, str):
            what = type(document_id).__name__
            raise InvalidInput(f"collection[...] takes the id of a document, not {what}: scan() gives all documents")
        found = self.get([document_id])[0]
        if found is None:
            raise DocumentMissing(f"there is no document {document_id!r:.200}", document_id=document_id)
        return found

    def __contains__(self, document_id: object) -> bool:
        reader = self.reader
        return reader is not None and isinstance(document_id, str) and bool(reader.document(document_id))

    def __len__(self) -> int:
        """The number of documents."""
        reader = self.reader
        return 0 if reader is None else reader.documents

    @own_words
    def count(self, filter: Json | None = None) -> int:
        """The number of documents that pass a filter. InvalidFilter.

        Parameters:
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.

        Examples:
            >>> docs.count(), docs.count({"minutes": {"gte": 30}})
            (3, 1)
        """
        reader, parsed = self.reader, to_filter(filter)
        if reader is None:
            return 0
        count = reader.count_documents(parsed)
        self._unknown_fields(reader, parsed)
        return count

    @own_words
    def facets(self, *fields: str, filter: Json | None = None, limit: int | None = None) -> dict[str, Facet]:
        """By field, the values that it has among the documents that pass a filter, with the number of these documents
        that have each, the least and the greatest; with `limit` so many of the most frequent values, beside the number
        of `distinct` ones. InvalidInput, InvalidFilter.

        Parameters:
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            limit: Values of each field at most; None: all.
            *fields: Names of fields.

        Examples:
            >>> found = docs.facets("minutes")["minutes"]
            >>> found.counts, found.minimum, found.maximum, found.missing
            (((15, 1), (35, 1)), 15, 35, 1)
        """
        if not fields or not all(isinstance(field, str) for field in fields):
            raise InvalidInput('facets needs the names of fields, as in facets("price", "color")')
        if limit is not None:
            check_range("limit", limit, 1, MAX_LIMIT)
        reader, parsed = self.reader, to_filter(filter)
        if reader is None:
            return {field: Facet((), 0, 0, None, None) for field in fields}
        found = {field: reader.facet(field_name(field), parsed, limit=limit) for field in fields}
        self._unknown_fields(reader, parsed)
        return found

    @own_words
    def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """The text with its last word completed by the words of the collection, the most frequent first.

        Parameters:
            text: What was typed so far.
            limit: Completions at most.

        Examples:
            >>> docs.suggest("a hot gr")
            ['a hot grill']
        """
        if not isinstance(text, str):
            raise InvalidInput("the text to complete must be a string")
        check_range("limit", limit, 1, MAX_K)
        reader = self.reader
        return [] if reader is None or not reader.can.words else reader.completions(text, limit)

    def corrected(self, text: str) -> str | None:
        """The text of a search without what may be typing errors in it: words that the collection lacks, near words
        that it has or made of two, and neighbours that are one word of it. None where there is none. `search` asks what
        it is given.

        Parameters:
            text: What was typed.

        Examples:
            >>> docs.corrected("lentil suop")
            'lentil soup'
            >>> docs.corrected("lentil soup") is None
            True
        """
        if not isinstance(text, str):
            raise InvalidInput("the text to correct must be a string")
        reader = self.reader
        return None if reader is None or not reader.can.words else reader.corrected(text)

    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> Iterator[Document]: ...
    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str],
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> Iterator[dict[str, Any]]: ...
    @own_words
    def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str] | None = None,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: OrderBy | None = None,
    ) -> Iterator[Any]:
        """The documents that pass a filter, of the state at the time of the call: `limit` ones after the first
        `offset`, in the order of storage.

        `order_by` is a member or a metadata field, `"-price"` for the greatest first, or a list of them; documents that
        lack it come last, and equal ones by id. With `vectors`, a document of one chunk has its vectors by space, as
        they are stored. With `fields`, each is a dict of its id and those of the named members and metadata that it
        has, which reads no text unless that is named.

        Parameters:
            filter: Which documents, as [filters](../guide.md#for-programs) say it; None: all of them.
            fields: Members and metadata to return as a dict; None: whole documents.
            vectors: Whether documents of one chunk bring their vectors.
            limit: Documents at most.
            offset: Documents that are left out before them.
            order_by: A field, `"-field"` for the greatest first, or several.

        Examples:
            >>> sorted(document.id for document in docs.scan({"minutes": {"exists": True}}))
            ['soup', 'toast']
            >>> sorted(one["title"] for one in docs.scan(fields=["title"]))
            ['Bicycle', 'Soup', 'Toast']
        """
        names = [] if fields is None else to_names(fields, "fields")
        check_limits(limit, offset)
        order, reader = to_listing(order_by), self.reader
        found: Iterator[Sequence[RetrievedChunk]] = self._passing(reader, filter)
        if reader is not None:
            found = some_of(found, order, limit=limit, offset=offset, document=reader.document)
        if fields is None:
            return (stored_document(chunks, vectors=vectors) for chunks in found)
        return (select_members(chunks, names) for chunks in found)

    def _passing(self, reader: Reader | None, filter: Json | None) -> Iterator[list[RetrievedChunk]]:
        parsed = to_filter(filter)
        if reader is None:
            return iter(())
        found = documents(reader, parsed)
        self._unknown_fields(reader, parsed)
        return found

    def _unknown_fields(self, reader: Reader, filter: Filter | None) -> tuple[str, ...]:
        """The fields that a filter names and no document has; each is logged once."""
        unknown = () if filter is None else reader.unknown_fields(filter)
        self._log_unknown(unknown)
        return unknown

    def _log_unknown(self, fields: Iterable[str]) -> None:
        for name in fields:
            self._log(printable_name(name), "no document of %s has the field %s of a filter or an order")

    def _log(self, what: str, message: str) -> None:
        """A warning, once."""
        if what not in self._logged:
            self._logged.add(what)
            logger.warning(message, self.name, what)


def view_at(source: Source, name: str, spaces: Spaces, generation: int, policy: Policy) -> CollectionView:
    """GenerationMissing."""
    return CollectionView(source, name, spaces, source.open(name, generation=generation), policy=policy)
