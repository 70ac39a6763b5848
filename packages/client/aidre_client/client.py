"""The client of a program that blocks: operations run over httpx, and wait by sleeping."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from aidre_client import changes as feeds, intake as intakes, intent as intents, nlweb as questions
from aidre_client.chunks import RemoteChunk
from aidre_client.embedding import EmbedTexts, LocalEmbedding, Where
from aidre_client.errors import Closed, InvalidInput, RequestFailed
from aidre_client.exchange import NoAnswer, Request, Response, Retry, Sleep, Steps
from aidre_client.messages import Change, ChangePage, CollectionInfo, Discovery
from aidre_client.search import Asked, RemoteReader, check_asked, list_collections
from aidre_client.session import EVENT_STREAM, Session
from aidre_client.values import Facets, Group, HighlightLimits, Hit, Hits, Json, Mode, SearchResults, join_hits
from aidre_client.verification import Policy, Verifier, check_policy, origin_of

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
ATTEMPTS, PATIENCE_SECONDS = 6, 60.0
PAGE = 100
"""Hits of a page of an iteration, where the server gives as many."""
MAX_ANSWER_BYTES = 256 << 20
"""Of an answer, before and after its Content-Encoding is removed."""
CODINGS = frozenset({"gzip", "x-gzip", "deflate"})


def open_session(
    url: str, key: str | None, *, verify: str, trust: str | None, attempts: int, patience: float, timeout: float
) -> Session:
    """What both shells are made of. InvalidInput."""
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout < math.inf:
        raise InvalidInput("timeout must be a number of seconds above 0")
    retry = Retry(attempts, patience)
    verifier = Verifier(check_policy(verify), origin_of(url if trust is None else trust), retry)
    return Session(url, key, retry, verifier)


def read_response(request: Request, response: httpx.Response, encoded: bytes) -> Response:
    """An answer as the operations read it. RequestFailed for a Content-Encoding that nobody asked for."""
    fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    body = encoded
    if encoded and coding not in {"identity", ""}:
        body = _decoded(request.url, coding, encoded)
    return Response(response.status_code, fields, body, sent_as(request, response), encoded)


def sent_as(request: Request, response: httpx.Response) -> Request:
    """The request with the URL as httpx has sent it, which signatures of the answer cover."""
    return Request(request.method, str(response.request.url), request.fields, request.body, request.stream)


def _decoded(url: str, coding: str, encoded: bytes) -> bytes:
    if coding in CODINGS:
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            body = decoder.decompress(encoded, MAX_ANSWER_BYTES)
        except zlib.error:
            body = None
        if body is not None and decoder.eof:
            return body
    raise RequestFailed(f"{url}: the answer has an encoding that cannot be read", url=url, error="invalid_answer")


def is_stream(request: Request, response: httpx.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return request.stream and response.status_code == 200 and kind == EVENT_STREAM


def to_no_answer(error: httpx.TransportError) -> NoAnswer:
    """Why there is no answer, and whether the request may have reached the server."""
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return NoAnswer(f"{type(error).__name__} {error}".strip(), sent=not unsent)


class Transport:
    """Carries out steps over an httpx client. Safe to use from several threads."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self.is_open = True

    def run(self, steps: Steps[T]) -> T:
        """The result of an operation; raises what it raises."""
        if not self.is_open:
            raise Closed("the client is closed: connect again by connect")
        try:
            step = next(steps)
            while True:
                if isinstance(step, Sleep):
                    self._sleep(step.seconds)
                    step = next(steps)
                else:
                    step = steps.send(self._send(step))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _send(self, request: Request) -> Response | NoAnswer:
        try:
            asked = self._http.build_request(
                request.method, request.url, headers=list(request.fields), content=request.body or None
            )
            response = self._http.send(asked, stream=True)
            if is_stream(request, response):
                fields = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                return Response(response.status_code, fields, b"", sent_as(request, response), stream=response)
            try:
                return read_response(request, response, b"".join(self._parts(request.url, response)))
            finally:
                response.close()
        except httpx.TransportError as error:
            return to_no_answer(error)
        except httpx.InvalidURL as error:
            raise RequestFailed(f"{request.url!r} is no URL: {error}", url=request.url, error="no_answer") from error

    @staticmethod
    def _parts(url: str, response: httpx.Response) -> Iterator[bytes]:
        size = 0
        for part in response.iter_raw():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise RequestFailed(f"{url}: the answer is too long", url=url, error="invalid_answer")
            yield part

    def close(self) -> None:
        self.is_open = False
        self._http.close()


