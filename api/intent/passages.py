"""RetrieveRequest to content: state, domain, limits, answer, in this order. Translation; it reads no file itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aidre.api.access import Caller
from aidre.api.intent.envelope import AuthenticationFailed, Denied, NoResults, TooLate
from aidre.api.intent.ledger import Candidate, Exchange
from aidre.api.intent.limits import estimated_tokens, is_citable, most_chunks
from aidre.api.intent.messages import RetrieveRequest
from aidre.api.intent.receipts import Nonce, Receipts
from aidre.api.intent.settings import EditorialDomain, Intent, day_of
from aidre.api.retrieve import Answer, Question, Retrieval, Shown
from aidre.engine.errors import ModelUnavailable
from aidre.engine.segment import StoredChunk

LATER_PAGE = 200


@dataclass(frozen=True, slots=True)
class Asking:
    """A request, whose it is, and how its access event is made from the tokens of what it gets."""

    request: RetrieveRequest
    key_id: str
    nonce: Nonce
    event: Callable[[Sequence[int]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that could be returned, read as a whole: once its receipt is written nothing may fail any more."""

    candidate: Candidate
    text: str
    title: str | None


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


async def retrieve(retrieval: Retrieval, receipts: Receipts, asking: Asking, now: float) -> Sequence[Passage]:
    """What is returned, with its receipt on disk; Denied, NoResults, TooLate, AuthenticationFailed."""
    intent, asked = retrieval.settings.intent, asking.request
    check_state(intent, now)
    scope = scope_of(intent, asked.domain)
    collection = retrieval.settings.collection(scope.collection)
    if not intent.chunks or not collection.return_text or "intent" not in collection.protocols:
        raise Denied("unsupported", "the publisher does not return passages of this domain")
    # The domain is the grant: to its collection, also a private one, and to nothing beside.
    caller = Caller(f"intent {asking.key_id}", frozenset({scope.collection}), vectors=False)
    search = _Search(retrieval, retrieval.find(scope.collection, caller, "intent"), caller, asked, scope)
    budget = asked.latency_budget if intent.enforce_latency_budget else None
    deadline = None if budget is None else asyncio.get_running_loop().time() + budget
    taken: list[Passage] = []
    exchange = Exchange.of(asking.key_id, asked.request_id, asked.session_id)
    size, cursor, tried = intent.max_chunks * 3 // 2 + 1, None, False
    try:
        while True:
            async with asyncio.timeout_at(deadline):  # not what takes: it would go on in its thread
                found = await search.page(size, cursor)
                offered = await _passages(retrieval, intent, found)
            page, tried = _Page(taken, offered, found.next_cursor is not None), True
            candidates = [one.candidate for one in offered]
            most = intent.max_chunks - len(taken), intent.max_tokens - _tokens(taken)
            places = await receipts.take(
                asking.nonce, exchange, candidates, most, partial(_receipt, search, asking, page)
            )
            taken = page.after(places)
            if not _goes_on(intent, taken, page.more):
                break
            size, cursor = LATER_PAGE, found.next_cursor
    except AuthenticationFailed:
        raise  # which has taken nothing
    except BaseException as error:
        if tried:
            await receipts.give_back(exchange)
        if isinstance(error, TimeoutError):
            raise TooLate("latency_budget_ms was exceeded") from error
        raise
    if not taken:
        raise NoResults("nothing that may be returned fits the request")
    return taken


@dataclass(frozen=True, slots=True)
class _Page:
    """What is offered by one page of hits to a request that has taken something already."""

    taken: Sequence[Passage]
    offered: Sequence[Passage]
    more: bool

    def after(self, places: Sequence[int]) -> list[Passage]:
        """All that is taken when these are taken, too."""
        return [*self.taken, *(self.offered[place] for place in places)]


def _receipt(search: _Search, asking: Asking, page: _Page, places: Sequence[int]) -> Mapping[str, Any] | None:
    """The access event, as soon as all is found that is going to be returned, which is counted as given here: others
    that are answered at the same time may have used the budget up. RateLimited."""
    returned = page.after(places)
    if not returned or _goes_on(search.retrieval.settings.intent, returned, page.more):
        return None
    search.give(one.candidate.chunk_id for one in returned)
    return asking.event([one.candidate.tokens for one in returned])


