"""Pages of one search: without gaps and repetitions, up to their end, and over what is gone by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.model import Query
from aidre.engine.retrieve import paging
from aidre.engine.retrieve.paging import SearchPage, first_page, later_page, page_at


@dataclass
class Chunk:
    id: str

    @property
    def document_key(self) -> str:
        return self.id


@dataclass
class Hit:
    chunk: Chunk
    score: float


class Careless:
    """A snapshot of the chunks "00" to "29" whose search misses one of them while it is asked for few results."""

    chunks = documents = 30

    def __init__(self, gone: Sequence[str] = (), missed: int = 2) -> None:
        self.gone = gone
        self.missed = missed

    def search(self, query: Query) -> list[Any]:
        ids = [f"{number:02}" for number in range(30) if number != self.missed or query.top_k > 5]
        return [Hit(Chunk(id), -float(id)) for id in ids][query.offset : query.offset + query.top_k]

    def count(self, wanted: object = None) -> int:
        return 30

    count_documents = count

    def get(self, chunk_id: str) -> object | None:
        return None if chunk_id in self.gone else Chunk(chunk_id)


def asked(top_k: int, offset: int = 0) -> Query:
    return Query(np.zeros(1, np.float32), "space", top_k, offset)


def ids(page: SearchPage) -> list[str]:
    return [hit.chunk.id for hit in page.hits]


def crawl(size: int, gone: Sequence[str] = (), most: int = 1_000) -> list[str]:
    then = cast(Snapshot, Careless())
    now = cast(Snapshot, Careless(gone)) if gone else then
    page = first_page(then, asked(size), most)
    found = ids(page)
    while page.offset is not None:
        page = later_page(then, now, asked(size, page.offset), size, most)
        found += ids(page)
    return found


def test_what_the_first_page_missed_comes_later_and_nothing_comes_twice() -> None:
    for size in (1, 2, 3, 4, 5, 7, 29, 30, 31):
        found = crawl(size)
        assert sorted(found) == [f"{number:02}" for number in range(30)]
    assert crawl(4)[:6] == ["00", "01", "03", "04", "02", "05"]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 30])
@pytest.mark.parametrize("counted", ["chunk", "document"])
def test_pages_by_offset_have_each_hit_once(size: int, counted: Any) -> None:
    snapshot = cast(Snapshot, Careless())
    found = [hit for offset in range(0, 35, size) for hit in ids(page_at(snapshot, asked(size, offset), counted))]
    assert sorted(found) == [f"{number:02}" for number in range(30)]


def test_pages_by_offset_go_on_beyond_the_first_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "DEPTHS", (6, 12, 64))
    snapshot = cast(Snapshot, Careless())
    found = [hit for offset in range(0, 32, 4) for hit in ids(page_at(snapshot, asked(4, offset)))]
    assert found[:6] == ["00", "01", "03", "04", "02", "05"]
    assert sorted(found) == [f"{number:02}" for number in range(30)]


def test_pages_end_where_they_must() -> None:
    assert len(crawl(4, most=10)) == 10
    assert len(crawl(5, most=10)) == 10
    assert len(crawl(10, most=10)) == 10


def test_what_is_gone_today_is_passed_over_and_pages_stay_full() -> None:
    then, now = cast(Snapshot, Careless()), cast(Snapshot, Careless(["10", "11", "29"]))
    page = later_page(then, now, asked(6, 8), 4, 1_000)
    assert ids(page) == ["08", "09", "12", "13", "14", "15"]
    assert page.offset == 16
    last = later_page(then, now, asked(6, 24), 4, 1_000)
    assert ids(last) == ["24", "25", "26", "27", "28"]
    assert last.offset is None


@pytest.mark.parametrize(("missed", "best"), [(2, ["00", "01", "03"]), (0, ["01", "02", "03"])])
def test_every_page_is_measured_by_the_first_hits_of_the_first(missed: int, best: list[str]) -> None:
    """The relevance of a hit depends on the first ones: a page with a measure of its own would be on another scale."""
    snapshot = cast(Snapshot, Careless(missed=missed))
    first = first_page(snapshot, asked(5), 1_000)
    later = later_page(snapshot, snapshot, asked(5, 10), 5, 1_000)
    assert first.best is not None
    assert later.best is not None
    assert [hit.chunk.id for hit in first.best] == [hit.chunk.id for hit in later.best] == best
    assert not {*best} & {*ids(later)}
