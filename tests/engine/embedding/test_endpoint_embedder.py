"""Embedding by an endpoint, `engine/embedding/endpoint_embedder.py`: what is sent, checked and tried again."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.embedding.embedder import embedding_keys, load_embedder, load_stored
from aidre.engine.embedding.endpoint_embedder import (
    BATCH_CHARACTERS,
    BATCH_TEXTS,
    DOWN_SECONDS,
    PATIENCE_SECONDS,
    Endpoint,
    EndpointEmbedder,
)
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace
from tests.support.clocks import Clock
from tests.support.embeddings import KEY, Canned, EmbeddingsApi, embedding
from tests.support.websites import encrypted, raw

SPACE = EmbeddingSpace("mine", 64, "cosine", normalized=True, provider="openai", model="words-1")


@dataclass
class Sleeper:
    """A clock that a sleep moves on."""

    clock: Clock = field(default_factory=Clock)
    slept: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


def embedder_of(
    api: EmbeddingsApi, sleeper: Sleeper | None = None, space: EmbeddingSpace = SPACE, **options: Any
) -> EndpointEmbedder:
    sleeper = sleeper or Sleeper()
    return EndpointEmbedder(space, Endpoint(api.url, **options), sleeper.clock, sleeper)


def failure(embedder: EndpointEmbedder, *texts: str) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as caught:
        embedder.embed_documents(texts or ["a text"])
    error = caught.value
    assert str(error).startswith("space 'mine': the endpoint at 127.0.0.1:")
    assert "\n" not in str(error)
    assert error.details["embedding_space"] == "mine"
    assert error.code == "model_unavailable"
    return error


def answer(*vectors: Any) -> Canned:
    return Canned(json.dumps({"data": [{"index": i, "embedding": row} for i, row in enumerate(vectors)]}).encode())


# -- what is sent and returned -----------------------------------------------------------------------------------


def test_vectors_come_in_the_order_of_the_texts_and_have_length_1(api: EmbeddingsApi) -> None:
    texts = [f"text number {number}" for number in range(2 * BATCH_TEXTS + 3)]
    rows = embedder_of(api).embed_documents(texts)
    expected = np.array(api.vectors(texts), np.float32)
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert rows.dtype == np.float32
    assert [len(asked["input"]) for asked in api.asked] == [BATCH_TEXTS, BATCH_TEXTS, 3]
    assert api.texts == texts


def test_vectors_of_a_space_that_is_not_normalized_stay_as_they_come(api: EmbeddingsApi) -> None:
    rows = embedder_of(api, space=replace(SPACE, normalized=False)).embed_queries(["tea"])
    np.testing.assert_allclose(rows, api.vectors(["tea"]), rtol=1e-6)


def test_a_request_says_the_model_and_dimensions_only_where_they_are_asked_for(api: EmbeddingsApi) -> None:
    embedder_of(api).embed_documents(["tea"])
    embedder_of(api, request_dimensions=True, key=KEY).embed_documents(["tea"])
    plain = {"model": "words-1", "input": ["tea"], "encoding_format": "float"}
    assert api.asked == [plain, {**plain, "dimensions": 64}]
    assert api.keys == [None, f"Bearer {KEY}"]


def test_characters_of_a_request_are_bounded(api: EmbeddingsApi) -> None:
    embedder_of(api).embed_documents(["a" * (BATCH_CHARACTERS // 2 + 1), "b" * (BATCH_CHARACTERS // 2), "c"])
    assert [len(asked["input"]) for asked in api.asked] == [1, 2]


def test_no_texts_ask_for_nothing(api: EmbeddingsApi) -> None:
    assert embedder_of(api).embed_documents([]).shape == (0, 64)
    assert api.asked == []


def test_odd_texts_are_embedded(api: EmbeddingsApi) -> None:
    assert np.isfinite(embedder_of(api).embed_documents(["", "\ud800", "\0"])).all()
    assert api.texts == [" ", "?", "\0"]


def test_a_text_that_is_too_long_is_embedded_by_its_beginning_and_the_others_whole(api: EmbeddingsApi) -> None:
    api.longest = 1_000
    long = "word " * 700
    rows = embedder_of(api).embed_documents(["tea", long, "rain"])
    assert {"tea", "rain", long[:875]} <= set(api.texts)
    np.testing.assert_allclose(rows[2], np.array(api.vectors(["rain"])[0]) / 3, atol=1e-6)


def test_tokens_are_estimated_from_words_and_bytes(api: EmbeddingsApi) -> None:
    assert embedder_of(api).count_tokens(["", "two words", "incomprehensible.", "\u8336" * 10]) == [0, 2, 5, 6]


# -- identity ----------------------------------------------------------------------------------------------------


def test_the_revision_is_the_model_and_the_label_but_not_the_address(api: EmbeddingsApi) -> None:
    here, there = (
        load_embedder(SPACE, endpoints={"mine": Endpoint(url)}) for url in (api.url, "https://api.example.com/v1")
    )
    assert here.space.revision == there.space.revision == "openai:words-1"
    assert embedding_keys(here.space, ["tea"]) == embedding_keys(there.space, ["tea"])
    labelled = load_embedder(replace(SPACE, revision="v2"), endpoints={"mine": Endpoint(api.url)}).space
    assert labelled.revision == "openai:words-1;v2"
    assert load_stored(labelled, endpoints={"mine": Endpoint(api.url)}).space == labelled
    assert embedding_keys(labelled, ["tea"]) != embedding_keys(here.space, ["tea"])


def test_a_space_without_its_endpoint_names_the_missing_line() -> None:
    with pytest.raises(ModelUnavailable, match=r"'mine'.* add the line endpoint = .*\[\[spaces\]\] in aidre.toml"):
        load_stored(SPACE, endpoints={"other": Endpoint("https://api.example.com/v1")})


# -- faults of an answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_denied_is_an_error_that_does_not_repeat_it(api: EmbeddingsApi, status: int) -> None:
    api.always = Canned(f"Incorrect API key: {KEY}".encode(), status)
    error = failure(embedder_of(api, key=KEY))
    assert (error.details["reason"], error.details["status"]) == ("denied", status)
    assert "correct key" in str(error)
    assert KEY not in repr((error, error.details, error.__cause__, Endpoint(api.url, KEY)))
    assert "wants a key" in str(failure(embedder_of(api)))
    assert len(api.asked) == 2, "asked once each"


def test_other_dimensions_than_the_declared_ones_are_named(api: EmbeddingsApi) -> None:
    api.dimensions = 32
    error = failure(embedder_of(api))
    assert "vectors of 32 dimensions, but the space declares 64: set dimensions = 32" in str(error)
    assert error.details["expected_dimensions"] == 64
    assert error.details["actual_dimensions"] == 32


ROW = [1.0] * 64


@pytest.mark.parametrize(
    ("canned", "said"),
    [
        (answer(ROW, ROW, ROW), "answers 2 texts with 3 vectors"),
        (answer(ROW), "answers 2 texts with 1 vectors"),
        (answer(ROW, [1e39] * 64), "not finite"),
        (answer(ROW, [None] * 64), "not a list of numbers"),
        (answer(ROW, [True] * 64), "not a list of numbers"),
        (answer(ROW, ["1"] * 64), "not a list of numbers"),
        (answer(ROW, "AACAPw=="), "not a list of numbers"),
        (answer(ROW, [[1.0]] * 64), "not a list of numbers"),
        (answer(ROW, [float("nan")] * 64), "not answer in JSON (NaN"),
        (Canned(b"<html>"), "not answer in JSON"),
        (Canned(b""), "not answer in JSON"),
        (Canned(b"[" * 100_000), "not answer in JSON"),
        (Canned(b"[]"), "without a list of vectors"),
        (Canned(b'{"data": [1, 2]}'), "without a list of vectors"),
        (Canned(json.dumps({"data": [{"index": 1, "embedding": ROW}] * 2}).encode()), "`index`"),
        (Canned(json.dumps({"data": [{"index": "0", "embedding": ROW}] * 2}).encode()), "`index`"),
    ],
)
def test_an_answer_that_is_wrong_is_an_error_that_says_what(api: EmbeddingsApi, canned: Canned, said: str) -> None:
    api.always = canned
    error = failure(embedder_of(api), "a", "b")
    assert said in str(error)
    assert "OpenAI's embeddings API" in str(error)
    assert error.details["reason"] == "invalid_answer"
    assert len(api.asked) == 1


def test_vectors_without_an_index_are_in_the_order_of_the_texts(api: EmbeddingsApi) -> None:
    other = [-1.0] * 64
    api.always = Canned(json.dumps({"data": [{"embedding": ROW}, {"embedding": other}]}).encode())
    assert (embedder_of(api).embed_documents(["a", "b"])[:, 0] > 0).tolist() == [True, False]


def test_an_answer_that_is_too_large_is_not_read_on(api: EmbeddingsApi) -> None:
    api.always = Canned(b" " * 1_000_000)
    assert "sends more than the 393,216 bytes" in str(failure(embedder_of(api)))
    assert len(api.asked) == 1


@pytest.mark.parametrize("status", [302, 400, 404, 418])
def test_another_status_is_an_error_that_names_model_and_endpoint(api: EmbeddingsApi, status: int) -> None:
    api.always = Canned(KEY.encode(), status, {"Location": "https://elsewhere.example/"})
    error = failure(embedder_of(api, key=KEY))
    assert f"answers with status {status}: correct model 'words-1' or endpoint" in str(error)
    assert KEY not in str(error)
    assert len(api.asked) == 1, "neither repeated nor followed"


# -- retries -----------------------------------------------------------------------------------------------------


def test_a_busy_endpoint_is_asked_again_when_it_says(api: EmbeddingsApi, sleeper: Sleeper) -> None:
    api.canned = [Canned(status=429, headers={"Retry-After": "7"}), Canned(status=503), Canned(status=502)]
    assert embedder_of(api, sleeper).embed_documents(["tea"]).shape == (1, 64)
    assert sleeper.slept == [7.0, 1.0, 2.0]


def test_the_time_to_ask_again_may_be_a_date(
    api: EmbeddingsApi, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.engine.embedding.endpoint_embedder.time.time", lambda: 1_000_000.0)
    ahead, before = (formatdate(1_000_000 + seconds, usegmt=True) for seconds in (9, -5))
    api.canned = [Canned(status=429, headers={"Retry-After": value}) for value in (ahead, before, "soon", "-1")]
    embedder_of(api, sleeper).embed_documents(["tea"])
    assert sleeper.slept == [9.0, 0.0, 2.0, 4.0]


def test_an_endpoint_that_stays_busy_is_given_up_within_the_time(api: EmbeddingsApi, sleeper: Sleeper) -> None:
    api.always = Canned(status=503)
    error = failure(embedder_of(api, sleeper))
    assert (error.details["reason"], error.details["status"]) == ("overloaded", 503)
    assert PATIENCE_SECONDS / 2 < sum(sleeper.slept) < PATIENCE_SECONDS


def test_a_longer_wait_than_the_time_is_not_begun(api: EmbeddingsApi, sleeper: Sleeper) -> None:
    api.always = Canned(status=429, headers={"Retry-After": "86400"})
    assert "try again in 86400 seconds" in str(failure(embedder_of(api, sleeper)))
    assert sleeper.slept == []


def test_a_connection_that_ends_is_tried_again(api: EmbeddingsApi, sleeper: Sleeper) -> None:
    api.canned = [Canned(None), Canned(None)]
    assert embedder_of(api, sleeper).embed_documents(["tea"]).shape == (1, 64)
    assert len(sleeper.slept) == 2


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port where nobody listens, and nobody else may."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_an_endpoint_that_is_not_there_is_given_up_within_the_time(closed_port: int, sleeper: Sleeper) -> None:
    error = failure(embedder_of(EmbeddingsApi(closed_port), sleeper))
    assert error.details["reason"] == "unreachable"
    assert "cannot be reached (Connection refused): check the line endpoint" in str(error)
    assert 1 < sum(sleeper.slept) < PATIENCE_SECONDS


def test_a_certificate_that_is_not_accepted_is_named_at_once(tmp_path: Path, sleeper: Sleeper) -> None:
    with encrypted(tmp_path) as port:
        embedder = EndpointEmbedder(SPACE, Endpoint(f"https://127.0.0.1:{port}"), sleeper.clock, sleeper)
        assert "certificate that is not accepted" in str(failure(embedder))
    assert sleeper.slept == []


def test_an_answer_comes_over_tls(tmp_path: Path, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", ssl._create_unverified_context)
    with embedding(tmp_path) as api:
        assert embedder_of(api, sleeper).embed_queries(["tea"]).shape == (1, 64)
    assert sleeper.slept == []


@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"])
def test_an_endpoint_that_sends_a_byte_now_and_then_gains_no_time(part: bytes, sleeper: Sleeper) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(part)
        while True:
            sleeper.clock.now += 10
            connection.sendall(b" ")
            time.sleep(0.001)

    with raw(drip) as url:
        error = failure(EndpointEmbedder(SPACE, Endpoint(url), sleeper.clock, sleeper))
    assert "does not answer in time" in str(error)


# -- queries -----------------------------------------------------------------------------------------------------


def test_queries_are_given_up_soon_and_then_refused_at_once_for_a_while(
    api: EmbeddingsApi, sleeper: Sleeper, caplog: pytest.LogCaptureFixture
) -> None:
    api.always = Canned(status=503)
    embedder = embedder_of(api, sleeper, key=KEY)
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="status 503"):
            embedder.embed_queries(["my secret question"])
    asked = len(api.asked)
    assert sum(sleeper.slept) < 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "told once"
    assert KEY not in caplog.text
    assert "secret question" not in caplog.text
    api.always = None
    sleeper.clock.now += DOWN_SECONDS
    assert embedder.embed_queries(["tea"]).shape == (1, 64)
    assert len(api.asked) == asked + 1


def test_a_query_that_is_refused_stops_no_other_one(api: EmbeddingsApi) -> None:
    api.canned = [Canned(status=400)]
    embedder = embedder_of(api)
    with pytest.raises(ModelUnavailable, match="status 400"):
        embedder.embed_queries(["odd"])
    assert embedder.embed_queries(["tea"]).shape == (1, 64)


def test_documents_are_asked_for_while_queries_are_refused(api: EmbeddingsApi, sleeper: Sleeper) -> None:
    embedder = embedder_of(api, sleeper)
    api.always = Canned(status=401)
    with pytest.raises(ModelUnavailable):
        embedder.embed_queries(["tea"])
    api.always = None
    assert embedder.embed_documents(["tea"]).shape == (1, 64)
