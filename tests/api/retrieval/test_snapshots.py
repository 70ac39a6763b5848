"""The snapshots in service: new generations, superseded ones, damage, and a store that goes away."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from aidre.api.retrieval import snapshots
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.engine.collection.store import Store
from aidre.engine.errors import GenerationMissing
from aidre.engine.ports import Reader
from tests.support.clients import a_document, fill
from tests.support.clocks import until_in_loop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    return tmp_path


def opened(path: Path) -> LiveSnapshots:
    found = LiveSnapshots(Store(path))
    found.refresh()
    return found


def snapshot(found: LiveSnapshots, name: str = "docs") -> Reader:
    current = found.collections[name].snapshot
    assert current is not None
    return current


def any_of(_: Reader) -> bool:
    """Cursors of one collection."""
    return True


def test_nothing_new_opens_nothing(store: Path) -> None:
    found = opened(store)
    before = snapshot(found)
    found.refresh()
    assert snapshot(found) is before


def test_a_commit_swaps_the_snapshot_and_the_former_one_stays_usable(store: Path) -> None:
    found = opened(store)
    before = snapshot(found)
    fill(store, "docs", [a_document("b", "beta")])
    assert snapshot(found) is before
    found.refresh()
    assert snapshot(found).chunks == 2
    assert before.chunks == 1
    assert before.get("a#chunk_1") is not None
    assert found.at("docs", before.generation, any_of) is before


def test_superseded_snapshots_are_dropped_after_their_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = opened(store)
    for number in range(3):
        fill(store, "docs", [a_document(f"new_{number}", "alpha")])
        found.refresh()
    assert len(found.collections["docs"].former) == 3
    monkeypatch.setattr(snapshots, "KEPT_SECONDS", -1.0)
    found.refresh()
    assert not found.collections["docs"].former


def test_collections_come_and_go(store: Path) -> None:
    found = opened(store)
    fill(store, "more", [a_document("b", "beta")])
    found.refresh()
    assert list(found.collections) == ["docs", "more"]
    shutil.rmtree(store / "docs")
    found.refresh()
    assert list(found.collections) == ["more"]


def test_a_collection_made_anew_under_the_same_number_is_noticed(store: Path) -> None:
    found = opened(store)
    before = snapshot(found)
    (store / "docs").rename(store / ".former")
    fill(store, "docs", [a_document("z", "omega")])
    found.refresh()
    assert snapshot(found).generation == before.generation
    assert snapshot(found).lineage != before.lineage
    assert snapshot(found).get("z#chunk_1") is not None


def test_a_generation_that_is_not_there_is_an_error(store: Path) -> None:
    found = opened(store)
    for name, generation in (("docs", 99), ("absent", 1)):
        with pytest.raises(GenerationMissing):
            found.at(name, generation, any_of)


def test_a_generation_from_before_this_process_is_opened_once(store: Path) -> None:
    fill(store, "docs", [a_document("b", "beta")])
    found = opened(store)
    former = found.at("docs", snapshot(found).generation - 1, any_of)
    assert former.chunks == 1
    assert found.at("docs", former.generation, any_of) is former
    found.refresh()
    assert found.at("docs", former.generation, any_of) is former


def test_a_repaired_collection_is_served_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "RETRY_SECONDS", 0.0)
    (store / "docs" / "manifests").rename(store / "docs" / "elsewhere")
    found = opened(store)
    assert found.collections["docs"].snapshot is None
    assert found.collections["docs"].problem
    (store / "docs" / "elsewhere").rename(store / "docs" / "manifests")
    found.refresh()
    assert snapshot(found).chunks == 1
    assert found.collections["docs"].problem is None


def test_a_store_that_goes_away_is_a_problem_and_what_is_open_stays(store: Path) -> None:
    found = opened(store)
    before = snapshot(found)
    store.rename(store.with_name("away"))
    found.refresh()
    assert found.problem
    assert snapshot(found) is before
    store.with_name("away").rename(store)
    found.refresh()
    assert found.problem is None


def test_it_follows_until_it_is_cancelled(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "POLL_SECONDS", 0.001)
    seen: list[int] = []

    async def story() -> None:
        found = opened(store)
        following = asyncio.create_task(found.follow(lambda: seen.append(snapshot(found).chunks)))
        fill(store, "docs", [a_document("b", "beta")])
        await until_in_loop(lambda: 2 in seen)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(story())
    assert seen[-1] == 2