def _goes_on(intent: Intent, taken: Sequence[Passage], more: bool) -> bool:
    """Whether to look at the next page: not where another passage of the same size would not fit."""
    if not more or len(taken) >= intent.max_chunks:
        return False
    used = _tokens(taken)
    return not taken or intent.max_tokens - used >= used / len(taken)


def _tokens(taken: Sequence[Passage]) -> int:
    return sum(one.candidate.tokens for one in taken)


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
        return await self.retrieval.search(self.shown, question, self.caller, "intent", gives=False)

    def give(self, ids: Iterable[str]) -> None:
        self.retrieval.check_budget(self.caller)
        self.retrieval.give(self.caller, self.shown, ids)


async def _passages(retrieval: Retrieval, intent: Intent, found: Answer) -> list[Passage]:
    """What of the hits may be returned at all, best first."""
    documents: dict[tuple[str, int], _Document] = {}
    offered: list[tuple[str, str, bytes, _Document]] = []
    known: list[int | None] = []
    for hit in found.hits:
        place, identifier, text, tokens, digest = hit.chunk.passage
        document = documents.get(place)
        if document is None:
            document = documents[place] = _Document.of(hit.chunk, intent)
        if document.most > 0:
            offered.append((identifier, text, digest, document))
            known.append(tokens)
    counts = await _counted(retrieval, found.shown, known, [text for _, text, _, _ in offered])
    return [
        Passage(Candidate(identifier, document.id, digest, tokens, document.most, document.url), text, document.title)
        for (identifier, text, digest, document), tokens in zip(offered, counts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Document:
    """What all hits of a document share; `most` is 0 where nothing of it may leave."""

    id: str
    url: str | None
    title: str | None
    most: int

    @classmethod
    def of(cls, chunk: StoredChunk, intent: Intent) -> _Document:
        url = chunk.url
        cited = not intent.citations or is_citable(url)
        return cls(chunk.document_id, url, chunk.title, most_chunks(intent, chunk.document_chunks) if cited else 0)


async def _counted(
    retrieval: Retrieval, shown: Shown, counts: Sequence[int | None], texts: Sequence[str]
) -> Sequence[int]:
    """Tokens of each: counted at ingest, else by the model of the collection, else estimated."""
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return known
    rest = [text for text, count in zip(texts, counts, strict=True) if count is None]
    space = next((space for space in shown.snapshot.collection.spaces if space.model is not None), None)
    counted: list[int] | None = None
    if space is not None:
        try:
            counted = await retrieval.texts.count_tokens(space, rest)
        except ModelUnavailable:
            counted = None  # as the search did without it, so does the counting
    added = iter(counted if counted is not None else [estimated_tokens(text) for text in rest])
    return [next(added) if count is None else count for count in counts]


def render(passages: Sequence[Passage], intent: Intent, publisher: Mapping[str, str]) -> dict[str, Any]:
    """The members of an ok answer beside its head."""
    chunks = [{"id": one.candidate.chunk_id, "text": one.text, "token_count": one.candidate.tokens} for one in passages]
    content: dict[str, Any] = {"content": {"chunks": chunks}}
    if intent.citations:
        content["citations"] = _citations(passages, publisher["name"])
    content["limits_applied"] = {"max_chunks": intent.max_chunks, "max_tokens": intent.max_tokens}
    return content


def _citations(passages: Sequence[Passage], publisher: str) -> list[dict[str, Any]]:
    """One for every document, over exactly its chunks."""
    cited: dict[tuple[str, str | None], list[str]] = {}
    for passage in passages:
        key = str(passage.candidate.url), passage.title
        cited.setdefault(key, []).append(passage.candidate.chunk_id)
    return [
        {"source_url": url, **({"title": title} if title else {}), "publisher": publisher, "chunk_ids": ids}
        for (url, title), ids in cited.items()
    ]
