"""Embeds the texts of concurrent queries in one batch, off the event loop, and remembers recent ones.

While a batch runs, the texts that arrive become the next one: no timer, so a lone query never waits.
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

from aidre.api.scheduling import UNSEEN_SECONDS, Backlog, Estimate
from aidre.engine.embed import load_stored
from aidre.engine.errors import AidreError
from aidre.engine.model import EmbeddingSpace

logger = logging.getLogger("aidre")

BATCH = 32
REMEMBERED = 4_096
REMEMBERED_BYTES = 8_000_000
ENTRY_BYTES = 400
"""How many vectors are remembered, and in how many bytes: what it takes to find one again counts, too."""
SHORT = 64
"""Characters of a text that is remembered as it stands; a longer one by its digest."""
RELOAD_SECONDS = 30.0

Vector = NDArray[np.float32]


class QueryEmbedder(Protocol):
    """As much of an Embedder as a query needs."""

    def embed_queries(self, texts: Sequence[str]) -> Vector: ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...


Load: TypeAlias = Callable[[EmbeddingSpace], QueryEmbedder]


class SpaceQueries:
    """The text queries of one embedding space. All but `warm` and `_embed` run in the event loop."""

    def __init__(self, space: EmbeddingSpace, load: Load = load_stored, wait: float = math.inf) -> None:
        self._space = space
        self._load = load
        self._embedder: QueryEmbedder | None = None
        self._failure: AidreError | None = None
        self._failed_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._recent: OrderedDict[str | bytes, Vector] = OrderedDict()
        size = space.dimensions * np.dtype(np.float32).itemsize + ENTRY_BYTES
        self._most = min(REMEMBERED, REMEMBERED_BYTES // size)
        self._backlog = Backlog(wait)
        self._each = Estimate(UNSEEN_SECONDS)
        self._queue: list[str] = []
        self._answers: dict[str, asyncio.Future[Vector]] = {}
        self._draining: asyncio.Task[None] | None = None

    async def embed(self, text: str) -> Vector:
        """The vector of a text, by its words: how they are spaced says nothing. ModelUnavailable, or Overloaded where
        too many texts are waiting."""
        text = " ".join(text.split())
        name = _name(text)
        remembered = self._recent.get(name)
        if remembered is not None:
            self._recent.move_to_end(name)
            return remembered
        answer = self._answers.get(text)
        if answer is None:
            self._backlog.enter(self._each.seconds)
            answer = self._answers[text] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(partial(self._answered, self._each.seconds))
            self._queue.append(text)
            if self._draining is None:
                self._draining = asyncio.create_task(self._drain())
        await asyncio.wait((answer,))  # a caller that goes away must not take the answer from the others
        failure = answer.exception()
        if failure is not None:
            raise copy(failure) from failure  # one error raised for all would collect the frames of all
        return answer.result()

    def _answered(self, expected: float, answer: asyncio.Future[Vector]) -> None:
        self._backlog.leave(expected)
        if not answer.cancelled():
            answer.exception()  # asyncio complains of exceptions that nobody looked at

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Raises ModelUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._count, texts)

    def _count(self, texts: Sequence[str]) -> list[int]:
        return self._ready().count_tokens(texts)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            try:
                vectors, taken = await loop.run_in_executor(self._thread, self._embed, batch)
            except Exception as error:  # the outermost handler of this task: whoever waits must hear of it
                for text in batch:
                    self._answers.pop(text).set_exception(error)
                continue
            self._each.learn(taken / len(batch))
            for text, vector in zip(batch, vectors, strict=True):
                self._remember(text, vector)
                self._answers.pop(text).set_result(vector)
        self._draining = None

    def _remember(self, text: str, vector: Vector) -> None:
        self._recent[_name(text)] = vector.copy()  # on its own it does not hold its whole batch
        if len(self._recent) > self._most:
            self._recent.popitem(last=False)

    def _embed(self, texts: list[str]) -> tuple[Vector, float]:
        """The vectors, and the seconds that they took beyond loading the model."""
        embedder = self._ready()
        started = time.perf_counter()
        return embedder.embed_queries(texts), time.perf_counter() - started

    def _ready(self) -> QueryEmbedder:
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
        """Begins to load the model, so that the first query need not wait for it."""
        self._thread.submit(self._warm)

    def _warm(self) -> None:
        with suppress(AidreError):
            self._ready()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _name(text: str) -> str | bytes:
    """What tells one text from all others, and takes little room."""
    if len(text) <= SHORT:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class TextQueries:
    """The text queries of all spaces; a model is loaded once, when its space is first seen."""

    def __init__(self, load: Load = load_stored, wait: float = math.inf) -> None:
        self._load = load
        self._wait = wait
        self._spaces: dict[EmbeddingSpace, SpaceQueries] = {}

    async def embed(self, space: EmbeddingSpace, text: str) -> Vector:
        """Raises ModelUnavailable."""
        return await self._of(space).embed(text)

    async def count_tokens(self, space: EmbeddingSpace, texts: Sequence[str]) -> list[int]:
        """Raises ModelUnavailable."""
        return await self._of(space).count_tokens(texts)

    def warm(self, spaces: Iterable[EmbeddingSpace]) -> None:
        """Begins to load the models of spaces that were not seen before."""
        for space in spaces:
            if space.model is not None and space not in self._spaces:
                self._of(space).warm()

    def _of(self, space: EmbeddingSpace) -> SpaceQueries:
        queries = self._spaces.get(space)
        if queries is None:
            queries = self._spaces[space] = SpaceQueries(space, self._load, self._wait)
        return queries

    def close(self) -> None:
        for queries in self._spaces.values():
            queries.close()
