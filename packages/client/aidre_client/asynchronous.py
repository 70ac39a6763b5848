"""The client of an asynchronous program: the verbs of `client.py`, awaited. `make twins` writes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack, overload

import httpx

from aidre_client import intake as intakes, intent as intents, nlweb as questions
from aidre_client.chunks import RemoteChunk
from aidre_client.collection import DocumentScan, Feed, RemoteDocuments, to_part
from aidre_client.embedding import EmbedTexts, LocalEmbedding, Where
from aidre_client.errors import InvalidInput
from aidre_client.messages import Change, ChangePage, CollectionInfo, Discovery
from aidre_client.search import RemoteReader, list_collections, to_batch_input, to_queries, to_search_input
from aidre_client.session import ClientSession
from aidre_client.transports import (
    ATTEMPTS,
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    AsyncTransport,
    open_session,
    to_no_answer,
)
from aidre_client.values import (
    Document,
    Facet,
    Facets,
    FusionMethod,
    Group,
    HighlightLimits,
    Hit,
    Hits,
    Json,
    Mode,
    SearchOrder,
    SearchResults,
    Weights,
    join_hits,
)
from aidre_client.verification import Policy

PAGE = 100
"""Hits of a page of an iteration, where the server gives as many."""


class AsyncRemoteCollection:
    """A collection of a server: the verbs of a local collection, with the same hits and documents.

    Writes are durable when they return. They carry an Idempotency-Key, so that one whose answer was lost is sent again
    and done once; `idempotency_key=` names it, where a program that ended itself is to repeat a call within a day.
    """

    def __init__(self, transport: AsyncTransport, reader: RemoteReader) -> None:
        self._transport, self._reader = transport, reader
        self._documents = RemoteDocuments(reader)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._reader.session.url}>"

    @property
    def name(self) -> str | None:
        """None: whichever the server searches if none is named."""
        return self._reader.name

    async def info(self) -> CollectionInfo:
        """What the server lists about the collection, read once. CollectionMissing."""
        return await self._transport.run(self._reader.info())

    async def search(
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
        payload: bool = False,
        vectors: bool = False,
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
    ) -> Hits:
        """The `k` best chunks after the `offset` best ones, as `Collection.search` of a local collection.

        Asks for as many pages as that takes, all of one state of the collection. `payload` asks for the semantic
        payload of each chunk, `vectors` for its vectors. With `correct` the server may answer a text without what may
        be typing errors in it, where it finds little as it is; with `operators` it may read quotes and `-word`, which
        a text embedded here (embed="local") does not tell it. `facets`, `highlight`, `group`, `recall`, `order`,
        `weights` and `fusion` are those of a local search, where the server has these extensions. AccessDenied,
        CollectionMissing, DimensionMismatch, InvalidFilter, InvalidInput, RequestFailed, SpaceMissing, Unsupported,
        VerificationFailed.
        """
        request = to_search_input(
            text,
            vector,
            filter=filter,
            mode=mode,
            space=space,
            min_score=min_score,
            payload=payload,
            vectors=vectors,
            correct=correct,
            operators=operators,
            facets=facets,
            highlight=highlight,
            group=group,
            collapse=collapse,
            recall=recall,
            order=order,
            weights=weights,
            fusion=fusion,
        )
        return await self._transport.run(self._reader.search(request, k, offset))

    async def search_many(
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
        """The hits of each query, in their order: texts, or vectors as a matrix (queries, dimensions)."""
        searches = [
            to_batch_input(
                query, filter=filter, mode=mode, space=space, operators=operators, recall=recall, fusion=fusion
            )
            for query in to_queries(queries)
        ]
        return join_hits(await self._transport.run_all([self._reader.search(request, k, 0) for request in searches]))

    def pages(
        self,
        text: str | None = None,
        *,
        vector: Any = None,
        size: int = PAGE,
        filter: Json | None = None,
        mode: Mode | None = None,
        space: str | None = None,
        payload: bool = False,
        vectors: bool = False,
        restart: bool = True,
        group: Group = "chunk",
        collapse: bool = True,
        recall: float | None = None,
        order: SearchOrder | None = None,
        weights: Weights | None = None,
        fusion: FusionMethod | None = None,
    ) -> AsyncIterator[list[Hit[RemoteChunk]]]:
        """All hits that the server gives, page by page, best first, no chunk twice, and by `group` no document.

        Where the state that is read is gone (409), the iteration begins again and leaves out what it gave; with
        `restart=False` it raises Conflict.
        """
        request = to_search_input(
            text,
            vector,
            filter=filter,
            mode=mode,
            space=space,
            min_score=None,
            payload=payload,
            vectors=vectors,
            group=group,
            collapse=collapse,
            recall=recall,
            order=order,
            weights=weights,
            fusion=fusion,
        )
        pager = self._reader.pager(request, size, restart)
        return self._transport.each(pager.next_page)

    async def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """A text with its last word completed by the words of the collection, the most frequent first.

        AccessDenied where the collection withholds its texts; Unsupported.
        """
        return await self._transport.run(self._reader.suggest(text, limit))

    # -- documents ---------------------------------------------------------------------------------------------------

    @overload
    async def get(
        self, ids: Iterable[str], *, limit: int | None = None, offset: int = 0, vectors: bool = False
    ) -> list[Document | None]: ...
    @overload
    async def get(
        self,
        ids: None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: str | Sequence[str] | None = None,
        vectors: bool = False,
    ) -> list[Document]: ...
    async def get(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Json | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: str | Sequence[str] | None = None,
        vectors: bool = False,
    ) -> Any:
        """The documents with these ids, in their order, None for one that is not there; without ids those that pass a
        filter, as `scan` gives them. `limit` ones after the first `offset`.

        A document is charged to the budget of the caller as its chunks. Where the collection withholds its texts, that
        of a document is empty. AccessDenied, CollectionMissing, InvalidFilter, InvalidInput, RequestFailed,
        Unsupported.
        """
        if ids is None:
            part = to_part(filter, order_by, limit, offset, vectors=vectors)
            return await self._transport.run(DocumentScan(self._documents, part).all())
        if filter is not None or order_by is not None:
            raise InvalidInput("get takes ids, which come in their order, or filter= and order_by=, and not both")
        return await self._transport.run(self._documents.get(ids, limit, offset, vectors=vectors))

    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: str | Sequence[str] | None = None,
    ) -> AsyncIterator[Document]: ...
    @overload
    def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str],
        limit: int | None = None,
        offset: int = 0,
        order_by: str | Sequence[str] | None = None,
    ) -> AsyncIterator[dict[str, Any]]: ...
    def scan(
        self,
        filter: Json | None = None,
        *,
        fields: Sequence[str] | None = None,
        vectors: bool = False,
        limit: int | None = None,
        offset: int = 0,
        order_by: str | Sequence[str] | None = None,
    ) -> AsyncIterator[Any]:
        """The documents that pass a filter, as `Collection.scan` of a local collection, of the state in which the first
        is read: page by page, and for ten minutes, after which it ends with Conflict.

        With `fields` each is a dict of its id and those of the named members and metadata that it has, which is charged
        as one chunk.
        """
        part = to_part(filter, order_by, limit, offset, fields=fields, vectors=vectors)
        return self._transport.each(DocumentScan(self._documents, part).next_document)

    async def count(self, filter: Json | None = None) -> int:
        """The number of documents that pass a filter."""
        return await self._transport.run(self._documents.count(filter))

    async def facets(self, *fields: str, filter: Json | None = None, limit: int | None = None) -> dict[str, Facet]:
        """By field, the values that it has among the documents that pass a filter, as `Collection.facets` of a local
        collection: the 1,000 most frequent ones at most, beside the number of `distinct` ones."""
        return await self._transport.run(self._documents.facets(fields, filter, limit))

    async def add(self, rows: Any, *, vectors: Any = None, idempotency_key: str | None = None) -> list[str]:
        """Store documents and return their ids, as `Collection.add` of a local collection; a document replaces that
        with the same id.

        What is longer than the server takes at once (`limits.write_bytes`) goes in several requests, of which each is
        stored whole or not; an error has the number of documents before it in `details["stored"]`. AccessDenied,
        CollectionMissing, DimensionMismatch, InvalidDocument, InvalidInput, RequestFailed, StoreLocked, Unsupported.
        """
        return await self._transport.run(self._documents.add(rows, vectors, idempotency_key))

    async def upsert(self, rows: Any, *, vectors: Any = None, idempotency_key: str | None = None) -> list[str]:
        """As `add`, under the name that other stores have for it."""
        return await self._transport.run(self._documents.add(rows, vectors, idempotency_key))

    async def patch(self, changes: Mapping[str, Mapping[str, Any]], *, idempotency_key: str | None = None) -> int:
        """Change metadata, `title`, `url`, `type`, `updated_at`, `text` and `vectors` of documents, by id, as
        `Collection.patch` of a local collection; None removes a name. Returns how many documents changed.
        DocumentMissing and InvalidDocument name the document, and nothing is changed."""
        return await self._transport.run(self._documents.patch(changes, idempotency_key))

    async def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: Json | None = None,
        allow_unknown: bool = False,
        idempotency_key: str | None = None,
    ) -> int:
        """Delete documents by id, or all that pass a filter; returns how many existed. A filter that names a field
        which no document has is refused unless `allow_unknown`."""
        return await self._transport.run(self._documents.delete(ids, filter, allow_unknown, idempotency_key))

    # -- chunks ------------------------------------------------------------------------------------------------------

    async def chunk(self, chunk_id: str) -> RemoteChunk:
        """A chunk by its id; its signed statement, if it has one, is verified. Missing."""
        return await self._transport.run(self._reader.chunk(chunk_id))

    async def chunks(self, chunk_ids: Sequence[str]) -> list[RemoteChunk | None]:
        """The chunks with these ids, in their order; None for one that is not there."""
        return await self._transport.run(self._reader.chunks(chunk_ids))

    def changes(self, since: str | None = None, *, limit: int | None = None) -> AsyncChanges:
        """What happened to the chunks since a token; without one all chunks come first. `limit` bounds a page."""
        return AsyncChanges(self._transport, Feed(self._reader.session, self.name, since, limit))


class AsyncChanges(AsyncIterator[Change]):
    """An iteration over changes, oldest first. Store `token` after having applied what came; `since=token` goes on."""

    def __init__(self, transport: AsyncTransport, feed: Feed) -> None:
        self._transport, self._feed = transport, feed

    @property
    def token(self) -> str | None:
        """Where to go on from: after the last page all of whose changes were handed over."""
        return self._feed.token

    async def __anext__(self) -> Change:
        change = await self._transport.run(self._feed.next_change())
        if change is None:
            raise StopAsyncIteration
        return change

    def pages(self) -> AsyncIterator[ChangePage]:
        """The same page by page, each with the token to store when it is applied."""
        return self._transport.each(self._feed.next_page)


class AsyncClient:
    """A client of one server; also a context manager that closes its connections. `connect_async` makes it.

    The discovery document is read at the first use.
    """

    def __init__(self, session: ClientSession, transport: AsyncTransport, embedding: LocalEmbedding) -> None:
        self._session, self._transport, self._embedding = session, transport, embedding

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._session.url}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Afterwards the client and its collections raise Closed."""
        await self._transport.close()

    async def discovery(self) -> Discovery:
        """The discovery document (AIDRE 3). Missing where the server has none."""
        return await self._transport.run(self._session.discovery())

    async def collections(self) -> list[str]:
        """The names of the collections that this caller may search."""
        return [info.name for info in await self._transport.run(list_collections(self._session))]

    def collection(self, name: str | None = None) -> AsyncRemoteCollection:
        """The collection of that name; without one whichever the server searches then."""
        return AsyncRemoteCollection(self._transport, RemoteReader(self._session, self._embedding, name))

    @property
    def nlweb(self) -> AsyncNlweb:
        """NLWeb's ask and await."""
        return AsyncNlweb(self._session, self._transport)

    def intent(
        self, key_id: str, secret: str, *, platform: str | None = None, version: intents.Version = "0.1"
    ) -> AsyncIntent:
        """Agentic Intent, as the platform with this key."""
        return AsyncIntent(self._transport, intents.Platform(self._session, key_id, secret, platform, version))

    def intake(self, agent_id: str, *, platform: str | None = None) -> AsyncIntake:
        """Agent Intake, as the agent with this id."""
        return AsyncIntake(self._transport, intakes.Agent(self._session, agent_id, platform))


