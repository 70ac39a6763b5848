"""The scrub: which files one pass reads, what it finds, and how its reading is spread over time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance import scrub
from aidre.engine.maintenance.scrub import BLOCK_BYTES, Scrub, ScrubbedFile, ScrubStopped
from aidre.engine.maintenance.verify import files_of, verify
from aidre.engine.storage.arrow import FileEntry
from aidre.engine.storage.format import CHUNKS_FILE, DOCUMENTS_FILE, FIELDS_FILE, IDS_FILE, LEXICON_FILE
from tests.support.damage import alter, file_in, flip
from tests.support.stores import NAME, ROWS, SPACE, names, put, write

OTHER = "other"


@pytest.fixture(autouse=True)
def other(store: Store) -> None:
    """A second collection in the store."""
    with store.writer(OTHER, spaces=[SPACE]) as writer:
        put(writer, names(40), ROWS[:40])
        writer.commit()


def looked_at(store: Store, seconds: float = 0.001) -> list[ScrubbedFile]:
    return list(Scrub(store, seconds, threading.Event()).one_pass())


def named_files(store: Store) -> list[tuple[Path, FileEntry, bool]]:
    return [each for name in (NAME, OTHER) for each in files_of(store.path / name, store.open(name).manifest)]


def problems(store: Store) -> dict[str, tuple[str | None, bool]]:
    return {one.file: (one.problem, one.derived) for one in looked_at(store) if one.problem is not None}


def test_every_file_that_a_generation_names_is_read_once(store: Store) -> None:
    looked = looked_at(store)
    assert [one for one in looked if one.problem is not None] == []
    named = {path.relative_to(store.path).as_posix() for path, _, _ in named_files(store)}
    assert len(named) > 12
    beside = {
        f"{name}/{file}"
        for name, number in ((NAME, "000003"), (OTHER, "000001"))
        for file in (f"manifests/{number}.json", f"changes/{number}.arrow")
    }
    assert sorted(one.file for one in looked) == sorted(named | beside)


def test_it_finds_what_verify_finds(store: Store) -> None:
    flip(store.path / NAME / "manifests" / "000003.json", 200)
    flip(max((store.path / NAME / "segments").glob(f"*/{CHUNKS_FILE}")))
    for name in (CHUNKS_FILE, LEXICON_FILE, DOCUMENTS_FILE):
        flip(file_in(store.path, name, OTHER))
    alter(file_in(store.path, IDS_FILE, OTHER), lambda content: content[:-8])
    file_in(store.path, FIELDS_FILE, OTHER).unlink()
    found = problems(store)
    expected = {
        problem.file: (problem.what, problem.derived) for report in verify(store) for problem in report.problems
    }
    assert found == expected
    assert len(found) == 6, "of a collection whose manifest is damaged the rest is not known"


def test_files_that_a_writer_takes_away_are_not_missing(store: Store) -> None:
    looking = Scrub(store, 0.001, threading.Event()).one_pass()
    first = next(looking)
    assert first.collection == NAME
    write(store.path, ["new"])
    with store.writer(NAME, spaces=None) as writer:
        writer.compact()
        writer.purge()
    rest = list(looking)
    assert {one.collection for one in rest} == {OTHER}
    assert [one for one in rest if one.problem is not None] == []


def test_reading_is_spread_over_its_time_and_ends_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "MIN_BYTES_PER_SECOND", 0.0)
    size = sum(entry.size for _, entry, _ in named_files(store))
    stop = threading.Event()
    rests: list[float] = []

    def wait(seconds: float) -> bool:
        rests.append(seconds)
        return False

    monkeypatch.setattr(stop, "wait", wait)
    list(Scrub(store, 1_000_000.0, stop).one_pass())
    assert sum(rests) == pytest.approx(1_000_000.0, rel=0.01)
    assert max(rests) <= 1_000_000.0 * BLOCK_BYTES / size
    monkeypatch.setattr(stop, "wait", lambda seconds: True)
    with pytest.raises(ScrubStopped):
        list(Scrub(store, 1_000_000.0, stop).one_pass())
