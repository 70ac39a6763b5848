"""Searches: the body of a request, the pages of an answer, and how pages become one list of hits.

A server keeps the state that a cursor reads for a while only. When a cursor ends early (409), `search` begins again and
forgets what it has: its hits are of one state. An iteration over pages has given hits away already; it begins again,
too, and leaves out the chunks that it has given, so that no chunk comes twice and none that is still found is left out;
from then on the hits are of the newer state. With `restart=False` the iteration raises Conflict instead.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from aidre_client.chunks import RemoteChunk, to_chunk, to_facet, to_hit
from aidre_client.embedding import LocalEmbedding
from aidre_client.errors import (
    AccessDenied,
    CollectionMissing,
    Conflict,
    DimensionMismatch,
    InvalidFilter,
    InvalidInput,
    Missing,
    RequestFailed,
    SpaceMissing,
    Unsupported,
)
from aidre_client.exchange import Steps, decode, invalid_answer
from aidre_client.messages import (
    ChunkAnswer,
    CollectionInfo,
    CollectionList,
    DeclaredSpace,
    Discovery,
    SearchAnswer,
    SuggestionsAnswer,
)
from aidre_client.session import ClientSession, encode, expand
from aidre_client.values import (
    Direction,
    FacetRequest,
    Facets,
    FusionMethod,
    Group,
    HighlightLimits,
    Hit,
    Hits,
    Json,
    SearchOrder,
    Weights,
    check_fusion,
    check_group,
    check_least,
    check_mode,
    check_range,
    check_recall,
    check_space_id,
    check_text,
    need_numpy,
    to_base64,
    to_field_order,
    to_ids,
    to_json_filter,
    to_limits,
    to_members,
    to_requests,
    to_vector,
    to_weight,
)

MAX_K = 10_000
"""Most hits of a search, as of a local one."""
MAX_RESTARTS = 3
"""How often one operation begins again because its cursor has ended."""
MAX_IDLE_PAGES = 100
"""Pages in a row that bring no new hit, before the server counts as broken."""
_QUOTES = frozenset('"“„«「')
_NUMBER = re.compile(r"\d|\b(?:hundred|thousand|million)\b", re.IGNORECASE)
_COMPARISON = re.compile(
    r"[<>≤≥+$€£]|\b(?:under|below|over|above|than|least|most|up to|between|from|since|after|before|until|in|or|euros?|"
    r"dollars?|pounds?|unter|über|bis|seit|nach|vor|ab|zwischen|mindestens|höchstens|moins|plus|après|avant|depuis|entre|"
    r"menos|más|después|antes|desde|hasta)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\b(?:newest|latest|recent|oldest|earliest|cheapest|expensive|priciest|price|rated|last|past|this year|"
    r"neueste[nrs]?|älteste[nrs]?|billigste[nrs]?|günstigste[nrs]?|teuerste[nrs]?|récente?s?|ancien|ancienne|chère?s?|"
    r"recientes?|barat[oa]s?|car[oa]s?)\b",
    re.IGNORECASE,
)
"""What conditions in words have in them: a number and a comparison, or an order. Other texts may be embedded here."""
ListedCollections: Any = CollectionList | list[CollectionInfo | str]


@dataclass(frozen=True, slots=True)
class SearchInput:
    """What a program asks for: exactly one of `text` and `vector`, already checked."""

    text: str | None
    vector: array[float] | None
    filter: Json
    mode: str | None
    space: str | None
    min_score: float | None
    payload: bool
    vectors: bool
    correct: bool = False
    """Whether the server may answer the text without what may be typing errors in it."""
    facets: tuple[FacetRequest, ...] = ()
    highlight: HighlightLimits | None = None
    operators: bool = True
    """Whether the server may read quotes, `-word` and conditions in the text."""
    group: Group = "chunk"
    collapse: bool = True
    """Whether near-copies of a document count as one."""
    recall: float | None = None
    order: tuple[str, Direction] | None = None
    weight: float | None = None
    """That of vectors in a hybrid search; that of words is the rest."""
    fusion: FusionMethod | None = None

    @property
    def needs_words(self) -> bool:
        """Whether the answer depends on the words of the text, and not on its vector alone."""
        return self.highlight is not None or self.correct or self.weight is not None or self.fusion is not None

    @property
    def may_have_operators(self) -> bool:
        """Whether the server may find operators or conditions in the text."""
        text = self.text if self.operators and self.text is not None else ""
        has_condition = _ORDER.search(text) or (_NUMBER.search(text) and _COMPARISON.search(text))
        return " -" in text or not _QUOTES.isdisjoint(text) or has_condition is not None


def to_search_input(
    text: str | None,
    vector: Any,
    *,
    filter: Json,
    mode: str | None,
    space: str | None,
    min_score: float | None,
    payload: bool,
    vectors: bool,
    correct: bool = False,
    operators: bool = True,
    facets: Facets | None = None,
    highlight: bool | HighlightLimits = False,
    group: Group = "chunk",
    collapse: bool = True,
    recall: float | None = None,
    order: SearchOrder | None = None,
    weights: Weights | None = None,
    fusion: FusionMethod | None = None,
) -> SearchInput:
    """InvalidInput, with the rules of a local search."""
    if (text is None) == (vector is None):
        raise InvalidInput("search needs a text or vector=, and not both")
    check_mode(mode)
    check_group(group)
    check_recall(recall)
    check_fusion(fusion)
    if text is not None:
        check_text(text)
    check_filter(filter)
    check_space_id(space)
    check_least(min_score)
    if vector is not None and mode not in {None, "dense"}:
        raise InvalidInput(f"mode {mode} needs a text: a vector has no words")
    ordered, weight = to_field_order(order), to_weight(weights)
    if vector is not None or mode not in {None, "hybrid"}:
        for name, value in {"weights": weight, "fusion": fusion}.items():
            if value is not None:
                raise InvalidInput(f"{name}= is for hybrid search, and this one is {mode or 'dense'}: leave it out")
    numbers = None if vector is None else to_vector(vector)
    if vectors:
        need_numpy()
    limits = to_limits(highlight)
    if limits is not None and text is None:
        raise InvalidInput("highlight needs a text: a vector has no words")
    return SearchInput(
        text,
        numbers,
        filter,
        mode,
        space,
        min_score,
        payload,
        vectors,
        correct=correct,
        facets=() if facets is None else to_requests(facets),
        highlight=limits,
        operators=operators,
        group=group,
        collapse=collapse,
        recall=None if recall is None else float(recall),
        order=ordered,
        weight=weight,
        fusion=fusion,
    )


def check_filter(filter: Any) -> None:
    """Whether it can be sent; its grammar is checked by the server."""
    if filter is not None and not isinstance(filter, Mapping):
        raise InvalidInput("a filter is a mapping, such as {'topic': 'gold'}")
    try:
        encode({"filter": filter})
    except InvalidInput as error:
        raise InvalidFilter(error.message) from error


@dataclass(slots=True)
class RemoteReader:
    """One collection of a server; `name` None is the collection that the server searches if none is named."""

    session: ClientSession
    embedding: LocalEmbedding
    name: str | None
    _withholds_text: bool = field(default=False, init=False)
    _sends_text: bool = field(default=False, init=False)
    _info: CollectionInfo | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise InvalidInput("the name of a collection is a string that is not empty")

    # -- search ------------------------------------------------------------------------------------------------------

    def search(self, request: SearchInput, k: int, offset: int) -> Steps[Hits]:
        """The best `k` hits after `offset`, all of one state of the collection."""
        check_range("k", k, 1, MAX_K)
        check_range("offset", offset, 0, MAX_K)
        wanted = k + offset
        found = yield from self.session.discovery()
        bound = found.limit("results")
        if bound is not None and wanted > bound and found.can("pagination"):
            raise InvalidInput(f"the server gives at most {bound} results of a search: ask for less", most=bound)
        for restart in range(MAX_RESTARTS + 1):
            pager = Pager(self, request, wanted)
            hits: list[Hit[RemoteChunk]] = []
            try:
                while len(hits) < wanted:
                    page = yield from pager.next_page()
                    if page is None:
                        break
                    hits += page
                break
            except Conflict:
                if restart == MAX_RESTARTS or not pager.cursor:
                    raise
        if len(hits) < wanted and pager.is_clamped:
            raise Unsupported(
                f"the server gives at most {pager.applied} results of a search, and no further pages",
                capability="pagination",
            )
        least = request.min_score
        return pager.answered([hit for hit in hits[offset:wanted] if least is None or hit.score >= least])

    def pager(self, request: SearchInput, size: int, restart: bool) -> Pager:
        """The pages of a search, of at most `size` hits."""
        check_range("size", size, 1, MAX_K)
        return Pager(self, request, size, restart)

    def page(self, request: SearchInput, members: dict[str, Any], k: int, cursor: str | None) -> Steps[SearchAnswer]:
        """One page, as the server gives it; without texts where the collection withholds them."""
        url = yield from self.session.endpoint("search")
        if cursor is None and request.facets:  # they are those of all matches
            members = members | {"facets": list(map(to_members, request.facets))}
        while True:
            body = {**members, "top_k": k, "return": self._fields(request)}
            if cursor is not None:
                body["cursor"] = cursor
            try:
                response = yield from self.session.respond("POST", url, encode(body), collection=self.name)
            except InvalidInput as error:
                refused = error.details.get("error"), error.details.get("field")
                if self._withholds_text or refused != ("unsupported_return_field", "text"):
                    raise _of_filter(error, request) from None
                self._withholds_text = True
                continue
            answer = decode(response, SearchAnswer)
            if cursor is not None and answer.meta.next_cursor == cursor:
                raise invalid_answer(response, "the next page is the same page")
            return answer

    def _fields(self, request: SearchInput) -> dict[str, bool]:
        more = {"semantic_payload": request.payload, "vectors": request.vectors}
        asked_for = {name: True for name, is_asked in more.items() if is_asked}
        return {"ids": True, "metadata": True, "text": not self._withholds_text, **asked_for}

    def members(self, request: SearchInput) -> Steps[dict[str, Any]]:
        """The members of a request that all of its pages share."""
        found = yield from self.session.discovery()
        members: dict[str, Any] = {} if self.name is None else {"collection": self.name}
        if request.filter is not None:
            if not found.can("filter"):
                raise Unsupported("the server has no filters: it would ignore this one", capability="filter")
            members["filter"] = to_json_filter(request.filter)
        shared = {
            "group": None if request.group == "chunk" else request.group,
            "recall": request.recall,
            "order": None if request.order is None else dict(zip(("field", "direction"), request.order, strict=True)),
            "weights": None if request.weight is None else {"dense": request.weight, "lexical": 1 - request.weight},
            "fusion": request.fusion,
        }
        for name, value in {"facets": request.facets, "highlight": request.highlight, **shared}.items():
            if value and name not in found.extensions:
                raise Unsupported(f"the server has no {name}", capability=name)
        members |= {name: value for name, value in shared.items() if value is not None}
        if request.group != "chunk" and not request.collapse:
            members["collapse"] = False
        local = yield from self._embed(request, found)
        if local is not None:
            space, vector = local
            return members | {"embedding_space": space, "query_vector": _encode_vector(vector, found)}
        members["query"] = request.text
        if "correct" in found.extensions:  # by default; a list of hits could not say what was asked instead
            members["correct"] = request.correct
        if "operators" in found.extensions and not request.operators:
            members["operators"] = False
        if request.highlight is not None:
            members["highlight"] = asdict(request.highlight)
        if request.space is not None:
            members["embedding_space"] = request.space
        if request.mode is not None:
            if request.mode not in (found.modes or ()):
                raise Unsupported(f"the server does not search in mode {request.mode}", capability=request.mode)
            members["mode"] = request.mode
        return members

    def _embed(self, request: SearchInput, found: Discovery) -> Steps[tuple[str, array[float]] | None]:
        """The space and the vector of a search by vector; None for a search by text."""
        if request.vector is not None:
            space = _space_of(found, request.space, request.vector)
            return space.id, request.vector
        if self._sends_text or not self.embedding.applies(request.mode):
            return None
        if request.needs_words or (request.may_have_operators and self.embedding.where == "auto"):
            if self.embedding.where == "local":
                raise InvalidInput(
                    "highlight, correct, weights and fusion need the text, which embed='local' does not send"
                )
            return None
        if not found.can("query_vector") and self.embedding.where == "auto":
            return None
        spaces = yield from self._spaces(found)
        return self.embedding.embed(request.text or "", spaces, request.space)

    def _spaces(self, found: Discovery) -> Steps[list[DeclaredSpace]]:
        """The spaces of this collection, as far as the server says which they are."""
        names = None
        if self.name is not None and found.endpoints.collections is not None:
            info = yield from self.info()
            names = info.embedding_spaces
        return [space for space in found.embedding_spaces if names is None or space.id in names]

    def send_text(self, request: SearchInput) -> bool:
        """Send this text, and those that follow, where the server did not take its vector; False if it must not be."""
        may = request.text is not None and self.embedding.where == "auto" and not self._sends_text
        self._sends_text = self._sends_text or may
        return may

    # -- look-up -----------------------------------------------------------------------------------------------------

    def suggest(self, text: str, limit: int) -> Steps[list[str]]:
        """Completions of a text; an extension of AIDRE."""
        if not isinstance(text, str):
            raise InvalidInput("the text to complete must be a string")
        check_range("limit", limit, 1, MAX_K)
        template = (yield from self.session.discovery()).endpoints.suggest
        if template is None:
            raise Unsupported("the server completes no texts", capability="suggest")
        url = expand(template, name=(yield from self.known_name())) + expand(
            "?q={q}&limit={limit}", q=text, limit=str(limit)
        )
        response = yield from self.session.respond("GET", url, collection=self.name)
        return decode(response, SuggestionsAnswer).suggestions

    def info(self) -> Steps[CollectionInfo]:
        """What the server lists about the collection. CollectionMissing."""
        if self._info is None:
            listed = yield from list_collections(self.session)
            found = [info for info in listed if info.name == self.name] if self.name is not None else listed
            if len(found) != 1:
                raise CollectionMissing(f"{self.session.url} lists no collection {self.name!r}", collection=self.name)
            self._info = found[0]
        return self._info

    def known_name(self) -> Steps[str]:
        """The name of the collection; of an unnamed one that of the only one there is."""
        return self.name or (yield from self.info()).name

    def chunk(self, chunk_id: str) -> Steps[RemoteChunk]:
        """A chunk by its id, with its signed statement verified. Missing."""
        if not isinstance(chunk_id, str) or not chunk_id:
            raise InvalidInput("the id of a chunk is a string that is not empty")
        template = yield from self.session.endpoint("chunk")
        url = expand(template, id=chunk_id, **({} if self.name is None else {"collection": self.name}))
        if self.name is not None and "{?collection}" not in template:
            url += ("&" if "?" in url else "?") + expand("collection={name}", name=self.name)
        response = yield from self.session.respond("GET", url, collection=self.name)
        sent = decode(response, ChunkAnswer)
        if sent.id not in {None, chunk_id}:
            raise invalid_answer(response, "the chunk is another one")
        sent = msgspec.structs.replace(sent, id=chunk_id)
        yield from self.session.verifier.check_chunk(url, sent, self.session.retry.clock())
        return to_chunk(sent, sent.collection or self.name)

    def chunks(self, chunk_ids: Sequence[str]) -> Steps[list[RemoteChunk | None]]:
        """The chunks with these ids, in their order; None for one that is not there."""
        found: list[RemoteChunk | None] = []
        for chunk_id in to_ids(chunk_ids, "chunks"):
            try:
                found.append((yield from self.chunk(chunk_id)))
            except CollectionMissing:
                raise
            except Missing:
                found.append(None)
        return found


def list_collections(session: ClientSession) -> Steps[list[CollectionInfo]]:
    url = yield from session.endpoint("collections")
    response = yield from session.respond("GET", expand(url))
    answer: CollectionList | list[CollectionInfo | str] = decode(response, ListedCollections)
    listed = answer.collections if isinstance(answer, CollectionList) else answer
    found = [CollectionInfo(entry) if isinstance(entry, str) else entry for entry in listed]
    return [info for info in found if info.name]


@dataclass(slots=True)
class Pager:
    """The pages of one search. `size` is how many hits a page has at most; with `restart` it begins again where a
    cursor has ended, and leaves out what it has given."""

    reader: RemoteReader
    request: SearchInput
    size: int
    restart: bool = False
    cursor: str | None = field(default=None, init=False)
    applied: int | None = field(default=None, init=False)
    is_clamped: bool = field(default=False, init=False)
    _given: set[str] = field(default_factory=set, init=False)
    _restarts: int = field(default=0, init=False)
    _idle: int = field(default=0, init=False)
    _members: dict[str, Any] | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _first: SearchAnswer | None = field(default=None, init=False)

    def answered(self, hits: list[Hit[RemoteChunk]]) -> Hits:
        """Some of the hits that the pages had, with what the first page says of all."""
        answer = Hits(hits)
        chunks = [hit.chunk for hit in hits]
        known = [chunk.relevance for chunk in chunks if chunk.relevance is not None]
        answer.set_relevance(known if len(known) == len(hits) and self.request.text is not None else None)
        if self.request.group == "document":
            least = -math.inf if self.request.min_score is None else self.request.min_score
            answer.copies = [chunk.copies for chunk in chunks]
            answer.passages = [[passage for passage in chunk.passages if passage.score >= least] for chunk in chunks]
        answer.highlights = [chunk.highlight for chunk in chunks if chunk.highlight is not None]
        if self._first is not None:
            answer.facets = {name: to_facet(facet) for name, facet in self._first.facets.items()}
            answer.corrected, answer.suggestion = self._first.meta.corrected, self._first.meta.suggestion
            answer.understood, answer.unknown_fields = self._first.meta.understood, tuple(self._first.meta.ignored)
        return answer

    def next_page(self) -> Steps[list[Hit[RemoteChunk]] | None]:
        """The hits of the next page that has any; None after the last one. Conflict where a cursor has ended."""
        while not self._ended:
            if self._members is None:
                self._members = yield from self.reader.members(self.request)
            found = yield from self.reader.session.discovery()
            size = min(self.size, found.limit("top_k") or self.size)
            try:
                answer = yield from self.reader.page(self.request, self._members, size, self.cursor)
            except Conflict:
                if not self._may_restart():
                    raise
                continue
            except AccessDenied:
                if "query_vector" not in self._members or not self.reader.send_text(self.request):
                    raise
                self._members = None
                continue
            if self.cursor is None:
                self._first = answer
            hits = self._taken(answer)
            if hits:
                return hits
        return None

    def _may_restart(self) -> bool:
        if self.cursor is None or not self.restart or self._restarts == MAX_RESTARTS:
            return False
        self._restarts += 1
        self.cursor = None
        return True

    def _taken(self, answer: SearchAnswer) -> list[Hit[RemoteChunk]]:
        """The hits of a page that are new. RequestFailed where the server never comes to an end."""
        hits = [to_hit(result, answer.collection or self.reader.name) for result in answer.results]
        new = []
        for hit in hits:
            key = hit.document_id if self.request.group == "document" else hit.id
            if key and key in self._given:
                continue
            self._given.add(key)
            new.append(hit)
        self.applied, self.cursor = answer.meta.top_k, answer.meta.next_cursor
        self._ended = self.cursor is None
        self._idle = 0 if new else self._idle + 1
        if self._ended:
            self.is_clamped = self.applied is not None and self.applied < self.size and len(hits) >= self.applied
        elif self._idle > MAX_IDLE_PAGES or (hits and not new and not self._restarts):
            url = self.reader.session.url
            raise RequestFailed(f"{url} repeats the pages of a search", url=url, error="invalid_answer")
        return new


def to_queries(queries: Any) -> list[Any]:
    """Texts, or the rows of a matrix. InvalidInput."""
    is_list = isinstance(queries, Iterable) and not isinstance(queries, str | bytes | Mapping)
    listed = list(queries) if is_list else []
    texts = sum(isinstance(query, str) for query in listed)
    if not is_list or 0 < texts < len(listed):
        raise InvalidInput("search_many needs a list of texts, or a matrix of vectors")
    return listed


def to_batch_input(
    query: Any,
    *,
    filter: Json,
    mode: str | None,
    space: str | None,
    operators: bool,
    recall: float | None,
    fusion: FusionMethod | None,
) -> SearchInput:
    text, vector = (query, None) if isinstance(query, str) else (None, query)
    return to_search_input(
        text,
        vector,
        filter=filter,
        mode=mode,
        space=space,
        min_score=None,
        payload=False,
        vectors=False,
        operators=operators,
        recall=recall,
        fusion=fusion,
    )


def _of_filter(error: InvalidInput, request: SearchInput) -> InvalidInput:
    """A server need not say which member it refuses: it is the filter where its message names that first."""
    text = error.message.removeprefix(f"{error.details.get('url')}: ")
    named = error.details.get("member", text.lower())
    if request.filter is None or type(error) is not InvalidInput or not str(named).startswith("filter"):
        return error
    return InvalidFilter(error.message, **error.details)


def _space_of(found: Discovery, wanted: str | None, vector: array[float]) -> DeclaredSpace:
    """The space of a vector: the one that is named, or the only one of its length."""
    if wanted is None:
        fitting = [space for space in found.embedding_spaces if space.dimensions == len(vector)]
        if len(fitting) == 1:
            return fitting[0]
        ids = [space.id for space in found.embedding_spaces]
        raise InvalidInput(f"name the space of the vector by space=: the server has {ids}")
    for space in found.embedding_spaces:
        if space.id == wanted:
            if len(vector) != space.dimensions:
                raise DimensionMismatch(
                    f"the vector has {len(vector)} dimensions, space {wanted!r} has {space.dimensions}",
                    embedding_space=wanted,
                    expected_dimensions=space.dimensions,
                    actual_dimensions=len(vector),
                )
            return space
    raise SpaceMissing(f"the server has no embedding space {wanted!r}", embedding_space=wanted)


def _encode_vector(vector: array[float], found: Discovery) -> str | list[float]:
    """As base64 where the server takes that; else as numbers."""
    extension = found.extensions.get("query_vector")
    return to_base64(vector) if isinstance(extension, dict) and "base64" in extension else vector.tolist()
