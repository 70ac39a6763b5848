"""Embedding by an HTTP endpoint that speaks OpenAI's embeddings API: batches, retries, and a check of every answer.

Neither the texts, nor the key, nor what the endpoint answers is logged or part of an error. Redirects are not followed:
the key goes to the configured address alone.
"""

from __future__ import annotations

import logging
import math
import re
import ssl
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.embedding.torch import replace_surrogates
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace, Json

log = logging.getLogger(__name__)

OPENAI: Final = "openai"
"""The provider of a space that an endpoint embeds."""

MAX_TOKENS: Final = 256
"""The length of a chunk, in estimated tokens: an endpoint does not say how much its model reads."""
TOKEN_BYTES: Final = 5
"""Bytes of UTF-8 in one estimated token of a word; tokenizers of many languages make as many tokens, or fewer."""

BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 100_000
"""Bounds of one request; a longer text is a request of its own."""
SHORTEST_CHARACTERS: Final = 500
"""A text that is refused is tried again by its first half, down to this length, which every model reads."""

PATIENCE_SECONDS: Final = 120.0
"""Time for one batch of documents with its retries: rates of providers are refilled each minute."""
QUERY_SECONDS: Final = 8.0
"""The same for queries: an answer by words is better than a late one."""
QUERY_RETRY_SECONDS: Final = 2.0
"""Time from a query's first request to its last one."""
DOWN_SECONDS: Final = 10.0
"""Time for which queries are refused at once after one has failed, so that they do not all wait."""
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 8.0
"""Pauses between retries double from the first to the longest, where the endpoint asks for no other one."""

RETRIED: Final = frozenset({429, 500, 502, 503, 504})
DENIED: Final = frozenset({401, 403})
TOO_LONG: Final = frozenset({400, 413, 422})
"""Statuses of a text that is too long for the model, among other faults."""

KEPT_SECONDS: Final = 15.0
"""Time for which an idle connection is kept for the next request."""

NUMBER_BYTES: Final = 40
LEAST_DIMENSIONS: Final = 8_192
ENVELOPE_BYTES: Final = 65_536
"""Limits of an answer: bytes for each number, at least this many numbers a text, and bytes beside them."""

