"""From a RetrieveRequest to passages: checks state and domain, searches, applies the limits, writes the receipt.

It translates only: it reads no file itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aidre.api.access import Caller
from aidre.api.config import EditorialDomain, IntentSettings
from aidre.api.http import present
from aidre.api.protocols.intent.event_ledger import PassageCandidate, RecordedExchange, piece_of
from aidre.api.protocols.intent.intent_messages import IntentChunk, IntentCitation, IntentContent, RetrieveRequest
from aidre.api.protocols.intent.limits import document_chunk_limit, estimate_tokens, is_citable
from aidre.api.protocols.intent.receipts import Nonce, Receipts
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed, Denied, LatencyBudgetExceeded, NoResults
from aidre.api.retrieval import Retrieval, Served, VisibleCollection
from aidre.engine.errors import AidreError, ModelUnavailable
from aidre.engine.retrieve import Question
from aidre.engine.types import RetrievedChunk

NEXT_PAGE_HITS = 200
"""Hits of every page after the first. The first page has one and a half times as many as may be returned."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request and the key that signed it. `make_event` returns the access event for the tokens of its chunks."""

    request: RetrieveRequest
    key_id: str
    nonce: Nonce
    make_event: Callable[[Sequence[int]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SelectedPassage:
    """A chunk that may be returned, with its text read already: nothing may fail once its receipt is written."""

    candidate: PassageCandidate
    text: str
    title: str | None


def check_state(intent: IntentSettings, now: float) -> None:
    """Raises Denied if the publisher has disabled access or its sunset date has passed."""
    sunset = intent.compliance.sunset
    is_over = sunset is not None and datetime.fromtimestamp(now, UTC).date() > sunset
    if not intent.enabled or intent.state != "active" or is_over:
        raise Denied("access_disabled", "the publisher does not grant access at the moment")


def find_domain(intent: IntentSettings, domains: Sequence[str]) -> EditorialDomain:
    """The narrowest declared domain that equals one of `domains` or contains it; of equals the first. Raises Denied."""
    split = [domain.split(".") for domain in domains]
    enclosing = [".".join(words[:length]) for words in split for length in range(len(words), 0, -1)]
    declared = [name for name in enclosing if name in intent.editorial_domains]
    if not declared:
        raise Denied("out_of_scope", "the intent is outside the declared editorial domains")
    return intent.editorial_domains[max(declared, key=lambda name: name.count("."))]


async def retrieve_passages(
    retrieval: Retrieval, receipts: Receipts, signed: SignedRequest, now: float
) -> Sequence[SelectedPassage]:
    """The passages to return; their receipt is on disk.

    Raises Denied, NoResults, LatencyBudgetExceeded, RateLimited and AuthenticationFailed.
    """
    intent, request = retrieval.settings.intent, signed.request
    search = _authorized_search(retrieval, signed, now)
    budget = request.latency_budget if intent.enforce_latency_budget else None
    deadline = None if budget is None else asyncio.get_running_loop().time() + budget
    exchange = RecordedExchange.of(signed.key_id, request.request_id, request.session_id, search.collection.name)
    selected: list[SelectedPassage] = []
    hits, cursor, may_hold_reservation = intent.max_chunks * 3 // 2 + 1, None, False
    try:
        while True:
            async with asyncio.timeout_at(deadline):  # without `reserve`, which would continue in its thread
                served = await search.page(hits, cursor)
                offered = await _servable_passages(retrieval, intent, served)
            has_next = served.next_cursor is not None and served.answer.may_go_on
            page, may_hold_reservation = _PassagePage(selected, offered, has_next), True
            candidates = [passage.candidate for passage in offered]
            limits = intent.max_chunks - len(selected), intent.max_tokens - _token_count(selected)
            make_event = partial(_access_event, search, signed, page)
            selected = page.select(await receipts.reserve(signed.nonce, exchange, candidates, limits, make_event))
            if not _needs_page(intent, selected, page.has_next):
                break
            hits, cursor = NEXT_PAGE_HITS, served.next_cursor
    except AuthenticationFailed:
        raise  # a replay has reserved nothing
    except BaseException as error:
        if may_hold_reservation:
            await receipts.release(exchange)
        if isinstance(error, TimeoutError):
            raise LatencyBudgetExceeded("latency_budget_ms was exceeded") from error
        raise
    if not selected:
        raise NoResults("nothing that may be returned fits the request")
    return selected


def _authorized_search(retrieval: Retrieval, signed: SignedRequest, now: float) -> _PassageSearch:
    intent = retrieval.settings.intent
    check_state(intent, now)
    domain = find_domain(intent, signed.request.domains)
    settings = retrieval.collections.settings_of(domain.collection)
    if not intent.chunks or not settings.return_text or "intent" not in settings.protocols:
        raise Denied("unsupported", "the publisher does not return passages of this domain")
    # The domain grants access to its collection, even a private one, and to no other.
    caller = Caller(f"intent {signed.key_id}", frozenset({domain.collection}), vectors=False)
    collection = retrieval.collections.find(domain.collection, caller, "intent")
    return _PassageSearch(retrieval, collection, caller, signed.request.text, domain.filter)


@dataclass(frozen=True, slots=True)
class _PassagePage:
    """The passages of one page of hits, after those selected from earlier pages."""

    selected: Sequence[SelectedPassage]
    offered: Sequence[SelectedPassage]
    has_next: bool

    def select(self, indices: Sequence[int]) -> list[SelectedPassage]:
        """The selection with the offered passages at `indices` added."""
        return [*self.selected, *(self.offered[index] for index in indices)]


def _access_event(
    search: _PassageSearch, signed: SignedRequest, page: _PassagePage, indices: Sequence[int]
) -> Mapping[str, Any] | None:
    """The access event if this page completes the selection, else None.

    The chunk budget is checked and charged here, because concurrent answers may have used it up since the search.
    Raises RateLimited.
    """
    selected = page.select(indices)
    if not selected or _needs_page(search.retrieval.settings.intent, selected, page.has_next):
        return None
    search.charge_budget(passage.candidate.chunk_id for passage in selected)
    return signed.make_event([passage.candidate.tokens for passage in selected])


def _needs_page(intent: IntentSettings, selected: Sequence[SelectedPassage], has_next: bool) -> bool:
    """Whether to search the next page: only while another passage of average size would fit."""
    if not has_next or len(selected) >= intent.max_chunks:
        return False
    used = _token_count(selected)
    return not selected or intent.max_tokens - used >= used / len(selected)


def _token_count(passages: Sequence[SelectedPassage]) -> int:
    return sum(passage.candidate.tokens for passage in passages)


@dataclass(frozen=True, slots=True)
class _PassageSearch:
    """The search of one request in the collection that its domain opens."""

    retrieval: Retrieval
    collection: VisibleCollection
    caller: Caller
    text: str
    filter: Any

    async def page(self, hits: int, cursor: str | None = None) -> Served:
        question = Question(min(hits, self.retrieval.max_results), self.text, cursor=cursor, operators=False)
        return await self.retrieval.ask(
            self.collection, question, self.caller, "intent", filter=self.filter, charge=False
        )

    def charge_budget(self, chunk_ids: Iterable[str]) -> None:
        self.retrieval.check_budget(self.caller)
        self.retrieval.charge_budget(self.caller, self.collection, chunk_ids)


async def _servable_passages(retrieval: Retrieval, intent: IntentSettings, served: Served) -> list[SelectedPassage]:
    """The relevant hits of documents that may be served, best first: a partner pays for what fits."""
    documents: dict[Hashable, _DocumentFacts] = {}
    servable: list[tuple[str, str, bytes, _DocumentFacts]] = []
    stored_counts: list[int | None] = []
    for hit in served.answer.relevant:
        document_key, chunk_id, text, tokens, digest = hit.chunk.passage
        if not text.strip():  # a row of vectors alone
            continue
        document = documents.get(document_key)
        if document is None:
            document = documents[document_key] = _DocumentFacts.of(hit.chunk, intent)
        if document.chunk_limit > 0:
            servable.append((chunk_id, text, digest, document))
            stored_counts.append(tokens)
    counts = await _token_counts(retrieval, served.collection, stored_counts, [text for _, text, _, _ in servable])
    return [
        SelectedPassage(document.candidate(chunk_id, digest, tokens), text, document.title)
        for (chunk_id, text, digest, document), tokens in zip(servable, counts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _DocumentFacts:
    """The facts that all hits of a document share; `chunk_limit` is 0 if none of its chunks may be served.

    `hit` is one of its chunks.
    """

    id: str
    url: str | None
    title: str | None
    chunk_limit: int
    hit: RetrievedChunk

    @classmethod
    def of(cls, chunk: RetrievedChunk, intent: IntentSettings) -> _DocumentFacts:
        url = chunk.url
        is_cited = not intent.citations or is_citable(url)
        limit = document_chunk_limit(intent, chunk.document_chunk_count) if is_cited else 0
        return cls(chunk.document_id, url, chunk.title, limit, chunk)

    def candidate(self, chunk_id: str, digest: bytes, tokens: int) -> PassageCandidate:
        return PassageCandidate(chunk_id, self.id, digest, tokens, self.chunk_limit, self.url, self.present_pieces)

    def present_pieces(self) -> frozenset[bytes] | None:
        """The pieces that the document has now; None if they cannot be read."""
        try:
            return frozenset(piece_of(chunk_id, digest) for chunk_id, digest in self.hit.document_digests)
        except AidreError:
            return None


async def _token_counts(
    retrieval: Retrieval, collection: VisibleCollection, stored: Sequence[int | None], texts: Sequence[str]
) -> Sequence[int]:
    """Token counts of the texts: the stored count, else one by the collection's model, else an estimate."""
    complete = [count for count in stored if count is not None]
    if len(complete) == len(stored):
        return complete
    uncounted = [text for text, count in zip(texts, stored, strict=True) if count is None]
    space = next((space for space in collection.snapshot.collection.spaces if space.model is not None), None)
    counts: list[int] | None = None
    if space is not None:
        try:
            counts = await retrieval.embedders.count_tokens(space, uncounted)
        except ModelUnavailable:
            counts = None  # the search did without the model, and so can the count
    remaining = iter(counts if counts is not None else [estimate_tokens(text) for text in uncounted])
    return [next(remaining) if count is None else count for count in stored]


def render_content(passages: Sequence[SelectedPassage]) -> IntentContent:
    return IntentContent(
        chunks=[
            IntentChunk(id=passage.candidate.chunk_id, text=passage.text, token_count=passage.candidate.tokens)
            for passage in passages
        ]
    )


def render_citations(passages: Sequence[SelectedPassage], publisher: str) -> list[IntentCitation]:
    """One citation per document, with the ids of its returned chunks."""
    chunk_ids: dict[tuple[str, str | None], list[str]] = {}
    for passage in passages:
        document = str(passage.candidate.url), passage.title
        chunk_ids.setdefault(document, []).append(passage.candidate.chunk_id)
    return [
        IntentCitation(source_url=url, title=present(title or None), publisher=publisher, chunk_ids=ids)
        for (url, title), ids in chunk_ids.items()
    ]
