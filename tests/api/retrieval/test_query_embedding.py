"""Texts of concurrent queries: which share a batch, which vectors are kept, and what a failure costs."""

from __future__ import annotations

import asyncio
import math
import threading
import traceback
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.api.http.http_errors import Overloaded
from aidre.api.retrieval import query_embedding
from aidre.api.retrieval.query_embedding import BatchingEmbedder, QueryEmbedders
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace
from tests.support.clients import TEXT
from tests.support.clocks import WAIT_SECONDS, until_in_loop


class Gated:
    """An embedder that waits for its gate and writes down its batches; text "n" becomes the vector [n]."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.threads.add(threading.get_ident())
        self.batches.append(list(texts))
        assert self.gate.wait(WAIT_SECONDS)
        return np.array([[float(text)] for text in texts], np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def test_what_arrives_during_a_batch_becomes_the_next_one() -> None:
    async def story() -> None:
        embedder = Gated()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        first = asyncio.create_task(queries.embed("0"))
        await until_in_loop(lambda: bool(embedder.batches))
        others = [asyncio.create_task(queries.embed(str(number))) for number in range(1, 11)]
        await asyncio.sleep(0)
        embedder.gate.set()
        vectors = await asyncio.gather(first, *others)
        assert [float(vector[0]) for vector in vectors] == [float(number) for number in range(11)]
        assert embedder.batches == [["0"], [str(number) for number in range(1, 11)]]
        assert len(embedder.threads) == 1
        assert threading.get_ident() not in embedder.threads
        queries.close()

    asyncio.run(story())


def test_no_batch_is_larger_than_the_largest() -> None:
    async def story() -> None:
        embedder = Gated()
        embedder.gate.set()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        await asyncio.gather(*(queries.embed(str(number)) for number in range(100)))
        assert [len(batch) for batch in embedder.batches] == [query_embedding.MAX_BATCH] * 3 + [4]
        queries.close()

    asyncio.run(story())


def test_equal_and_recent_texts_are_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_embedding, "MAX_CACHED_BYTES", 2 * (4 * TEXT.dimensions + query_embedding.ENTRY_BYTES))

    async def story() -> None:
        embedder = Gated()
        embedder.gate.set()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        await asyncio.gather(*(queries.embed("7") for _ in range(5)))
        await queries.embed("7")
        await queries.embed(" 7\n")
        assert embedder.batches == [["7"]]
        for text in ("8", "7", "9", "7", "8"):
            await queries.embed(text)
        assert embedder.batches == [["7"], ["8"], ["9"], ["8"]], (
            "the one that was asked for least recently is forgotten"
        )
        queries.close()

    asyncio.run(story())


def test_long_texts_are_told_apart_and_known_again() -> None:
    async def story() -> None:
        embedder = Gated()
        embedder.gate.set()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        long = ["0" * query_embedding.MAX_KEY_CHARS * 9 + last for last in "123"]
        for _ in range(2):
            for text in long:
                await queries.embed(f"  {text}\n")
        assert embedder.batches == [[text] for text in long]
        queries.close()

    asyncio.run(story())


def test_a_caller_that_goes_away_does_not_take_the_answer_from_the_others() -> None:
    async def story() -> None:
        embedder = Gated()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        leaving, staying = (asyncio.create_task(queries.embed("3")) for _ in range(2))
        await until_in_loop(lambda: bool(embedder.batches))
        leaving.cancel()
        embedder.gate.set()
        assert float((await staying)[0]) == 3.0
        assert leaving.cancelled()
        queries.close()

    asyncio.run(story())


def test_a_batch_that_fails_fails_its_own_callers_alone() -> None:
    async def story() -> None:
        embedder = Gated()
        embedder.gate.set()
        queries = BatchingEmbedder(TEXT, lambda space: embedder)
        with pytest.raises(ValueError, match="could not convert"):
            await queries.embed("not a number")
        assert float((await queries.embed("4"))[0]) == 4.0
        queries.close()

    asyncio.run(story())


def test_everyone_who_waits_is_told_of_a_failure_by_an_error_of_their_own() -> None:
    """One that is raised again and again keeps the frames of all who raised it."""

    def broken(space: EmbeddingSpace) -> Gated:
        raise ModelUnavailable("the model is away", embedding_space=space.id)

    async def story() -> None:
        queries = BatchingEmbedder(TEXT, broken)
        texts = [*map(str, range(8)), "0", "0"]
        asked = [*(queries.embed(text) for text in texts)]
        first = await asyncio.gather(*asked, return_exceptions=True)
        again = await asyncio.gather(*map(queries.embed, texts), return_exceptions=True)
        errors = [error for error in (*first, *again) if isinstance(error, ModelUnavailable)]
        assert len({id(error) for error in errors}) == 2 * len(texts)
        assert {error.details["embedding_space"] for error in errors} == {TEXT.id}
        assert max(len(traceback.extract_tb(error.__traceback__)) for error in errors) <= 3

    asyncio.run(story())


def test_a_text_that_would_have_to_wait_too_long_is_refused() -> None:
    async def story() -> None:
        embedder = Gated()
        queries = BatchingEmbedder(TEXT, lambda space: embedder, max_wait=0.0)
        first = asyncio.create_task(queries.embed("0"))
        await until_in_loop(lambda: bool(embedder.batches))
        with pytest.raises(Overloaded) as refused:
            await queries.embed("1")
        assert refused.value.status == 503
        assert int(refused.value.headers["Retry-After"]) >= 1
        same = asyncio.create_task(queries.embed("0"))
        embedder.gate.set()
        assert float((await first)[0]) == float((await same)[0]) == 0.0, "the same text costs nothing"
        assert float((await queries.embed("1"))[0]) == 1.0, "and what is refused once is not refused for long"
        queries.close()

    asyncio.run(story())


def test_a_model_that_cannot_load_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def load(space: EmbeddingSpace) -> Gated:
        tries.append(space)
        if len(tries) == 1:
            raise ModelUnavailable("not there yet")
        embedder = Gated()
        embedder.gate.set()
        return embedder

    async def story() -> None:
        queries = BatchingEmbedder(TEXT, load)
        monkeypatch.setattr(query_embedding, "RELOAD_SECONDS", math.inf)
        for _ in range(3):
            with pytest.raises(ModelUnavailable):
                await queries.embed("1")
        assert len(tries) == 1
        monkeypatch.setattr(query_embedding, "RELOAD_SECONDS", 0.0)
        assert float((await queries.embed("1"))[0]) == 1.0
        assert len(tries) == 2
        queries.close()

    asyncio.run(story())


def test_a_model_is_loaded_once_a_space_and_ahead_of_the_first_query() -> None:
    loaded: list[EmbeddingSpace] = []

    def load(space: EmbeddingSpace) -> Gated:
        loaded.append(space)
        embedder = Gated()
        embedder.gate.set()
        return embedder

    async def story() -> None:
        texts = QueryEmbedders(load)
        plain = EmbeddingSpace("plain", 1, "dot")
        for _ in range(3):
            texts.warm([TEXT, plain])
        await until_in_loop(lambda: bool(loaded))
        await texts.embed(TEXT, "5")
        assert loaded == [TEXT]
        texts.close()

    asyncio.run(story())


def test_a_text_query_to_vectors_of_another_revision_of_the_model_is_refused() -> None:
    async def story() -> None:
        texts = QueryEmbedders()
        with pytest.raises(ModelUnavailable, match="another revision"):
            await texts.embed(replace(TEXT, revision="hashing;v0"), "words")
        assert (await texts.embed(TEXT, "words")).shape == (64,)
        texts.close()

    asyncio.run(story())