class AsyncNlweb:
    """NLWeb over HTTP: `dialect` is "0.55", "0.54" or "legacy", and answers read alike in all of them."""

    def __init__(self, session: ClientSession, transport: AsyncTransport) -> None:
        self._session, self._transport = session, transport

    async def ask(self, text: str, **preferences: Unpack[questions.Preferences]) -> questions.AskAnswer:
        """The answer to a question. AccessDenied, InvalidInput; RequestFailed with the code of the failure."""
        return await self._transport.run(questions.ask(self._session, questions.to_question(text, preferences)))

    async def stream(
        self, text: str, **preferences: Unpack[questions.Preferences]
    ) -> AsyncIterator[questions.AskEvent]:
        """The parts of the answer as they come; every item once, or RequestFailed with error `interrupted`."""
        question = questions.to_question(text, preferences)
        opened = await self._transport.run(questions.open_stream(self._session, question))
        if isinstance(opened, questions.AskAnswer):
            for event in questions.to_events(opened):
                yield event
            return
        reader = questions.EventReader(opened.request.url, question.dialect)
        try:
            async for part in opened.stream.aiter_raw():
                for event in reader.feed(part):
                    yield event
        except httpx.TransportError as error:
            raise reader.interrupted(str(to_no_answer(error).reason)) from error
        finally:
            await opened.stream.aclose()
        reader.end()

    async def wait(self, promise: questions.Promise, timeout: float = PATIENCE_SECONDS) -> questions.AskAnswer:
        """The answer that was promised; RequestFailed with error TIMEOUT where it is not there in so many seconds."""
        return await self._transport.run(questions.wait_for(self._session, promise, timeout))

    async def look(self, promise: questions.Promise) -> questions.AskAnswer:
        """The state of a promise: the answer, or the promise with its progress."""
        return await self._transport.run(questions.look(self._session, promise.token, "checkin"))

    async def cancel(self, promise: questions.Promise) -> None:
        await self._transport.run(questions.cancel(self._session, promise))


