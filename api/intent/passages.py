"""RetrieveRequest to content: state, domain, limits, answer, in this order. Translation; it reads no file itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aidre.api.access import Caller
from aidre.api.intent.envelope import Denied, NoResults, TooLate
from aidre.api.intent.ledger import Candidate, Exchange
from aidre.api.intent.limits import estimated_tokens, is_citable, most_chunks
from aidre.api.intent.messages import RetrieveRequest
from aidre.api.intent.receipts import Receipts
from aidre.api.intent.settings import EditorialDomain, Intent, day_of
from aidre.api.retrieve import Answer, Question, Retrieval, Shown
from aidre.engine.errors import ModelUnavailable
from aidre.engine.segment import StoredChunk

LATER_PAGE = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that is returned."""

    chunk: StoredChunk
    tokens: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What a request gets, and under which name the ledger knows it."""

    passages: tuple[Passage, ...]
    exchange: Exchange


def check_state(intent: Intent, now: float) -> None:
    """Raises Denied."""
    sunset = day_of(intent.compliance.sunset, "sunset")
    over = sunset is not None and datetime.fromtimestamp(now, UTC).date() > sunset
    if not intent.enabled or intent.state != "active" or over:
        raise Denied("access_disabled", "the publisher does not grant access at the moment")


def scope_of(intent: Intent, domain: str) -> EditorialDomain:
    """The narrowest declared domain that is this one or above it; raises Denied."""
    words = domain.split(".")
    for length in range(len(words), 0, -1):
        declared = intent.editorial_domains.get(".".join(words[:length]))
        if declared is not None:
            return declared
    raise Denied("out_of_scope", "the intent is outside the declared editorial domains")


async def retrieve(retrieval: Retrieval, receipts: Receipts, asked: RetrieveRequest, key_id: str, now: float) -> Taken:
    """What may be returned; Denied, NoResults, TooLate. Give it back when the answer cannot leave."""
    intent = retrieval.settings.intent
    check_state(intent, now)
    scope = scope_of(intent, asked.domain)
    collection = retrieval.settings.collection(scope.collection)
    if not intent.chunks or not collection.return_text or "intent" not in collection.protocols:
        raise Denied("unsupported", "the publisher does not return passages of this domain")
    # The domain is the grant: to its collection, also a private one, and to nothing beside.
    caller = Caller(f"intent {key_id}", frozenset({scope.collection}), vectors=False)
    search = _Search(retrieval, retrieval.find(scope.collection, caller, "intent"), caller, asked, scope)
    budget = asked.latency_budget if intent.enforce_latency_budget else None
    deadline = None if budget is None else asyncio.get_running_loop().time() + budget
    passages: list[Passage] = []
    exchange = Exchange.of(key_id, asked.request_id, asked.session_id)
    size, cursor = intent.max_chunks * 3 // 2 + 1, None
    try:
        while len(passages) < intent.max_chunks and size:
            async with asyncio.timeout_at(deadline):  # not what takes: it would go on in its thread
                found = await search.page(size, cursor)
                candidates = await _candidates(retrieval, intent, found)
            offered = [candidate for candidate, _ in candidates]
            left = intent.max_tokens - sum(passage.tokens for passage in passages)
            places = await receipts.take(exchange, offered, intent.max_chunks - len(passages), left)
            passages += [candidates[place][1] for place in places]
            size, cursor = LATER_PAGE if found.next_cursor else 0, found.next_cursor
            if passages and _nearly_full(passages, intent.max_tokens):
                break
    except BaseException as error:
        if passages:
            await receipts.give_back(exchange)
        if isinstance(error, TimeoutError):
            raise TooLate("latency_budget_ms was exceeded") from error
        raise
    if not passages:
        raise NoResults("nothing that may be returned fits the request")
    return Taken(tuple(passages), exchange)


def _nearly_full(passages: Sequence[Passage], tokens: int) -> bool:
    """Whether another passage of the same size would not fit: it is not worth looking further for a small one."""
    used = sum(passage.tokens for passage in passages)
    return tokens - used < used / len(passages)


@dataclass(frozen=True, slots=True)
class _Search:
    retrieval: Retrieval
    shown: Shown
    caller: Caller
    asked: RetrieveRequest
    scope: EditorialDomain

    async def page(self, size: int, cursor: str | None = None) -> Answer:
        question = Question(
            min(size, self.retrieval.results_most), self.asked.text, filter=self.scope.filter, cursor=cursor
        )
        return await self.retrieval.search(self.shown, question, self.caller, "intent")


async def _candidates(retrieval: Retrieval, intent: Intent, found: Answer) -> list[tuple[Candidate, Passage]]:
    documents: dict[tuple[str, int], _Document] = {}
    offered: list[tuple[StoredChunk, _Document]] = []
    for hit in found.hits:
        place = hit.chunk.document_place
        if place not in documents:
            documents[place] = _Document.of(hit.chunk, intent)
        if documents[place].most > 0:
            offered.append((hit.chunk, documents[place]))
    counts = await _tokens(retrieval, found.shown, [chunk for chunk, _ in offered])
    return [
        (
            Candidate(chunk.id, document.id, chunk.digest, tokens, document.most, document.url),
            Passage(chunk, tokens),
        )
        for (chunk, document), tokens in zip(offered, counts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Document:
    """What all hits of a document share; `most` is 0 where nothing of it may leave."""

    id: str
    url: str | None
    most: int

    @classmethod
    def of(cls, chunk: StoredChunk, intent: Intent) -> _Document:
        url = chunk.url
        cited = not intent.citations or is_citable(url)
        return cls(chunk.document_id, url, most_chunks(intent, chunk.document_chunks) if cited else 0)


async def _tokens(retrieval: Retrieval, shown: Shown, chunks: Sequence[StoredChunk]) -> list[int]:
    """Tokens of each: counted at ingest, else by the model of the collection, else estimated."""
    counts = [chunk.token_count for chunk in chunks]
    texts = [chunk.text for chunk, count in zip(chunks, counts, strict=True) if count is None]
    if not texts:
        return [count for count in counts if count is not None]
    space = next((space for space in shown.snapshot.collection.spaces if space.model is not None), None)
    counted: list[int] | None = None
    if space is not None:
        try:
            counted = await retrieval.texts.count_tokens(space, texts)
        except ModelUnavailable:
            counted = None  # as the search did without it, so does the counting
    rest = iter(counted if counted is not None else [estimated_tokens(text) for text in texts])
    return [next(rest) if count is None else count for count in counts]


def render(taken: Taken, intent: Intent, publisher: Mapping[str, str]) -> dict[str, Any]:
    """The members of an ok answer beside its head."""
    content: dict[str, Any] = {
        "content": {
            "chunks": [
                {"id": one.chunk.id, "text": one.chunk.text, "token_count": one.tokens} for one in taken.passages
            ]
        }
    }
    if intent.citations:
        content["citations"] = _citations(taken.passages, publisher["name"])
    content["limits_applied"] = {"max_chunks": intent.max_chunks, "max_tokens": intent.max_tokens}
    return content


def _citations(passages: Sequence[Passage], publisher: str) -> list[dict[str, Any]]:
    """One for every document, over exactly its chunks."""
    cited: dict[tuple[str, str | None], list[str]] = {}
    for passage in passages:
        cited.setdefault((str(passage.chunk.url), passage.chunk.title), []).append(passage.chunk.id)
    return [
        {"source_url": url, **({"title": title} if title else {}), "publisher": publisher, "chunk_ids": ids}
        for (url, title), ids in cited.items()
    ]
