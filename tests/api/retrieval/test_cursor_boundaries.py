"""Where a cursor ends: its lifetime, its generation, and the lineage of the collection that it was given for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aidre.api.http.http_errors import ConflictingRequest
from aidre.api.retrieval.cursor import LIFETIME_SECONDS, SearchCursor, lineage_digest, snapshot_of
from aidre.engine.errors import GenerationMissing

STARTED = 1_000


def snapshot(generation: int, lineage: str = "first") -> Any:
    return SimpleNamespace(generation=generation, lineage=lineage)


class Snapshots:
    """Older generations of one collection, and which of them were asked for."""

    def __init__(self, *older: Any) -> None:
        self._older = {one.generation: one for one in older}
        self.asked: list[tuple[str, int]] = []

    def at(self, name: str, generation: int, belongs: Callable[[Any], bool]) -> Any:
        self.asked.append((name, generation))
        found = self._older.get(generation)
        if found is None or not belongs(found):
            raise GenerationMissing("it is gone")
        return found


def found(cursor: SearchCursor, now: Any, snapshots: Snapshots) -> Any:
    given: Any = snapshots
    return asyncio.run(snapshot_of(cursor, "docs", now, given))


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: float(STARTED + LIFETIME_SECONDS))


def cursor(generation: int, lineage: str = "first", started: int = STARTED) -> SearchCursor:
    return SearchCursor(generation, 10, 10, started, lineage_digest(lineage))


def test_a_cursor_lives_as_long_as_it_says() -> None:
    assert not cursor(1, started=STARTED).expired
    assert cursor(1, started=STARTED - 1).expired
    with pytest.raises(ConflictingRequest, match="this cursor has expired"):
        found(cursor(1, started=STARTED - 1), snapshot(1), Snapshots(snapshot(1)))


def test_the_newest_generation_is_not_opened_again() -> None:
    newest, snapshots = snapshot(3), Snapshots()
    assert found(cursor(3), newest, snapshots) is newest
    assert snapshots.asked == []


def test_a_search_goes_on_in_the_generation_in_which_it_began() -> None:
    older = snapshot(2)
    snapshots = Snapshots(snapshot(1), older)
    assert found(cursor(2), snapshot(3), snapshots) is older
    assert snapshots.asked == [("docs", 2)]


def test_a_generation_that_is_gone_ends_the_search() -> None:
    with pytest.raises(ConflictingRequest, match="this cursor has expired"):
        found(cursor(1), snapshot(3), Snapshots(snapshot(2)))


@pytest.mark.parametrize("generation", [2, 3])
def test_a_collection_that_was_made_anew_does_not_continue_the_searches_of_the_old_one(generation: int) -> None:
    with pytest.raises(ConflictingRequest, match="this cursor has expired"):
        found(cursor(generation, "old"), snapshot(3), Snapshots(snapshot(2), snapshot(3)))


def test_an_older_generation_of_the_same_number_in_another_lineage_is_found_by_its_lineage() -> None:
    older = snapshot(3, "old")
    assert found(cursor(3, "old"), snapshot(3, "new"), Snapshots(older)) is older