class RemoteCollection:
    """A collection of a server, read-only: the reading verbs of a local collection, with the same hits."""

    def __init__(self, transport: Transport, reader: RemoteReader) -> None:
        self._transport, self._reader = transport, reader

    def __repr__(self) -> str:
        return f"<RemoteCollection {self.name!r} of {self._reader.session.url}>"

    @property
    def name(self) -> str | None:
        """None: whichever the server searches if none is named."""
        return self._reader.name

    @property
    def info(self) -> CollectionInfo:
        """What the server lists about the collection, read once. CollectionMissing."""
        return self._transport.run(self._reader.info())

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
        """The `k` best chunks after the `offset` best ones, as `Collection.search` of a local collection.

        Asks for as many pages as that takes, all of one state of the collection. `payload` asks for the semantic
        payload of each chunk, `vectors` for its vectors. With `correct` the server may answer a text without what may
        be typing errors in it, where it finds little as it is; with `operators` it may read quotes and `-word`, which
        a text embedded here (embed="local") does not tell it. `facets`, `highlight`, `group` and `recall` are
        those of a local search, where the server has these extensions. AccessDenied, CollectionMissing,
        DimensionMismatch, InvalidFilter, InvalidInput, RequestFailed, SpaceMissing, Unsupported, VerificationFailed.
        """
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
        return self._transport.run(self._reader.search(asked, k, offset))

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
    ) -> SearchResults:
        """The hits of each query, one after the other: texts, or vectors as a matrix (queries, dimensions)."""
        searches = [
            to_asked(query, filter=filter, mode=mode, space=space, operators=operators, recall=recall)
            for query in to_queries(queries)
        ]
        return join_hits([self._transport.run(self._reader.search(asked, k, 0)) for asked in searches])

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
    ) -> Iterator[list[Hit[RemoteChunk]]]:
        """All hits that the server gives, page by page, best first, no chunk twice, and by `group` no document.

        Where the state that is read is gone (409), the iteration begins again and leaves out what it gave; with
        `restart=False` it raises Conflict.
        """
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
        return iter(lambda: self._transport.run(pager.next_page()), None)

    def suggest(self, text: str, *, limit: int = 8) -> list[str]:
        """A text with its last word completed by the words of the collection, the most frequent first.

        AccessDenied where the collection withholds its texts; Unsupported.
        """
        return self._transport.run(self._reader.suggest(text, limit))

    def chunk(self, chunk_id: str) -> RemoteChunk:
        """A chunk by its id; its signed statement, if it has one, is verified. Missing."""
        return self._transport.run(self._reader.chunk(chunk_id))

    def chunks(self, chunk_ids: Sequence[str]) -> list[RemoteChunk | None]:
        """The chunks with these ids, in their order; None for one that is not there."""
        return self._transport.run(self._reader.chunks(chunk_ids))

    def changes(self, since: str | None = None, *, limit: int | None = None) -> Changes:
        """What happened to the chunks since a token; without one all chunks come first. `limit` bounds a page."""
        return Changes(self._transport, feeds.Feed(self._reader.session, self.name, since, limit))


class Changes(Iterator[Change]):
    """An iteration over changes, oldest first. Store `token` after having applied what came; `since=token` goes on."""

    def __init__(self, transport: Transport, feed: feeds.Feed) -> None:
        self._transport, self._feed = transport, feed

    @property
    def token(self) -> str | None:
        """Where to go on from: after the last page all of whose changes were handed over."""
        return self._feed.token

    def __next__(self) -> Change:
        change = self._transport.run(self._feed.next_change())
        if change is None:
            raise StopIteration
        return change

    def pages(self) -> Iterator[ChangePage]:
        """The same page by page, each with the token to store when it is applied."""
        return iter(lambda: self._transport.run(self._feed.next_page()), None)


class Client:
    """A client of one server; also a context manager that closes its connections. `connect` makes it.

    The discovery document is read at the first use.
    """

    def __init__(self, session: Session, transport: Transport, embedding: LocalEmbedding) -> None:
        self._session, self._transport, self._embedding = session, transport, embedding

    def __repr__(self) -> str:
        return f"<Client of {self._session.url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Afterwards the client and its collections raise Closed."""
        self._transport.close()

    @property
    def discovery(self) -> Discovery:
        """The discovery document (AIDRE 3). Missing where the server has none."""
        return self._transport.run(self._session.discovery())

    def collections(self) -> list[str]:
        """The names of the collections that this caller may search."""
        return [one.name for one in self._transport.run(list_collections(self._session))]

    def collection(self, name: str | None = None) -> RemoteCollection:
        """The collection of that name; without one whichever the server searches then."""
        return RemoteCollection(self._transport, RemoteReader(self._session, self._embedding, name))

    @property
    def nlweb(self) -> Nlweb:
        """NLWeb's ask and await."""
        return Nlweb(self._session, self._transport)

    def intent(
        self, key_id: str, secret: str, *, platform: str | None = None, version: intents.Version = "0.1"
    ) -> Intent:
        """Agentic Intent, as the platform with this key."""
        return Intent(self._transport, intents.Platform(self._session, key_id, secret, platform, version))

    def intake(self, agent_id: str, *, platform: str | None = None) -> Intake:
        """Agent Intake, as the agent with this id."""
        return Intake(self._transport, intakes.Agent(self._session, agent_id, platform))


