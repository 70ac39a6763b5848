"""NLWeb: the bodies of ask and await in three dialects, their answers, and the frames of a stream.

0.55 has named events and sections in the body; 0.54 has unnamed frames with `results`; in the legacy dialect the query
is a string, with its parameters beside it, and each frame names itself in `message_type`. The three read alike here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, get_args
from urllib.parse import urljoin

import msgspec

from aidre_client.errors import AccessDenied, AidreError, InvalidInput, RequestFailed
from aidre_client.exchange import Response, Sleep, Steps, bounded, decode, error_of, growing, one_line
from aidre_client.session import EVENT_STREAM, JSON, ClientSession, encode

Dialect: TypeAlias = Literal["0.55", "0.54", "legacy"]
EventKind: TypeAlias = Literal["start", "item", "summary", "elicitation", "promise", "content", "complete"]
SUMMARIES = frozenset({"SearchSummary", "Summary"})
LEGACY_MODES = {"list": "list", "summarize": "summarize", "list, summarize": "summarize"}
FIRST_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.2, 5.0
"""Between two looks at a promise."""
MAX_FRAME_BYTES = 16 << 20


class Promise(msgspec.Struct, frozen=True):
    """An answer that is not ready yet. `token` belongs to the caller that was given it."""

    token: str
    estimated_time: float | None = None
    message: str | None = None
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class AskAnswer:
    """The outcome of a question: items, or questions back, or a promise. Without any hit `items` is empty.

    `content` is the prose of the format chatgpt_app. `meta` is `_meta` as it was sent.
    """

    items: list[dict[str, Any]]
    summary: str | None = None
    content: list[str] = field(default_factory=list)
    elicitation: dict[str, Any] | None = None
    promise: Promise | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskEvent:
    """A part of a streamed answer. `item` is one of the items, with its `index` from 0, or the summary."""

    kind: EventKind
    data: Mapping[str, Any]
    index: int | None = None
    item: Mapping[str, Any] | None = None


class Preferences(TypedDict, total=False):
    """How a question is asked. `k` is how many items at most, `prev` the earlier questions of the conversation, `mode`
    "list", "summarize" or "list, summarize"; `filters` are further members of the query, such as itemType."""

    dialect: Dialect
    site: str | None
    k: int | None
    prev: Sequence[str]
    mode: str
    response_format: str | None
    filters: Mapping[str, Any]
    session_context: Mapping[str, Any] | None
    respond_async: bool


def to_question(text: str, preferences: Preferences) -> AskInput:
    """InvalidInput."""
    unknown = sorted(preferences.keys() - Preferences.__annotations__.keys())
    if unknown:
        raise InvalidInput(f"ask has no preference {', '.join(unknown)}")
    return AskInput(text, **preferences)


@dataclass(frozen=True, slots=True)
class AskInput:
    """A question with its preferences; InvalidInput where it cannot be asked."""

    text: str
    dialect: Dialect = "0.55"
    site: str | None = None
    k: int | None = None
    prev: Sequence[str] = ()
    mode: str = "list"
    response_format: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    session_context: Mapping[str, Any] | None = None
    respond_async: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InvalidInput("the question must be a string that is not blank")
        if self.dialect not in get_args(Dialect):
            raise InvalidInput(f"dialect {self.dialect!r} is unknown: use {', '.join(get_args(Dialect))}")
        if isinstance(self.prev, str):
            raise InvalidInput("prev is a list of earlier questions")
        if self.dialect == "legacy" and self.mode not in LEGACY_MODES:
            raise InvalidInput(f"mode {self.mode!r} is unknown in the legacy dialect: use list or summarize")

    def body(self, *, streaming: bool) -> bytes:
        if self.dialect == "legacy":
            return encode(self._flat(streaming))
        count = {"0.55": "limit", "0.54": "num_results"}[self.dialect]
        query: dict[str, Any] = {**self.filters, "text": self.text}
        query |= {"site": self.site} if self.site is not None else {}
        query |= {count: self.k} if self.k is not None else {}
        if self.dialect == "0.54" and self.k is not None:
            query["max_results"] = self.k
        prefer: dict[str, Any] = {"streaming": streaming, "mode": self.mode}
        meta: dict[str, Any] = {"version": "0.55"}
        if self.dialect == "0.54":
            prefer["response_format"], meta = self.response_format or "conv_search", {"api_version": "0.54"}
        elif self.response_format is not None:
            prefer["response_format"] = self.response_format
        if self.respond_async:
            prefer["respond-async"] = True
        if self.session_context is not None:
            meta["session_context"] = self.session_context
        context = {"context": {"@type": "ConversationalContext", "prev": list(self.prev)}} if self.prev else {}
        return encode({"query": query, **context, "prefer": prefer, "meta": meta})

    def _flat(self, streaming: bool) -> dict[str, Any]:
        named = {"site": self.site, "num_results": self.k, "response_format": self.response_format}
        members: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        members |= {"prev": list(self.prev)} if self.prev else {}
        members |= {"respond-async": True} if self.respond_async else {}
        return {
            **self.filters,
            **members,
            "query": self.text,
            "generate_mode": LEGACY_MODES[self.mode],
            "streaming": streaming,
        }


# -- operations ------------------------------------------------------------------------------------------------------


def ask(session: ClientSession, question: AskInput) -> Steps[AskAnswer]:
    """The answer in one piece. AccessDenied, InvalidInput, RequestFailed with the code of the failure in `error`."""
    url = yield from ask_url(session)
    request = session.request("POST", url, question.body(streaming=False), accept=JSON, media_type=JSON)
    response = yield from session.call(lambda: request)
    return read_answer(response, session.retry.clock(), question.dialect)


def open_stream(session: ClientSession, question: AskInput) -> Steps[Response | AskAnswer]:
    """The head of a stream, whose parts the shell reads; or the answer, from a server that does not stream."""
    url = yield from ask_url(session)
    body = question.body(streaming=True)
    request = session.request("POST", url, body, accept=EVENT_STREAM, media_type=JSON, stream=True)
    response = yield from session.call(lambda: request)
    return response if response.stream is not None else read_answer(response, session.retry.clock(), question.dialect)


def look(session: ClientSession, token: str, action: Literal["checkin", "cancel"]) -> Steps[AskAnswer]:
    """The state of a promise, or its cancellation, which is reported as a failure CANCELLED."""
    if not isinstance(token, str) or not token.strip():
        raise InvalidInput("the token of a promise is a string that is not blank")
    url = urljoin((yield from ask_url(session)), "await")
    request = session.request(
        "POST", url, encode({"promise_token": token, "action": action}), accept=JSON, media_type=JSON
    )
    response = yield from session.call(lambda: request)
    return read_answer(response, session.retry.clock())


def wait_for(session: ClientSession, promise: Promise, timeout: float) -> Steps[AskAnswer]:
    """The answer that was promised. RequestFailed with error TIMEOUT where it is not there in time."""
    for pause in bounded(growing(FIRST_CHECK_SECONDS, MAX_CHECK_SECONDS), timeout):
        answer = yield from look(session, promise.token, "checkin")
        if answer.promise is None:
            return answer
        yield Sleep(pause)
    answer = yield from look(session, promise.token, "checkin")
    if answer.promise is not None:
        raise RequestFailed(
            f"{session.url}: the answer that was promised is not there after {timeout} s",
            url=session.url,
            error="TIMEOUT",
        )
    return answer


def cancel(session: ClientSession, promise: Promise) -> Steps[None]:
    try:
        yield from look(session, promise.token, "cancel")
    except RequestFailed as error:
        if error.details.get("error") != "CANCELLED":
            raise


def ask_url(session: ClientSession) -> Steps[str]:
    """What the discovery document says, else /ask (7.1)."""
    found = yield from session.discovery_or_none()
    named = None if found is None else found.endpoints.nlweb
    if named is None:
        return urljoin(session.url if session.url.endswith("/") else session.url + "/", "ask")
    url = session.allowed(named)
    session.trust_origin_of(url)
    return url


# -- answers ---------------------------------------------------------------------------------------------------------


def read_answer(response: Response, now: float, dialect: Dialect | None = None) -> AskAnswer:
    """An answer in any dialect to a question that was asked in `dialect`; raises what a failure says."""
    if response.media_type == JSON or response.media_type.endswith("+json"):
        document = decode(response, dict[str, Any])
        if _kind_of(document) == "failure" or "error" in document:
            return _failed(document, response, dialect)
        if response.status in {200, 202}:
            return to_answer(document)
    if response.status != 200:
        raise error_of(response, now)
    raise RequestFailed(
        f"{response.request.url}: the answer is not JSON", url=response.request.url, error="invalid_answer"
    )


def _failed(document: Mapping[str, Any], response: Response, dialect: Dialect | None) -> AskAnswer:
    hint = _other_dialect(dialect, _version_of(document))
    failure, code = _failure(document, response.request.url, response.status, hint)
    if code == "NO_RESULTS":
        return AskAnswer([], meta=_object(document, "_meta"))
    request_id = response.header("x-request-id")
    failure.details["request_id"] = request_id
    raise failure


def _failure(document: Mapping[str, Any], url: str, status: int | None, hint: str = "") -> tuple[AidreError, str]:
    error = _object(document, "error")
    code = str(error.get("code", "INTERNAL_ERROR"))
    text = error.get("message")
    message = f"{url}: {one_line(text) if isinstance(text, str) else code}"
    kind: type[AidreError] = RequestFailed
    if status in {401, 403} or code == "UNAUTHORIZED":
        kind = AccessDenied
    elif code in {"INVALID_QUERY", "UNSUPPORTED_FORMAT", "UNSUPPORTED_MODE"}:
        kind = InvalidInput
    return kind(f"{message}{hint}", url=url, status=status, error=code), code


def _version_of(document: Mapping[str, Any]) -> str | None:
    """The version of NLWeb that an answer states."""
    version = _object(document, "_meta").get("version")
    return version if isinstance(version, str) else None


def _other_dialect(dialect: Dialect | None, spoken: str | None) -> str:
    """What to add to a refusal of a server that speaks another dialect than it was asked in."""
    is_other = dialect is not None and spoken in get_args(Dialect) and spoken != dialect
    return f"; the server speaks NLWeb {spoken}: ask with dialect={spoken!r}" if is_other else ""


def to_answer(document: Mapping[str, Any]) -> AskAnswer:
    listed = document.get("results", document.get("structuredData", []))
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    summaries = [str(item.get("text", "")) for item in items if _is_summary(item)]
    content = [part["text"] for part in _list(document, "content") if isinstance(part.get("text"), str)]
    elicitation, promised = document.get("elicitation"), document.get("promise")
    return AskAnswer(
        [item for item in items if not _is_summary(item)],
        summaries[0] if summaries else None,
        content,
        elicitation if isinstance(elicitation, dict) else None,
        _promise(promised) if isinstance(promised, dict) else None,
        _object(document, "_meta"),
    )


def to_events(answer: AskAnswer) -> Iterator[AskEvent]:
    """The parts of an answer that came in one piece."""
    yield AskEvent("start", {"_meta": answer.meta})
    for index, item in enumerate(answer.items):
        yield AskEvent("item", item, index, item)
    if answer.summary is not None:
        yield AskEvent("summary", {}, item={"@type": "SearchSummary", "text": answer.summary})
    if answer.elicitation is not None:
        yield AskEvent("elicitation", {}, item=answer.elicitation)
    if answer.promise is not None:
        yield AskEvent("promise", {}, item=msgspec.to_builtins(answer.promise))
    if answer.content:
        yield AskEvent("content", {"content": answer.content})
    yield AskEvent("complete", {"_meta": answer.meta})


def _promise(members: Mapping[str, Any]) -> Promise:
    try:
        return msgspec.convert(members, Promise)
    except msgspec.ValidationError as error:
        raise RequestFailed(f"the promise has no token: {error}", error="invalid_answer") from error


def _is_summary(item: Mapping[str, Any]) -> bool:
    """Its `@type` may be a list."""
    kind = item.get("@type")
    return any(
        type_name in SUMMARIES
        for type_name in (kind if isinstance(kind, list) else [kind])
        if isinstance(type_name, str)
    )


def _kind_of(document: Mapping[str, Any]) -> str:
    return str(_object(document, "_meta").get("response_type", "")).lower()


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = document.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- streams ---------------------------------------------------------------------------------------------------------


class EventReader:
    """Reads the frames of a stream (6), whatever the bounds of its parts, in the three dialects.

    It gives every item once and without gaps, and raises RequestFailed with error `interrupted` for a stream that ends
    before it is complete, and the failure that a stream reports. A stream that says that it is of 0.54 is read as one,
    whatever the dialect of the question: those have no last frame.
    """

    def __init__(self, url: str, dialect: Dialect) -> None:
        self._url, self._dialect = url, dialect
        self._buffer = b""
        self._items: set[int] = set()
        self._next = 0
        self._started = self._complete = False
        self._spoken: str | None = None

    def feed(self, content: bytes) -> Iterator[AskEvent]:
        """The events that end in these bytes."""
        self._buffer = (self._buffer + content).replace(b"\r\n", b"\n")
        if len(self._buffer) > MAX_FRAME_BYTES:
            raise self._broken("a frame is too long")
        *frames, self._buffer = self._buffer.split(b"\n\n")
        for frame in frames:
            yield from self._read(frame)

    def end(self) -> None:
        """The stream has ended."""
        is_endless = "0.54" in {self._dialect, self._spoken}
        if self._complete or (is_endless and self._started and not self._buffer.strip()):
            return
        raise self._broken("the stream ended before it was complete", "interrupted")

    def interrupted(self, reason: str) -> RequestFailed:
        return self._broken(f"the stream broke: {reason}", "interrupted")

    def _broken(self, problem: str, error: str = "invalid_answer") -> RequestFailed:
        return RequestFailed(f"{self._url}: {problem}", url=self._url, error=error, items=len(self._items))

    def _read(self, frame: bytes) -> Iterator[AskEvent]:
        name, lines = "", list[bytes]()
        for line in frame.split(b"\n"):
            field_name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field_name == b"event":
                name = value.decode("utf-8", "replace")
            elif field_name == b"data":
                lines.append(value)
        if not lines:
            return
        try:
            data = msgspec.json.decode(b"\n".join(lines), type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            raise self._broken(f"a frame is not JSON: {error}") from error
        self._spoken = _version_of(data) or self._spoken
        yield from self._events(name or self._name_of(data), data)

    def _name_of(self, data: Mapping[str, Any]) -> str:
        """What an unnamed frame is: it names itself, or its members tell."""
        named = data.get("message_type")
        if isinstance(named, str):
            return {"result_batch": "result", "ask_user": "start"}.get(named, named)
        if "error" in data:
            return "error"
        if "results" in data or "structuredData" in data or ("content" in data and "_meta" not in data):
            return "result"
        return "complete" if self._started else "start"

    def _events(self, name: str, data: Mapping[str, Any]) -> Iterator[AskEvent]:
        if name == "error":
            failure, code = _failure(data, self._url, 200, _other_dialect(self._dialect, self._spoken))
            if code != "NO_RESULTS":
                raise failure
        elif name == "result":
            yield from self._results(data)
        elif name == "summary":
            yield AskEvent("summary", data, item={"@type": "SearchSummary", "text": str(data.get("message", ""))})
        elif name in {"start", "complete"}:
            yield from self._edge(name, data)

    def _edge(self, name: str, data: Mapping[str, Any]) -> Iterator[AskEvent]:
        is_first = name == "start" and not self._started
        self._started = True
        if name == "start" and is_first:
            yield AskEvent("start", data)
        for kind in ("elicitation", "promise"):
            if name == "complete" and isinstance(data.get(kind), dict):
                yield AskEvent(kind, data, item=data[kind])
        if name == "complete" and not self._complete:
            if self._items != set(range(len(self._items))):
                raise self._broken("items are missing from the stream", "interrupted")
            if isinstance(data.get("content"), list):
                yield AskEvent("content", data)
            self._complete = True
            yield AskEvent("complete", data)

    def _results(self, data: Mapping[str, Any]) -> Iterator[AskEvent]:
        batch = _list(data, "results") or _list(data, "structuredData")
        listed: list[Any] = [data["item"]] if "item" in data else list(batch)
        for number, item in enumerate(listed):
            index = data["index"] + number if type(data.get("index")) is int else self._next
            if not isinstance(item, dict) or index < 0:
                raise self._broken("a result is not an object")
            self._next = max(self._next, index + 1)
            if index in self._items:
                continue
            self._items.add(index)
            is_summary = _is_summary(item)
            yield AskEvent("summary" if is_summary else "item", data, None if is_summary else index, item)
