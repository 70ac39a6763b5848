"""The client of an asynchronous program: the same operations, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from aidre_client import changes as feeds, intake as intakes, intent as intents, nlweb as questions
from aidre_client.chunks import RemoteChunk
from aidre_client.client import (
    ATTEMPTS,
    MAX_ANSWER_BYTES,
    PAGE,
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    is_stream,
    open_session,
    read_response,
    sent_as,
    to_asked,
    to_no_answer,
    to_queries,
)
from aidre_client.embedding import EmbedTexts, LocalEmbedding, Where
from aidre_client.errors import Closed, RequestFailed
from aidre_client.exchange import NoAnswer, Request, Response, Sleep, Steps
from aidre_client.messages import Change, ChangePage, CollectionInfo, Discovery
from aidre_client.search import Asked, RemoteReader, check_asked, list_collections
from aidre_client.session import Session
from aidre_client.values import Facets, Group, HighlightLimits, Hit, Hits, Json, Mode, SearchResults, join_hits
from aidre_client.verification import Policy

T = TypeVar("T")

MAX_AT_ONCE = 8
"""Searches of `search_many` that are under way together."""


class AsyncTransport:
    """Carries out steps over an asynchronous httpx client."""

    def __init__(self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self.is_open = True

    async def run(self, steps: Steps[T]) -> T:
        """The result of an operation; raises what it raises."""
        if not self.is_open:
            raise Closed("the client is closed: connect again by connect_async")
        try:
            step = next(steps)
            while True:
                if isinstance(step, Sleep):
                    await self._sleep(step.seconds)
                    step = next(steps)
                else:
                    step = steps.send(await self._send(step))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _send(self, request: Request) -> Response | NoAnswer:
        try:
            asked = self._http.build_request(
                request.method, request.url, headers=list(request.fields), content=request.body or None
            )
            response = await self._http.send(asked, stream=True)
            if is_stream(request, response):
                fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                return Response(response.status_code, fields, b"", sent_as(request, response), stream=response)
            try:
                return read_response(request, response, await self._whole(request.url, response))
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            return to_no_answer(error)
        except httpx.InvalidURL as error:
            raise RequestFailed(f"{request.url!r} is no URL: {error}", url=request.url, error="no_answer") from error

    @staticmethod
    async def _whole(url: str, response: httpx.Response) -> bytes:
        parts, size = list[bytes](), 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise RequestFailed(f"{url}: the answer is too long", url=url, error="invalid_answer")
            parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        self.is_open = False
        await self._http.aclose()


class AsyncRemoteCollection:
    """A collection of a server, as `RemoteCollection`; see there."""

    def __init__(self, transport: AsyncTransport, reader: RemoteReader) -> None:
        self._transport, self._reader = transport, reader

    def __repr__(self) -> str:
        return f"<AsyncRemoteCollection {self.name!r} of {self._reader.session.url}>"

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
    ) -> Hits:
        """As `RemoteCollection.search`."""
        asked = check_asked(
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
        )
        return await self._transport.run(self._reader.search(asked, k, offset))

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
    ) -> SearchResults:
        """The hits of each query, in their order; some of the searches run at once."""
        places = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(asked: Asked) -> Hits:
            async with places:
                return await self._transport.run(self._reader.search(asked, k, 0))

        searches = [
            to_asked(query, filter=filter, mode=mode, space=space, operators=operators, recall=recall)
            for query in to_queries(queries)
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(asked)) for asked in searches]
        return join_hits([task.result() for task in tasks])

    async def pages(
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
    ) -> AsyncIterator[list[Hit[RemoteChunk]]]:
        """As `RemoteCollection.pages`."""
        asked = check_asked(
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
        )
        pager = self._reader.pager(asked, size, restart)
        while (page := await self._transport.run(pager.next_page())) is not None:
            yield page

    async def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """As `RemoteCollection.suggest`."""
        return await self._transport.run(self._reader.suggest(text, limit))

    async def chunk(self, chunk_id: str) -> RemoteChunk:
        """A chunk by its id; its signed statement, if it has one, is verified. Missing."""
        return await self._transport.run(self._reader.chunk(chunk_id))

    async def chunks(self, chunk_ids: Sequence[str]) -> list[RemoteChunk | None]:
        """The chunks with these ids, in their order; None for one that is not there."""
        return await self._transport.run(self._reader.chunks(chunk_ids))

    def changes(self, since: str | None = None, *, limit: int | None = None) -> AsyncChanges:
        """As `RemoteCollection.changes`."""
        return AsyncChanges(self._transport, feeds.Feed(self._reader.session, self.name, since, limit))


class AsyncChanges(AsyncIterator[Change]):
    """An iteration over changes, as `Changes`."""

    def __init__(self, transport: AsyncTransport, feed: feeds.Feed) -> None:
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

    async def pages(self) -> AsyncIterator[ChangePage]:
        """The same page by page, each with the token to store when it is applied."""
        while (page := await self._transport.run(self._feed.next_page())) is not None:
            yield page


class AsyncClient:
    """A client of one server, as `Client`. `connect_async` makes it."""

    def __init__(self, session: Session, transport: AsyncTransport, embedding: LocalEmbedding) -> None:
        self._session, self._transport, self._embedding = session, transport, embedding

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._session.url}>"

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
        """The discovery document (AIDRE 3), read once. Missing where the server has none."""
        return await self._transport.run(self._session.discovery())

    async def collections(self) -> list[str]:
        """The names of the collections that this caller may search."""
        return [one.name for one in await self._transport.run(list_collections(self._session))]

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
    """NLWeb over HTTP, as `Nlweb`."""

    def __init__(self, session: Session, transport: AsyncTransport) -> None:
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
            raise reader.interrupted(to_no_answer(error).reason) from error
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
    """Agentic Intent, as `Intent`."""

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
        """As `Intent.retrieve`."""
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
    """Agent Intake, as `Intake`."""

    def __init__(self, transport: AsyncTransport, agent: intakes.Agent) -> None:
        self._transport, self._agent = transport, agent

    async def manifest(self) -> intakes.Manifest:
        return await self._transport.run(self._agent.manifest())

    async def submit(
        self, intake_id: str, data: Mapping[str, Any], *, session_id: str | None = None
    ) -> intakes.IntakeAnswer:
        """What comes of a submission: an offer, or the reason why there is none."""
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
    """As `connect`, for asynchronous programs. InvalidInput."""
    session = open_session(url, key, verify=verify, trust=trust, attempts=attempts, patience=patience, timeout=timeout)
    http = httpx.AsyncClient(timeout=timeout, transport=transport, follow_redirects=False, trust_env=transport is None)
    http.headers.clear()
    return AsyncClient(session, AsyncTransport(http), LocalEmbedding(embed, {} if models is None else models))
