"""Requests and answers as values, and when a request is repeated; no module of the client but the two shells does I/O.

An operation is a generator of *steps*: it yields what is to be done (send a request, wait) and is sent the outcome.
So the same operation runs over a blocking and over an asynchronous transport.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeAlias, TypeVar

import msgspec

from aidre_client.errors import (
    AccessDenied,
    AidreError,
    CollectionMissing,
    Conflict,
    DimensionMismatch,
    DocumentMissing,
    HistoryMissing,
    InvalidDocument,
    InvalidFilter,
    InvalidInput,
    InvalidVector,
    Missing,
    RequestFailed,
    SpaceMissing,
    StoreLocked,
    Unsupported,
    printable_name,
)

T = TypeVar("T")

RETRIED = frozenset({429, 503})
"""The server has not done what was asked, and says so: any request may be sent again."""
RETRIED_IF_REPEATABLE = RETRIED | {502, 504}
IDEMPOTENCY_KEY = "idempotency-key"
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 8.0
"""Pauses where the server does not say for how long to wait: doubled each time, and a random part of that."""
MAX_MESSAGE_CHARS = 500
"""Of a message of a server, in an exception."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a shell sends. With `stream` the answer is handed over when its head has come."""

    method: str
    url: str
    fields: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. `fields` are the header lines, names in lower case; `url` is the one that was sent.

    `encoded` is the body before Content-Encoding was removed, which is what digests cover. `stream` is what the shell
    reads the body from, where the request asked for a stream and the answer is one.
    """

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes
    request: Request
    encoded: bytes | None = None
    stream: Any = None

    def header(self, name: str) -> str | None:
        """The lines of a header field joined by commas; None without one."""
        lines = [value for key, value in self.fields if key == name]
        return ", ".join(lines) if lines else None

    @property
    def media_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The connection failed. `sent` says whether the server may have got the request."""

    reason: str
    sent: bool


@dataclass(frozen=True, slots=True)
class Sleep:
    """What a shell does for so long, in seconds."""

    seconds: float


Steps: TypeAlias = Generator[Request | Sleep, Any, T]
"""An operation: a shell answers a Request with a Response or NoAnswer, and a Sleep with nothing."""
Check: TypeAlias = Callable[[Response], Steps[None]]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a request is sent at most, and how many seconds are waited in all, for `Retry-After` too."""

    attempts: int = 6
    patience: float = 60.0
    clock: Callable[[], float] = time.time
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        is_count = isinstance(self.attempts, int) and not isinstance(self.attempts, bool)
        if not is_count or self.attempts < 1 or not isinstance(self.patience, int | float) or not self.patience >= 0:
            raise InvalidInput("attempts must be at least 1 and patience, in seconds, at least 0")

    def pause(self, outcome: Response | NoAnswer, attempt: int, waited: float, repeatable: bool) -> float | None:
        """Seconds until the next attempt; None where the outcome is final."""
        if isinstance(outcome, NoAnswer):
            may, seconds = repeatable or not outcome.sent, None
        else:
            may = outcome.status in (RETRIED_IF_REPEATABLE if repeatable else RETRIED) or is_running(outcome)
            seconds = retry_after(outcome, self.clock()) if may else None
        if not may or attempt >= self.attempts:
            return None
        most = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), MAX_PAUSE_SECONDS)
        pause = most * (0.5 + self.random() / 2) if seconds is None else seconds
        return pause if waited + pause <= self.patience else None


def is_running(response: Response) -> bool:
    """Whether an earlier attempt of a request with an Idempotency-Key still runs: its answer can be fetched later."""
    is_keyed = any(name == IDEMPOTENCY_KEY for name, _ in response.request.fields)
    return is_keyed and response.status == 409 and response.header("retry-after") is not None


def retry_after(response: Response, now: float) -> float | None:
    """Seconds to wait by Retry-After (RFC 9110, 10.2.3); None without one that can be read.

    A date is compared with the Date of the same answer where it has one: the clocks of two machines differ.
    """
    value = (response.header("retry-after") or "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    instant = _instant(value)
    if instant is None:
        return None
    date = _instant(response.header("date") or "")
    return max(0.0, instant - (now if date is None else date))


def _instant(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def perform(make: Callable[[], Request], retry: Retry, check: Check, *, repeatable: bool = True) -> Steps[Response]:
    """Send a request until there is a final answer. `make` is called for each attempt; `check` sees every answer.

    A request that is not `repeatable` is sent again only where the server has not acted on it. RequestFailed.
    """
    waited, attempt = 0.0, 0
    while True:
        request = make()
        attempt += 1
        outcome: Response | NoAnswer = yield request
        if isinstance(outcome, Response):
            yield from check(outcome)
        pause = retry.pause(outcome, attempt, waited, repeatable)
        if pause is None:
            break
        waited += pause
        if pause:
            yield Sleep(pause)
        if isinstance(outcome, Response) and is_running(outcome):
            attempt -= 1  # it is the same attempt whose end is waited for
    if isinstance(outcome, NoAnswer):
        raise RequestFailed(
            f"{request.url} does not answer: {outcome.reason}", url=request.url, error="no_answer", attempts=attempt
        )
    return outcome


# -- what an answer says ---------------------------------------------------------------------------------------------


class ErrorAnswer(msgspec.Struct):
    """An error of AIDRE (17.1); all members are recommended, none is required."""

    error: Any = None
    message: Any = None
    details: Any = None
    request_id: Any = None


MISUSES: dict[str, type[AidreError]] = {
    "unsupported_embedding_space": SpaceMissing,
    "invalid_embedding_dimension": DimensionMismatch,
}
EXACT: dict[str, type[AidreError]] = {
    kind.code: kind
    for kind in (InvalidDocument, InvalidFilter, InvalidVector, DocumentMissing, StoreLocked, Unsupported)
}
"""By `code` in the details of an answer, which servers of this project send: the code of the library's exception."""
BY_STATUS: dict[int, type[AidreError]] = {
    400: InvalidInput,
    401: AccessDenied,
    403: AccessDenied,
    404: Missing,
    409: Conflict,
    410: HistoryMissing,
    413: InvalidInput,
    422: InvalidInput,
}


