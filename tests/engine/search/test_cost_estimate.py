"""The duration of a search as it is told before the search: what it grows with, and what it does not need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import FUSED_RANKS, Fusion, Mode, Query
from aidre.engine.ports import Reader
from aidre.engine.search.codes import MAX_TEXTS, TEXT_SECONDS
from aidre.engine.search.cost import lexical_cost
from tests.support.clients import COSINE, TEXT, a_document, fill

FILTER = parse_filter({"n": {"gte": 1}})


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    path = tmp_path_factory.mktemp("estimate")
    fill(path, "docs", [a_document(f"d{n}", f"alpha {n}", metadata={"n": n}) for n in range(3)], (TEXT, COSINE))
    return Store(path).open("docs")


def query(mode: Mode = "dense", text: str | None = None, **members: object) -> Query:
    return Query(np.ones(4, np.float32), COSINE.id, 2, text=text, mode=mode, **members)  # type: ignore[arg-type]


def test_a_search_of_few_rows_is_short_and_a_mode_costs_what_its_parts_cost(reader: Reader) -> None:
    dense, lexical = reader.estimated_seconds(query()), reader.estimated_seconds(query("lexical", "alpha"))
    assert 0 < dense < 0.001
    assert 0 < lexical < 0.001
    assert reader.estimated_seconds(query("hybrid", "alpha")) == pytest.approx(dense + lexical)


def test_a_search_by_ranks_is_as_deep_as_its_lists(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(self: Snapshot, space: str, k: int, recall: float | None, *, is_filtered: bool) -> float:
        asked.append(k)
        return 0.0

    monkeypatch.setattr(Snapshot, "_dense_seconds", noted)
    for fusion, top_k in ((Fusion(), 2), (Fusion(method="rrf"), 2), (Fusion(method="rrf"), 50)):
        reader.estimated_seconds(replace(query("hybrid", "alpha", fusion=fusion), top_k=top_k))
    assert asked == [2, FUSED_RANKS, 50]


def test_a_filter_is_long_until_it_was_used(reader: Reader) -> None:
    filtered = query(filter=FILTER)
    assert reader.estimated_seconds(filtered) > 0.002
    reader.search_all([filtered, filtered])
    assert reader.estimated_seconds(filtered) < 0.001


def test_a_query_that_will_be_refused_has_an_estimate(reader: Reader) -> None:
    assert reader.estimated_seconds(Query(None, "other", 2)) == 0.0
    assert reader.estimated_seconds(Query(None, None, 10**9, text=None, mode="lexical")) == 0.0


def test_words_and_rows_make_a_lexical_search_longer() -> None:
    assert lexical_cost(1_000_000, 2) > 5 * lexical_cost(100_000, 2)
    assert lexical_cost(100_000, 4) == pytest.approx(2 * lexical_cost(100_000, 2))


def test_texts_that_may_have_a_code_of_several_parts_count(tmp_path: Path) -> None:
    rows = [a_document(f"d{n}", f"alpha 10 of 20 at 2024-03-{n}" if n % 2 else f"beta {n}") for n in range(600)]
    fill(tmp_path, "docs", rows, (TEXT,))
    reader = Store(tmp_path).open("docs")

    def seconds(text: str) -> float:
        return reader.estimated_seconds(Query(None, None, 2, text=text, mode="lexical"))

    plain = seconds("alpha")
    assert seconds("2024-03-99999") == pytest.approx(plain)  # no text has a word of it
    assert seconds("2024-03-7") - plain == pytest.approx(TEXT_SECONDS)
    assert seconds("10/20") - plain == pytest.approx(MAX_TEXTS * TEXT_SECONDS)
    assert seconds("10/20 20/10") - seconds("alpha beta") == pytest.approx(2 * MAX_TEXTS * TEXT_SECONDS)


def test_rows_and_bytes_of_codes_make_a_vector_search_longer(tmp_path: Path) -> None:
    seconds = []
    for rows in (20, 200):
        path = tmp_path / str(rows)
        fill(path, "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(rows)], (COSINE,))
        seconds.append(Store(path).open("docs").estimated_seconds(query()))
    assert seconds[0] < seconds[1]
