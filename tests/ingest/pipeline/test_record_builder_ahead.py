"""Chunks ahead of their use: the same items in the same order, each document split once at most."""

from __future__ import annotations

import threading

from aidre.engine.model import Chunk, Document
from aidre.ingest.pipeline.batching import Checked, Located
from aidre.ingest.pipeline.change_detection import ChangeCandidate
from aidre.ingest.pipeline.record_builder import RecordBuilder, split_ahead
from aidre.ingest.records.source_items import Rejected


class Splitter:
    """Remembers what it split, and in which thread."""

    def __init__(self) -> None:
        self.split: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, document: Document) -> tuple[Chunk, ...]:
        self.split.append(document.id)
        self.threads.add(threading.get_ident())
        return (Chunk(f"{document.id}#chunk_1", 1, document.text, 0, len(document.text)),)


ITEMS: list[Checked] = [
    *(Located(f"{n}.md", Document(f"{n}", f"text {n}")) for n in range(100)),
    Rejected("bad.md", "bad", "src", "bad.md"),
    Located("last.md", Document("last", "last text")),
]


def test_items_come_in_order_and_each_document_with_its_chunks_from_another_thread() -> None:
    splitter = Splitter()
    found = list(split_ahead(ITEMS, splitter))
    assert [one._replace(chunks=None) if isinstance(one, Located) else one for one in found] == ITEMS
    documents = [one for one in found if isinstance(one, Located)]
    assert all(one.chunks is not None and one.chunks[0].text == one.document.text for one in documents)
    assert splitter.split == [*map(str, range(100)), "last"]
    assert threading.get_ident() not in splitter.threads


def test_a_document_with_vectors_is_not_split_ahead() -> None:
    splitter = Splitter()
    items: list[Checked] = [Located("v.md", Document("v", "text", vectors={"s": [1.0]}))]  # type: ignore[dict-item]
    assert list(split_ahead(items, splitter)) == items
    assert splitter.split == []


def test_a_record_has_the_chunks_that_came_with_its_document_and_others_are_split_when_it_is_built() -> None:
    splitter = Splitter()
    first, second = Document("a", "text"), Document("b", "text")
    ahead = splitter(first)
    candidates = [ChangeCandidate("a.md", first, ahead, b""), ChangeCandidate("b.md", second, None, b"")]
    built = RecordBuilder(splitter, frozenset).build(candidates)
    assert [one if isinstance(one, str) else one.chunks[0].id for one in built] == ["a#chunk_1", "b#chunk_1"]
    assert splitter.split == ["a", "b"]
