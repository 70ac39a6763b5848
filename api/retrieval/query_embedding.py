"""Embeds the texts of concurrent queries in batches, in a thread, and caches the vectors of recent texts.

Texts that arrive while a batch runs form the next one. There is no timer, so a single query never waits for others.
Accounts share the batches but not the vectors: the time of an answer must not tell what another account asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.api.retrieval.scheduler import Backlog
from aidre.engine.embedding import load_stored
from aidre.engine.errors import AidreError
from aidre.engine.model import EmbeddingSpace

logger = logging.getLogger("aidre")

MAX_BATCH = 32
"""Texts in one call of the model."""
MAX_CACHED_QUERIES = 4_096
MAX_CACHED_BYTES = 8_000_000
"""Limits of the cache of one space."""
ENTRY_BYTES = 400
"""Bytes of a cached vector beside its numbers: its key and its entry in the dictionary."""
MAX_KEY_CHARS = 64
"""Longer texts are cached under their digest."""
UNSEEN_SECONDS = 0.01
"""The estimate for the first text."""
NEWEST_WEIGHT = 1 / 8
"""Weight of the newest duration in the exponential moving average."""
MAX_OUTLIER = 4
"""A duration counts for at most this many times the mean: another process may have held the processor."""
RELOAD_SECONDS = 30.0
"""Time until a model that could not be loaded is tried again."""

Vector = NDArray[np.float32]
Asked = tuple[str, str]
"""Account and text; anonymous callers are the account ""."""


class QueryEmbedder(Protocol):
    """The part of an Embedder that queries need."""

    def embed_queries(self, texts: Sequence[str]) -> Vector: ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...


Load: TypeAlias = Callable[[EmbeddingSpace], QueryEmbedder]


class BatchingEmbedder:
    """Text queries in one embedding space. All but `warm` runs in the event loop; the model runs in one thread.

    `max_wait` is in seconds of queued work.
    """

    def __init__(self, space: EmbeddingSpace, load: Load = load_stored, max_wait: float = math.inf) -> None:
        self._space = space
        self._load = load
        self._embedder: QueryEmbedder | None = None
        self._failure: AidreError | None = None
        self._failed_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._cache: OrderedDict[tuple[str, str | bytes], Vector] = OrderedDict()
        entry_bytes = space.dimensions * np.dtype(np.float32).itemsize + ENTRY_BYTES
        self._max_cached = min(MAX_CACHED_QUERIES, MAX_CACHED_BYTES // entry_bytes)
        self._backlog = Backlog(max_wait)
        self._seconds_per_text = UNSEEN_SECONDS
        self._queue: list[Asked] = []
        self._pending: dict[Asked, asyncio.Future[Vector]] = {}
        self._draining: asyncio.Task[None] | None = None

    async def embed(self, text: str, account: str = "") -> Vector:
        """The vector of a text with its white space collapsed. Raises ModelUnavailable and Overloaded."""
        text_request = account, " ".join(text.split())
        key = _cache_key(text_request)
        cached = self._cache.get(key)
        if cached is not None:
            self._cache.move_to_end(key)
            return cached
        pending = self._pending.get(text_request)
        if pending is None:
            self._backlog.enter(self._seconds_per_text)
            pending = self._pending[text_request] = asyncio.get_running_loop().create_future()
            pending.add_done_callback(partial(self._embedded, self._seconds_per_text))
            self._queue.append(text_request)
            if self._draining is None:
                self._draining = asyncio.create_task(self._drain())
        await asyncio.wait((pending,))  # unlike `await pending`, a cancelled caller does not cancel it for the others
        failure = pending.exception()
        if failure is not None:
            raise copy(failure) from failure  # a shared instance would collect the frames of all callers
        return pending.result()

    def _embedded(self, expected: float, pending: asyncio.Future[Vector]) -> None:
        self._backlog.leave(expected)
        if not pending.cancelled():
            pending.exception()  # else asyncio logs an exception that was never retrieved

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Raises ModelUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: self._loaded().count_tokens(texts)
        )

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
            try:
                vectors, seconds = await loop.run_in_executor(
                    self._thread, self._embed_in_thread, [text for _, text in batch]
                )
            except Exception as error:  # the outermost handler of this task: the callers raise it
                for text_request in batch:
                    self._pending.pop(text_request).set_exception(error)
                continue
            self._learn(seconds / len(batch))
            for text_request, vector in zip(batch, vectors, strict=True):
                self._put(text_request, vector)
                self._pending.pop(text_request).set_result(vector)
        self._draining = None

    def _learn(self, seconds: float) -> None:
        """Updates the moving average of seconds a text."""
        mean = self._seconds_per_text
        self._seconds_per_text += (min(seconds, MAX_OUTLIER * mean) - mean) * NEWEST_WEIGHT

    def _put(self, text_request: Asked, vector: Vector) -> None:
        self._cache[_cache_key(text_request)] = vector.copy()  # a view would keep its whole batch alive
        if len(self._cache) > self._max_cached:
            self._cache.popitem(last=False)

    def _embed_in_thread(self, texts: list[str]) -> tuple[Vector, float]:
        """The vectors, and the seconds they took without loading the model."""
        embedder = self._loaded()
        started = time.perf_counter()
        return embedder.embed_queries(texts), time.perf_counter() - started

    def _loaded(self) -> QueryEmbedder:
        if self._embedder is None:
            if self._failure is not None and time.monotonic() - self._failed_at < RELOAD_SECONDS:
                raise copy(self._failure)
            try:
                self._embedder = self._load(self._space)
            except AidreError as error:
                self._failure, self._failed_at = error, time.monotonic()
                logger.error("text queries in %s are unavailable: %s", self._space.id, error)
                raise
        return self._embedder

    def warm(self) -> None:
        """Starts to load the model, so that the first query does not wait for it."""
        self._thread.submit(self._load_quietly)

    def _load_quietly(self) -> None:
        with suppress(AidreError):
            self._loaded()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _cache_key(text_request: Asked) -> tuple[str, str | bytes]:
    account, text = text_request
    if len(text) <= MAX_KEY_CHARS:
        return text_request
    return account, hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class QueryEmbedders:
    """Text queries in all spaces; the model of a space is loaded once."""

    def __init__(self, load: Load = load_stored, max_wait: float = math.inf) -> None:
        self._load = load
        self._max_wait = max_wait
        self._embedders: dict[EmbeddingSpace, BatchingEmbedder] = {}

    async def embed(self, space: EmbeddingSpace, text: str, account: str = "") -> Vector:
        """Raises ModelUnavailable and Overloaded."""
        return await self._embedder_of(space).embed(text, account)

    async def count_tokens(self, space: EmbeddingSpace, texts: Sequence[str]) -> list[int]:
        """Raises ModelUnavailable."""
        return await self._embedder_of(space).count_tokens(texts)

    def warm(self, spaces: Iterable[EmbeddingSpace]) -> None:
        """Starts to load the models of spaces that are new."""
        for space in spaces:
            if space.model is not None and space not in self._embedders:
                self._embedder_of(space).warm()

    def _embedder_of(self, space: EmbeddingSpace) -> BatchingEmbedder:
        embedder = self._embedders.get(space)
        if embedder is None:
            embedder = self._embedders[space] = BatchingEmbedder(space, self._load, self._max_wait)
        return embedder

    def close(self) -> None:
        for embedder in self._embedders.values():
            embedder.close()