class AsyncIntent:
    """Agentic Intent: signed requests for passages, and events about their use."""

    def __init__(self, transport: AsyncTransport, platform: intents.Platform) -> None:
        self._transport, self._platform = transport, platform

    async def declaration(self) -> intents.Declaration:
        return await self._transport.run(self._platform.declaration())

    async def retrieve(
        self,
        text: str | None,
        domain: str,
        *,
        subdomain: str | None = None,
        language: str = "en-US",
        session_id: str | None = None,
        turn_index: int = 0,
    ) -> intents.Retrieved:
        """Passages about a text within an editorial domain. AccessDenied with the `reason` of a denial, RequestFailed,
        VerificationFailed."""
        steps = self._platform.retrieve(
            text, domain, subdomain=subdomain, language=language, session_id=session_id, turn_index=turn_index
        )
        return await self._transport.run(steps)

    async def cite(
        self, retrieved: intents.Retrieved, citation: intents.Citation, display_surface: str = "answer"
    ) -> str:
        """Report that a citation was shown; returns the id of the event."""
        return await self._transport.run(self._platform.cite(retrieved, citation, display_surface))


class AsyncIntake:
    """Agent Intake: submit, look at the offer, bind it."""

    def __init__(self, transport: AsyncTransport, agent: intakes.Agent) -> None:
        self._transport, self._agent = transport, agent

    async def manifest(self) -> intakes.Manifest:
        return await self._transport.run(self._agent.manifest())

    async def submit(
        self, intake_id: str, data: Mapping[str, Any], *, session_id: str | None = None
    ) -> intakes.IntakeAnswer:
        """The outcome of a submission: an offer, or the reason why there is none."""
        return await self._transport.run(self._agent.submit(intake_id, data, session_id))

    async def bind(
        self, answer: intakes.IntakeAnswer, data: Mapping[str, Any], *, user_agrees: bool
    ) -> intakes.BindAnswer:
        """Accept an offer with the user's data, to which the user has agreed."""
        return await self._transport.run(self._agent.bind(answer, data, user_agrees=user_agrees))