def decode(response: Response, kind: type[T]) -> T:
    """The body of an answer as a struct or a JSON value. RequestFailed where it is none."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise invalid_answer(response, f"the answer is not what the protocol says: {error}") from error


def invalid_answer(response: Response, problem: str) -> RequestFailed:
    url = response.request.url
    return RequestFailed(f"{url}: {problem}", url=url, status=response.status, error="invalid_answer")


def error_of(response: Response, now: float) -> AidreError:
    """The exception for an answer of AIDRE that is an error: that of the library where the server says the same."""
    try:
        problem = msgspec.json.decode(response.body, type=ErrorAnswer)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        problem = ErrorAnswer()
    code = problem.error if isinstance(problem.error, str) else ""
    stated = problem.details if isinstance(problem.details, dict) else {}
    exact = stated.get("code")
    kind = MISUSES.get(code) or (EXACT.get(exact) if isinstance(exact, str) else None)
    kind = kind or BY_STATUS.get(response.status, RequestFailed)
    if kind is Missing and "collection" in stated:
        kind = CollectionMissing
    message = one_line(problem.message) if isinstance(problem.message, str) else f"HTTP status {response.status}"
    facts = {"url": response.request.url, "status": response.status, "error": code or None}
    request_id = problem.request_id if isinstance(problem.request_id, str) else response.header("x-request-id")
    waiting = retry_after(response, now)
    facts |= {"request_id": request_id} | ({} if waiting is None else {"retry_after": waiting})
    details = {name: value for name, value in stated.items() if name not in {"self", "message", "code"}} | facts
    return kind(f"{response.request.url}: {message}", **details)


def one_line(text: str) -> str:
    """A message from outside, on one line of bounded length."""
    short = " ".join(text.split())[:MAX_MESSAGE_CHARS]
    return short if short.isprintable() else printable_name(short)


def bounded(values: Iterator[float], most: float) -> Iterator[float]:
    """The pauses of somebody who waits `most` seconds in all; the last one is cut."""
    left = most
    for value in values:
        if left <= 0:
            return
        yield min(value, left)
        left -= value


def growing(first: float, most: float) -> Iterator[float]:
    """Pauses that grow by half each time."""
    for step in count():
        yield min(first * math.pow(1.5, min(step, 64)), most)
