"""Words in Milvus Lite: candidates of the server's BM25 hold the hits of local segments, counts survive commits that
fail, and collections without words say so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine import Address, open_source
from aidre.engine.errors import BackendUnavailable, InvalidFilter, Unsupported
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import HighlightLimits, Query, Record
from aidre.engine.ports import Reader, Source
from tests.support.engines import lite_uri
from tests.support.stores import NAME, record, space_of

pytest.importorskip("pymilvus")
from aidre_milvus import catalog, server as server_module
from aidre_milvus.reader import MilvusReader

SPACE = space_of("cosine", 4)
LEAST_COMMON = 0.99


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Source]:
    with lite_uri() as uri:
        yield open_source(tmp_path, Address("milvus", uri))


def add(source: Source, *records: Record) -> Reader:
    with source.writer(NAME, spaces=[SPACE]) as sink:
        vectors = np.ones((sum(len(one.chunks) for one in records), SPACE.dimensions), np.float32)
        sink.upsert(list(records), {SPACE.id: sink.encode(SPACE.id, vectors)}, {})
        sink.commit()
    return source.open(NAME)


def found(reader: Reader, text: str, **members: Any) -> list[tuple[str, float]]:
    hits = reader.search(Query(None, None, text=text, mode="lexical", **members))
    return [(hit.document_id, hit.score) for hit in hits]


def test_the_candidates_of_the_server_hold_the_hits_of_local_segments(store: Source, tmp_path: Path) -> None:
    """Words of very different frequencies, in chunks of very different lengths, written by several commits."""
    chosen = random.Random(7)
    words = [f"w{number}x" for number in range(2_000)]
    weights = [1 / (1 + number) for number in range(len(words))]
    records = [
        record(
            f"d{number}",
            [" ".join(chosen.choices(words, weights, k=chosen.randint(5, 120)))],
            metadata={"n": number % 5},
        )
        for number in range(2_400)
    ]
    local = open_source(tmp_path / "local")
    for source in (local, store):
        for first in range(0, len(records), 800):
            add(source, *records[first : first + 800])
    readers = local.open(NAME), store.open(NAME)
    same = total = 0
    for number in range(60):
        text = " ".join(chosen.choices(words, [weight**0.5 for weight in weights], k=1 + number % 8))
        filter_ = parse_filter({"n": 1}) if number % 2 else None
        expected, got = ([score for _, score in found(reader, text, top_k=10, filter=filter_)] for reader in readers)
        assert len(got) == len(expected)
        same += int(np.isclose(expected, got, atol=1e-5).sum())
        total += len(expected)
    assert total > 400
    assert same >= LEAST_COMMON * total


def test_a_search_for_many_hits_scores_every_chunk_that_has_a_word(
    store: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = add(store, *(record(f"d{number}", ["tea " * (1 + number % 3) + "rye"]) for number in range(40)))
    expected = found(reader, "tea", top_k=30)
    monkeypatch.setattr("aidre_milvus.search._MOST_FOUND", 20)
    assert found(reader, "tea", top_k=30) == expected


def test_counts_are_those_of_commits_that_took_place(store: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    before = add(store, record("a", ["green tea"]), record("b", ["tea"]))
    assert counts(before, "tea", "green", "rye") == {"tea": 2, "green": 1}

    def lost(*_: object, **__: object) -> None:
        raise BackendUnavailable("the server does not answer", backend="milvus", address="", reason="lost")

    with store.writer(NAME, spaces=None) as sink:
        vectors = sink.encode(SPACE.id, np.ones((1, SPACE.dimensions), np.float32))
        sink.upsert([record("c", ["rye tea"])], {SPACE.id: vectors}, {})
        sink.delete(["a"])
        with monkeypatch.context() as patched:
            patched.setattr(catalog.MilvusCatalog, "publish", lost)
            with pytest.raises(BackendUnavailable):
                sink.commit()
        assert counts(store.open(NAME), "tea", "green") == {"tea": 2, "green": 1}
        assert found(store.open(NAME), "rye") == []
        sink.commit()
    after = store.open(NAME)
    assert counts(after, "tea", "green", "rye") == {"tea": 2, "rye": 1}
    assert [name for name, _ in found(after, "rye")] == ["c"]
    assert found(after, "green") == []
    assert counts(before, "tea", "green") == {"tea": 2, "green": 1}
    for number in range(3):
        add(store, record(f"x{number}", ["tea"]))
    assert counts(store.open(NAME), "tea") == {"tea": 5}
    assert [name for name, _ in found(before, "tea")], "a reader that is commits behind finds words that are left"


def counts(reader: Any, *terms: str) -> dict[str, int]:
    assert isinstance(reader, MilvusReader)
    return dict(reader._frequencies(terms))


def test_a_chunk_without_words_and_one_of_very_many_are_stored(store: Source) -> None:
    many = " ".join(f"w{number}x" for number in range(9_000))
    reader = add(store, record("none", ["…"]), record("many", [many]), record("tea", ["tea"]))
    assert (reader.documents, sum(reader.status()["languages"].values())) == (3, 3)
    assert [name for name, _ in found(reader, "w5x tea")] == ["tea", "many"]


def test_a_collection_that_was_written_without_words_says_so_and_goes_on(
    store: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of release 0.2.0, and of servers before 2.5."""
    with monkeypatch.context() as patched:
        patched.setattr(server_module.MilvusDatabase, "has_words", False)
        assert not add(store, record("a", ["green tea"])).can.lexical
    reader = add(store, record("b", ["rye"]))
    assert (reader.can.lexical, reader.can.hybrid, reader.documents) == (False, False, 2)
    hit = reader.search(Query([1.0] * 4, SPACE.id, 1))
    for ask in (
        lambda: found(reader, "tea"),
        lambda: reader.search(Query([1.0] * 4, SPACE.id, 1, text="tea", mode="hybrid")),
        lambda: reader.highlight("tea", hit, HighlightLimits()),
    ):
        with pytest.raises(Unsupported, match=r"'docs' has no words in Milvus.*write it anew on Milvus 2\.5 or later"):
            ask()
    with pytest.raises(InvalidFilter, match=r"is searched text, not a field of filters: search for it$"):
        reader.count(parse_filter({"text": "tea"}))
    store.drop(NAME)
    assert [name for name, _ in found(add(store, record("a", ["green tea"])), "tea")] == ["a"]
