"""How many chunks are searched for documents, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from aidre.engine.model import Mode, Query
from aidre.engine.ports import Reader
from aidre.engine.retrieve.answer import answer
from aidre.engine.retrieve.by_document import LEAST_DEPTH, MAX_DEPTH, MAX_PASSAGES, Documents, documents
from aidre.engine.retrieve.paging import SearchPage, later_page
from aidre.engine.retrieve.question import Question, State
from tests.support.clients import COSINE


@dataclass
class Ranked:
    """A reader whose best chunks are of these documents, in this order; it counts how deep it is searched."""

    order: Sequence[str]
    gone: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.depths: list[int] = []
        self.texts: dict[str, dict[str, Any]] = {}
        self.chunks, self.documents = len(self.order), len(set(self.order))
        self.collection = SimpleNamespace(spaces=(COSINE,))

    def search(self, query: Query) -> list[Any]:
        self.depths.append(query.top_k)
        found = self.order[query.offset : query.offset + query.top_k]
        return [
            SimpleNamespace(
                chunk=SimpleNamespace(id=str(place), document_key=key, **self.texts.get(key, {})), score=1 / (1 + place)
            )
            for place, key in enumerate(found, query.offset)
        ]

    def count_documents(self, filter: object = None) -> int:
        return self.documents

    def get(self, chunk_id: str) -> object | None:
        return None if int(chunk_id) in self.gone else chunk_id


def asked(top_k: int, offset: int = 0, mode: Mode = "dense") -> Query:
    return Query(np.zeros(1, np.float32), "space", top_k, offset, mode=mode)


def found_in(reader: Ranked, query: Query, *, collapse: bool = False) -> Documents:
    return documents(cast(Reader, reader), query, collapse=collapse)


def keys(found: Documents) -> list[Any]:
    return [hit.chunk.document_key for hit in found.hits]


def test_the_first_search_is_enough_where_it_has_the_documents() -> None:
    reader = Ranked([f"d{number // 2}" for number in range(200)])
    assert keys(found_in(reader, asked(20))) == [f"d{number}" for number in range(20)]
    assert reader.depths == [40]


def test_it_goes_deeper_until_there_are_enough_documents() -> None:
    reader = Ranked(["long"] * 70 + [f"d{number}" for number in range(100)])
    found = found_in(reader, asked(5))
    assert keys(found) == ["long", "d0", "d1", "d2", "d3"]
    assert reader.depths == [LEAST_DEPTH, 4 * LEAST_DEPTH]
    assert [hit.chunk.id for hit in found.passages[0]] == [str(place) for place in range(1, 1 + MAX_PASSAGES)]
    assert found.passages[1:] == [()] * 4


def test_it_ends_where_all_documents_that_pass_are_found() -> None:
    reader = Ranked(["a", "b"] + ["a"] * 5_000)
    assert (keys(found_in(reader, asked(10))), reader.depths) == (["a", "b"], [LEAST_DEPTH])


def test_one_document_with_every_chunk_is_not_searched_to_its_end() -> None:
    reader = Ranked(["long"] * 100_000 + ["other"])
    assert keys(found_in(reader, asked(3))) == ["long"]
    assert max(reader.depths) == MAX_DEPTH


@pytest.mark.parametrize(("last", "more"), [("c", True), ("b", False)])
def test_whether_documents_follow_is_counted_where_every_chunk_is_a_match(last: str, more: bool) -> None:
    reader = Ranked(["a", "b"] + ["a"] * 40 + [last])
    assert (found_in(reader, asked(2)).more, reader.depths) == (more, [LEAST_DEPTH])


@pytest.mark.parametrize(("last", "more"), [("c", True), ("b", False)])
def test_whether_documents_with_a_word_follow_is_looked_for(last: str, more: bool) -> None:
    reader = Ranked(["a", "b"] + ["a"] * 40 + [last])
    reader.documents = 9
    found = found_in(reader, asked(2, mode="lexical"))
    assert (found.more, len(found.hits), reader.depths) == (more, 2, [LEAST_DEPTH, 4 * LEAST_DEPTH])


def test_an_offset_leaves_documents_out() -> None:
    order = ["a", "a", "b", "c", "a", "d", "e"]
    assert keys(found_in(Ranked(order), asked(2, 1))) == ["b", "c"]
    assert keys(found_in(Ranked(order), asked(2, 4))) == ["e"]
    assert keys(found_in(Ranked(order), asked(2, 9))) == []


def test_documents_of_one_chunk_are_one_plain_search() -> None:
    reader: Any = Ranked([f"d{number}" for number in range(50)])
    question = Question(5, vector=np.ones(4, np.float32), group="document", collapse=False)
    steps = answer(question, State(reader))
    step: Any = next(steps)
    assert (step.query.top_k, step.counted) == (5, "chunk")
    with pytest.raises(StopIteration) as end:
        steps.send(SearchPage(reader.search(step.query), 5, None))
    assert (end.value.value.passages, end.value.value.next) == (None, 5)


def test_a_document_whose_best_chunk_is_gone_is_shown_by_its_next_one() -> None:
    order = ["first", "a", "b", "a", "c"]
    then, now = cast(Reader, Ranked(order)), cast(Reader, Ranked(order, gone=frozenset({1, 2})))
    page = later_page(then, now, asked(5, 1), 1, 100, counted="document")
    assert [hit.chunk.id for hit in page.hits] == ["3", "4"]
    assert (page.passages, page.offset) == ([(), ()], None)


def test_copies_are_those_of_the_best_document_and_the_search_goes_on_for_others() -> None:
    long = " ".join(f"reed{number}" for number in range(80))
    reader = Ranked(["a", "b1", "a1", "b", "a2", *(f"c{number}" for number in range(60))])
    texts = {"a": f"{long} one", "a1": f"{long} two", "a2": f"three {long}", "b": "!!", "b1": "!!"}
    texts |= {f"c{number}": f"another text of heron {number} and {number}" for number in range(60)}
    reader.texts = {key: {"text": text, "signature": None} for key, text in texts.items()}
    found = found_in(reader, asked(5), collapse=True)
    assert keys(found) == ["a", "b1", "b", "c0", "c1"]
    assert [[hit.chunk.document_key for hit in few] for few in found.copies] == [["a1", "a2"], [], [], [], []]
    assert reader.depths == [5, 20]
    assert found.more