class Nlweb:
    """NLWeb over HTTP: `dialect` is "0.55", "0.54" or "legacy", and answers read alike in all of them."""

    def __init__(self, session: Session, transport: Transport) -> None:
        self._session, self._transport = session, transport

    def ask(self, text: str, **preferences: Unpack[questions.Preferences]) -> questions.AskAnswer:
        """The answer to a question. AccessDenied, InvalidInput; RequestFailed with the code of the failure."""
        return self._transport.run(questions.ask(self._session, questions.to_question(text, preferences)))

    def stream(self, text: str, **preferences: Unpack[questions.Preferences]) -> Iterator[questions.AskEvent]:
        """The parts of the answer as they come; every item once, or RequestFailed with error `interrupted`."""
        question = questions.to_question(text, preferences)
        opened = self._transport.run(questions.open_stream(self._session, question))
        if isinstance(opened, questions.AskAnswer):
            yield from questions.to_events(opened)
            return
        reader = questions.EventReader(opened.request.url, question.dialect)
        try:
            for part in opened.stream.iter_raw():
                yield from reader.feed(part)
        except httpx.TransportError as error:
            raise reader.interrupted(str(to_no_answer(error).reason)) from error
        finally:
            opened.stream.close()
        reader.end()

    def wait(self, promise: questions.Promise, timeout: float = PATIENCE_SECONDS) -> questions.AskAnswer:
        """The answer that was promised; RequestFailed with error TIMEOUT where it is not there in so many seconds."""
        return self._transport.run(questions.wait_for(self._session, promise, timeout))

    def look(self, promise: questions.Promise) -> questions.AskAnswer:
        """The state of a promise: the answer, or the promise with its progress."""
        return self._transport.run(questions.look(self._session, promise.token, "checkin"))

    def cancel(self, promise: questions.Promise) -> None:
        self._transport.run(questions.cancel(self._session, promise))


class Intent:
    """Agentic Intent: signed requests for passages, and events about their use."""

    def __init__(self, transport: Transport, platform: intents.Platform) -> None:
        self._transport, self._platform = transport, platform

    @property
    def declaration(self) -> intents.Declaration:
        return self._transport.run(self._platform.declaration())

    def retrieve(
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
        return self._transport.run(steps)

    def cite(self, retrieved: intents.Retrieved, citation: intents.Citation, display_surface: str = "answer") -> str:
        """Report that a citation was shown; returns the id of the event."""
        return self._transport.run(self._platform.cite(retrieved, citation, display_surface))


class Intake:
    """Agent Intake: submit, look at the offer, bind it."""

    def __init__(self, transport: Transport, agent: intakes.Agent) -> None:
        self._transport, self._agent = transport, agent

    @property
    def manifest(self) -> intakes.Manifest:
        return self._transport.run(self._agent.manifest())

    def submit(self, intake_id: str, data: Mapping[str, Any], *, session_id: str | None = None) -> intakes.IntakeAnswer:
        """What comes of a submission: an offer, or the reason why there is none."""
        return self._transport.run(self._agent.submit(intake_id, data, session_id))

    def bind(self, answer: intakes.IntakeAnswer, data: Mapping[str, Any], *, user_agrees: bool) -> intakes.BindAnswer:
        """Accept an offer with the user's data, to which the user has agreed."""
        return self._transport.run(self._agent.bind(answer, data, user_agrees=user_agrees))


def to_queries(queries: Any) -> list[Any]:
    """Texts, or the rows of a matrix. InvalidInput."""
    is_list = isinstance(queries, Iterable) and not isinstance(queries, str | bytes | Mapping)
    listed = list(queries) if is_list else []
    texts = sum(isinstance(query, str) for query in listed)
    if not is_list or 0 < texts < len(listed):
        raise InvalidInput("search_many needs a list of texts, or a matrix of vectors")
    return listed


def to_asked(
    query: Any, *, filter: Json, mode: str | None, space: str | None, operators: bool, recall: float | None
) -> Asked:
    text, vector = (query, None) if isinstance(query, str) else (None, query)
    return check_asked(
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
    )


def connect(
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
    transport: httpx.BaseTransport | None = None,
) -> Client:
    """A client of the server at `url`, which speaks AIDRE, NLWeb, Agentic Intent or Agent Intake.

    `key` is sent as a bearer token to the origin of `url` and to the endpoints that its discovery document names.
    `verify` is "if_signed" (what is signed has to hold, and a server that declares to sign has to), "required" or
    "off"; `trust` is the origin whose keys count, by default that of `url`. `embed` says where texts are embedded:
    "auto" (dense searches here, where the model is here), "local" (never send a text) or "server"; `models` are
    embedding functions by space, from a list of texts to a matrix. A request is sent at most `attempts` times and waits
    at most `patience` seconds in all; `timeout` is that of a connection. `transport` is one of httpx. InvalidInput.
    """
    session = open_session(url, key, verify=verify, trust=trust, attempts=attempts, patience=patience, timeout=timeout)
    http = httpx.Client(timeout=timeout, transport=transport, follow_redirects=False, trust_env=transport is None)
    http.headers.clear()
    return Client(session, Transport(http), LocalEmbedding(embed, {} if models is None else models))
