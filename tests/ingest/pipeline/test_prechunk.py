"""Chunks ahead of their use: the same items in the same order, each document split once at most."""

from __future__ import annotations

import threading

import pytest

from aidre.engine.model import Chunk, Document
from aidre.ingest.pipeline.prechunk import Prechunker
from aidre.ingest.records.items import Item, Rejected


class Splitter:
    """Remembers what it split, and in which thread."""

    def __init__(self) -> None:
        self.split: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, document: Document) -> tuple[Chunk, ...]:
        self.split.append(document.id)
        self.threads.add(threading.get_ident())
        return (Chunk(f"{document.id}#chunk_1", 1, document.text, 0, len(document.text)),)


ITEMS: list[Item] = [
    *((f"{n}.md", Document(f"{n}", f"text {n}")) for n in range(100)),
    Rejected("bad.md", "bad", "src", "bad.md"),
    ("blank.md", Document("blank", " \n")),
]


@pytest.mark.parametrize("in_advance", [False, True])
def test_items_come_in_order_with_the_chunks_of_each_document(in_advance: bool) -> None:
    splitter = Splitter()
    prechunker = Prechunker(splitter, in_advance=in_advance)
    found = []
    for item in prechunker.stream(ITEMS):
        found.append(item)
        if isinstance(item, tuple):
            (chunk,) = prechunker.chunks(item[1])
            assert chunk.text == item[1].text
    assert found == ITEMS
    assert splitter.split == [*map(str, range(100)), "blank"]
    assert (splitter.threads != {threading.get_ident()}) == in_advance


def test_documents_are_split_in_advance_before_anyone_asks() -> None:
    splitter = Splitter()
    prechunker = Prechunker(splitter, in_advance=True)
    assert list(prechunker.stream(ITEMS)) == ITEMS
    assert splitter.split == [*map(str, range(100))]


def test_not_in_advance_only_what_is_asked_for_is_split() -> None:
    splitter = Splitter()
    prechunker = Prechunker(splitter, in_advance=False)
    assert list(prechunker.stream(ITEMS)) == ITEMS
    assert splitter.split == []


def test_chunks_that_were_given_away_or_cleared_are_made_anew() -> None:
    splitter = Splitter()
    prechunker = Prechunker(splitter, in_advance=True)
    document = Document("a", "text")
    list(prechunker.stream([("a.md", document)]))
    prechunker.chunks(document)
    assert splitter.split == ["a"]
    prechunker.chunks(document)
    assert splitter.split == ["a", "a"]
    list(prechunker.stream([("a.md", document)]))
    prechunker.clear()
    prechunker.chunks(document)
    assert splitter.split == ["a"] * 4