def connect_async(
    url: str,
    key: str | None = None,
    *,
    verify: Policy = "if_signed",
    trust: str | None = None,
    embed: Where = "auto",
    models: Mapping[str, EmbedTexts] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    attempts: int = ATTEMPTS,
    patience: float = PATIENCE_SECONDS,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncClient:
    """A client of the server at `url`, which speaks AIDRE, NLWeb, Agentic Intent or Agent Intake.

    `key` is sent as a bearer token to the origin of `url` and to the endpoints that its discovery document names.
    `verify` is "if_signed" (what is signed has to hold, and a server that declares to sign has to), "required" or
    "off"; `trust` is the origin whose keys count, by default that of `url`. `embed` says where texts are embedded:
    "auto" (dense searches here, where the model is here), "local" (never send a text) or "server"; `models` are
    embedding functions by space, from a list of texts to a matrix. A request is sent at most `attempts` times and waits
    at most `patience` seconds in all; `timeout` is that of a connection. `transport` is one of httpx. InvalidInput.
    """
    session = open_session(url, key, verify=verify, trust=trust, attempts=attempts, patience=patience, timeout=timeout)
    http = httpx.AsyncClient(timeout=timeout, transport=transport, follow_redirects=False, trust_env=transport is None)
    http.headers.clear()
    return AsyncClient(session, AsyncTransport(http), LocalEmbedding(embed, {} if models is None else models))