_WORD: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a space is embedded: `{url}/embeddings`. It belongs to the configuration and is never stored.

    `key` is sent as a bearer token. With `request_dimensions` the number of dimensions is asked for. `timeout` is that
    of one request, in seconds.

    Examples:
        >>> aidre.Endpoint("https://api.example.com/v1", key="secret")
        Endpoint(url='https://api.example.com/v1', request_dimensions=False, timeout=60.0)
    """

    url: str
    key: str | None = field(default=None, repr=False)
    request_dimensions: bool = False
    timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class _EndpointResponse:
    status: int
    body: bytes
    retry_after: float | None


class _Times(NamedTuple):
    """By the clock: when a batch must be done, and when its last retry may begin."""

    end: float
    last_retry: float


class _EndpointFailure(Exception):
    """The reason. `is_final`: asking again would not help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class EndpointEmbedder:
    """Every fault of the endpoint is ModelUnavailable, whose details name `reason` and where there is one `status`.

    The revision names the model and the operator's label, not the address: the same model elsewhere gives the same
    vectors, and a new label has all texts embedded again. Tokens are estimated.
    """

    runtime = OPENAI
    max_tokens = MAX_TOKENS

    def __init__(
        self,
        space: EmbeddingSpace,
        endpoint: Endpoint,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.space = replace(space, revision=_revision(space))
        self._endpoint, self._clock, self._sleep = endpoint, clock, sleep
        self._http = _Http(endpoint, clock)
        self._failure: ModelUnavailable | None = None
        self._failed_at = 0.0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """ModelUnavailable."""
        patience = max(PATIENCE_SECONDS, 2 * self._endpoint.timeout)
        return self._embed_all(texts, patience, patience)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """ModelUnavailable, for some seconds after a failure at once."""
        failure = self._failure
        if failure is not None and self._clock() - self._failed_at < DOWN_SECONDS:
            raise copy(failure)
        try:
            rows = self._embed_all(texts, QUERY_SECONDS, QUERY_RETRY_SECONDS)
        except ModelUnavailable as error:
            if error.details["reason"] != "refused":  # that one may be the fault of a text
                self._failure, self._failed_at = copy(error), self._clock()
                log.warning("queries are not embedded: %s", error)
            raise
        self._failure = None
        return rows

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [
            sum(math.ceil(len(word.encode("utf-8", "replace")) / TOKEN_BYTES) for word in _WORD.findall(text))
            for text in texts
        ]

    def _embed_all(self, texts: Sequence[str], seconds: float, retry_seconds: float) -> NDArray[np.float32]:
        rows = []
        for batch in _batches(texts):
            now = self._clock()
            rows.append(self._embed(batch, _Times(now + seconds, now + retry_seconds)))
        return np.concatenate(rows) if rows else np.empty((0, self.space.dimensions), np.float32)

    def _embed(self, texts: list[str], times: _Times) -> NDArray[np.float32]:
        """One batch. Where it is refused, its halves, and of a text alone the first half: it may be too long."""
        answer = self._ask(texts, times)
        if answer.status in TOO_LONG and len(texts) > 1:
            middle = len(texts) // 2
            return np.concatenate([self._embed(texts[:middle], times), self._embed(texts[middle:], times)])
        if answer.status in TOO_LONG and len(texts[0]) > SHORTEST_CHARACTERS:
            return self._embed([texts[0][: len(texts[0]) // 2]], times)
        if answer.status in DENIED:
            complaint = "does not accept the key" if self._endpoint.key else "wants a key"
            cure = 'correct key = "env:NAME" of the space, and what NAME holds'
            raise self._unavailable("denied", f"{complaint} (status {answer.status}): {cure}", status=answer.status)
        if answer.status != 200:
            problem = (
                f"answers with status {answer.status}: correct model {self.space.model!r} or endpoint of the space"
            )
            raise self._unavailable("refused", problem, status=answer.status)
        return self._read_vectors(len(texts), answer.body)

    def _ask(self, texts: list[str], times: _Times) -> _EndpointResponse:
        """The answer to one request, which is repeated where none comes back or its status is a temporary one."""
        request: dict[str, Json] = {"model": self.space.model, "input": texts, "encoding_format": "float"}
        if self._endpoint.request_dimensions:
            request["dimensions"] = self.space.dimensions
        content = orjson.dumps(request)
        limit = ENVELOPE_BYTES + NUMBER_BYTES * len(texts) * max(self.space.dimensions, LEAST_DIMENSIONS)
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait, status, final = pause, None, False
            try:
                answer = self._http.post(content, limit, times.end)
            except _EndpointFailure as error:
                problem, final = f"{error}: check the line endpoint of the space, and the network", error.is_final
            else:
                if answer.status not in RETRIED:
                    return answer
                status, retry_after = answer.status, answer.retry_after
                wait = pause if retry_after is None else retry_after
                later = "" if retry_after is None else f" in {math.ceil(retry_after)} seconds"
                problem = f"answers with status {status}: try again{later}, or ask its provider for a higher rate"
            if final or self._clock() + wait >= times.last_retry:
                raise self._unavailable("unreachable" if status is None else "overloaded", problem, status=status)
            self._sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _read_vectors(self, count: int, body: bytes) -> NDArray[np.float32]:
        """The vectors of an answer in the order of the texts, shape (count, dimensions)."""
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._invalid("does not answer in JSON (NaN and Infinity are not JSON)") from error
        items = content.get("data") if isinstance(content, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._invalid("answers without a list of vectors in `data`")
        if len(items) != count:
            raise self._invalid(f"answers {count} texts with {len(items)} vectors")
        numbers = [item.get("index", position) for position, item in enumerate(items)]
        if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(count)):
            raise self._invalid("answers with vectors whose `index` is not that of one text each")
        rows = np.empty((count, self.space.dimensions), np.float32)
        for number, item in zip(numbers, items, strict=True):
            rows[number] = self._read_vector(item.get("embedding"))
        if self.space.normalized:
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(lengths > 0, lengths, 1)
        return rows

    def _read_vector(self, numbers: Json) -> NDArray[np.float32]:
        if not isinstance(numbers, list) or not all(type(number) in {int, float} for number in numbers):
            raise self._invalid("answers with a vector that is not a list of numbers")
        declared = self.space.dimensions
        if len(numbers) != declared:
            condition = " and request_dimensions is true" if self._endpoint.request_dimensions else ""
            raise self._unavailable(
                "wrong_dimensions",
                f"answers with vectors of {len(numbers)} dimensions, but the space declares {declared}{condition}: "
                f"set dimensions = {len(numbers)}, or correct model {self.space.model!r}",
                expected_dimensions=declared,
                actual_dimensions=len(numbers),
            )
        with np.errstate(over="ignore"):
            vector = np.array(numbers, np.float64).astype(np.float32)
        if not np.isfinite(vector).all():
            raise self._invalid("answers with numbers that are not finite in 32 bits")
        return vector

    def _invalid(self, problem: str) -> ModelUnavailable:
        return self._unavailable("invalid_answer", f"{problem}: it must offer OpenAI's embeddings API")

    def _unavailable(self, reason: str, problem: str, **details: Any) -> ModelUnavailable:
        where = urlsplit(self._endpoint.url).netloc.rpartition("@")[2]
        known = {name: value for name, value in details.items() if value is not None}
        return ModelUnavailable(
            f"space {self.space.id!r}: the endpoint at {where} {problem}",
            embedding_space=self.space.id,
            reason=reason,
            **known,
        )


class _Http:
    """Connections to one endpoint, kept open between requests and shared by threads; no proxies."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        import httpcore2

        logging.getLogger("httpcore2").setLevel(logging.WARNING)  # on DEBUG it quotes headers
        self._timeout, self._clock = endpoint.timeout, clock
        self._url = f"{endpoint.url.rstrip('/')}/embeddings"
        self._headers: dict[bytes | str, bytes | str] = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "aidre",
        }
        if endpoint.key:
            self._headers["Authorization"] = f"Bearer {endpoint.key}"
        context = ssl.create_default_context() if self._url.startswith("https:") else None
        dialler: Any = _Dialler(httpcore2.SyncBackend(), clock)
        self._pool = httpcore2.ConnectionPool(
            context, max_connections=None, keepalive_expiry=KEPT_SECONDS, network_backend=dialler
        )
        weakref.finalize(self, self._pool.close)

    def post(self, content: bytes, limit: int, deadline: float) -> _EndpointResponse:
        """Raises _EndpointFailure, also for an answer of more than `limit` bytes or one that takes too long."""
        import httpcore2

        deadline = min(deadline, self._clock() + self._timeout)
        times = dict.fromkeys(("connect", "read", "write"), deadline)
        try:
            with self._pool.stream(
                "POST", self._url, headers=self._headers, content=content, extensions={"timeout": times}
            ) as response:
                body = _read(response.iter_stream(), limit)
                return _EndpointResponse(response.status, body, _retry_after(response.headers))
        except httpcore2.TimeoutException as error:
            raise _EndpointFailure("does not answer in time") from error
        except httpcore2.NetworkError as error:
            raise _unreachable(error.args[0] if error.args else error) from error
        except httpcore2.ProtocolError as error:
            raise _EndpointFailure("ends the connection early, or does not speak HTTP") from error
        except (OSError, ValueError) as error:  # ValueError: a name that no resolver takes
            raise _unreachable(error) from error


class _Dialler:
    """A network of httpcore2 whose time-outs are times by the clock at which all must be done: whoever sends a byte now
    and then gains no time by it. It makes streams of itself."""

    def __init__(self, inner: Any, clock: Callable[[], float]) -> None:
        self._inner, self._clock = inner, clock

    def connect_tcp(self, host: str, port: int, timeout: float, **options: Any) -> _Dialler:
        return _Dialler(self._inner.connect_tcp(host, port, self._left(timeout), **options), self._clock)

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None, timeout: float) -> _Dialler:
        return _Dialler(self._inner.start_tls(ssl_context, server_hostname, self._left(timeout)), self._clock)

    def read(self, max_bytes: int, timeout: float) -> bytes:
        content: bytes = self._inner.read(max_bytes, self._left(timeout))
        return content

    def write(self, buffer: bytes, timeout: float) -> None:
        self._inner.write(buffer, self._left(timeout))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def _left(self, end: float) -> float:
        import httpcore2

        seconds = end - self._clock()
        if seconds <= 0:
            raise httpcore2.ReadTimeout
        return seconds


def _read(parts: Iterator[bytes], limit: int) -> bytes:
    received = bytearray()
    for part in parts:
        received += part
        if len(received) > limit:
            raise _EndpointFailure(f"sends more than the {limit:,} bytes that its answer may have", is_final=True)
    return bytes(received)


def _revision(space: EmbeddingSpace) -> str:
    """The model and the operator's label, which the declared revision is, or which follows the model in it."""
    own = f"{OPENAI}:{space.model}"
    label = (space.revision or "").removeprefix(own).lstrip(";")
    return f"{own};{label}" if label else own


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch, size = list[str](), 0
    for text in map(replace_surrogates, texts):
        if batch and (len(batch) == BATCH_TEXTS or size + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text or " ")  # an empty text is refused by some
        size += len(text)
    if batch:
        yield batch


def _unreachable(cause: object) -> _EndpointFailure:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _EndpointFailure(f"has a certificate that is not accepted ({cause.verify_message})", is_final=True)
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
    return _EndpointFailure(f"cannot be reached ({reason})")


def _retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds that a header Retry-After asks for, as a number or a date; None without a valid one."""
    value = next((value.decode("latin-1").strip() for name, value in headers if name.lower() == b"retry-after"), "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
