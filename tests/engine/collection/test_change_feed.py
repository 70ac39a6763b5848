"""A client that follows the change feed ends with the chunks of the collection, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.errors import HistoryMissing, StorageFailed
from aidre.engine.model import Record
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage import changelog, durable
from aidre.engine.types import ChangeCursor, ChangesPage
from tests.support.damage import alter, flipped
from tests.support.stores import NAME, ROWS, SPACE, names, put, record

EXAMPLES = os.environ.get("AIDRE_FEED_EXAMPLES")
"""How many random histories to follow; where it is not set, the same few each time."""
SETTINGS = settings(
    max_examples=int(EXAMPLES or "8"),
    stateful_step_count=30,
    deadline=None,
    derandomize=EXAMPLES is None,
    suppress_health_check=[HealthCheck.too_slow],
)

Texts = tuple[str, ...]
NAMES = st.sampled_from("abcdefgh")
TEXTS = st.lists(st.sampled_from(["one ", "two ", "三 "]), min_size=1, max_size=3).map(tuple)
UPSERTS = st.dictionaries(NAMES, st.tuples(TEXTS, st.sampled_from(["A", "B"])), max_size=6)
LIMITS = st.one_of(st.integers(1, 4), st.just(100))
REFUSED = st.sampled_from(["manifests", "CURRENT before", "CURRENT after"])


class Follower:
    """A client: what it holds, and where it stands."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.cursor: ChangeCursor | None = None

    def read(self, snapshots: Sequence[Snapshot], limit: int) -> bool:
        """Apply the next page, from the first snapshot that can give it; whether there is more."""
        for snapshot in snapshots:
            with suppress(HistoryMissing):
                page = snapshot.changes(self.cursor, limit)
                break
        else:
            self.held, self.cursor = {}, None
            return True
        assert len(page.changes) <= limit
        for change in page.changes:
            if change.op == "delete":
                self.held.pop(change.id, None)
            else:
                self.held[change.id] = change.content_hash
        self.cursor = page.cursor
        assert page.more or self.held == contents(snapshot)
        return page.more


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    """Every live row, read one by one."""
    chunks = [
        (chunk.id, chunk.digest)
        for part in snapshot.segments
        for chunk in (StoredChunk(part.segment, row) for row in range(part.segment.entry.chunks))
        if part.is_live(chunk.document_row)
    ]
    assert len(chunks) == len(dict(chunks))
    return dict(chunks)


def refusing(where: str) -> AbstractContextManager[Any]:
    """A disk that refuses the manifest, or CURRENT: before it has its new content, or just after."""
    real = durable.replace_file
    name, _, when = where.partition(" ")

    def replace_file(path: Path, content: bytes) -> None:
        refused = name in (path.name, path.parent.name)
        if not refused or when == "after":
            real(path, content)
        if refused:
            raise StorageFailed("no space left")

    return mock.patch.object(durable, "replace_file", replace_file)


class Following(RuleBasedStateMachine):
    """One collection, its writer, two clients, and a worker that has not seen the newest generations yet."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder)
        self.documents: dict[str, Texts] = {}
        self.followers = [Follower(), Follower()]
        self.writer: Writer | None = None
        self.behind: Snapshot | None = None

    # -- the publisher -------------------------------------------------------------------------------------

    def writing(self) -> Writer:
        if self.writer is None:
            self.writer = self.store.writer(NAME, spaces=[SPACE])
        return self.writer

    @rule()
    def close(self) -> None:
        """The next writer is another process, as far as the store can tell."""
        if self.writer is not None:
            self.writer.__exit__(None, None, None)
            self.writer = None

    def put(self, upserts: Mapping[str, tuple[Texts, str]], deletes: set[str]) -> None:
        writer = self.writing()
        writer.delete(sorted(deletes))
        records = [record(name, texts, title=title) for name, (texts, title) in upserts.items()]
        if records:
            put(writer, records, ROWS[: sum(len(texts) for texts, _ in upserts.values())])

    def stored(self, upserts: Mapping[str, tuple[Texts, str]], deletes: set[str]) -> None:
        for name in deletes:
            self.documents.pop(name, None)
        self.documents |= {name: texts for name, (texts, _) in upserts.items()}

    @rule(upserts=UPSERTS, deletes=st.sets(NAMES))
    def commit(self, upserts: dict[str, tuple[Texts, str]], deletes: set[str]) -> None:
        self.put(upserts, deletes)
        self.writing().commit()
        self.stored(upserts, deletes)

    @rule(upserts=UPSERTS, deletes=st.sets(NAMES), where=REFUSED, undone=st.sets(NAMES))
    def fail(self, upserts: dict[str, tuple[Texts, str]], deletes: set[str], where: str, undone: set[str]) -> None:
        """A commit is refused; the writer takes some of it back and tries again."""
        self.put(upserts, deletes)
        with refusing(where), suppress(StorageFailed):
            self.writing().commit()
        if self.exists:
            self.follow(1, 3, stale=False)
        self.stored(upserts, deletes)
        self.put({}, undone)
        self.stored({}, undone)
        self.writing().commit()

    @rule(upserts=UPSERTS, deletes=st.sets(NAMES), where=REFUSED, lost=st.booleans())
    def die(self, upserts: dict[str, tuple[Texts, str]], deletes: set[str], where: str, lost: bool) -> None:
        """A commit is refused, and the writer ends. What readers saw may be `lost`: a power cut before the sync."""
        current = self.folder / NAME / "CURRENT"
        self.put(upserts, deletes)
        before = current.read_bytes() if self.exists else b""
        with refusing(where), suppress(StorageFailed):
            self.writing().commit()
        self.close()
        if self.exists:
            self.follow(1, 3, stale=False)
        if before and lost:
            current.write_bytes(before)
        # Where nothing was there before, the next writer takes the manifest for what CURRENT named.
        first = not before and any((self.folder / NAME / "manifests").glob("0*.json"))
        if first or (self.exists and current.read_bytes() != before):
            self.stored(upserts, deletes)

    @precondition(lambda self: self.exists)
    @rule(means=st.sampled_from(["compact", "purge", "finish"]))
    def rewrite(self, means: str) -> None:
        getattr(self.writing(), means)()

    @precondition(lambda self: self.exists)
    @rule()
    def forget(self) -> None:
        """A month passes."""
        for path in (self.folder / NAME / "changes").glob("*"):
            os.utime(path, (0, 0))

    # -- the clients ---------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return (self.folder / NAME / "CURRENT").exists()

    @precondition(lambda self: self.exists)
    @rule()
    def fall_behind(self) -> None:
        self.behind = self.store.open(NAME)

    @precondition(lambda self: self.exists)
    @rule(number=st.integers(0, 1), limit=LIMITS, stale=st.booleans())
    def follow(self, number: int, limit: int, stale: bool) -> None:
        newest = self.store.open(NAME)
        known = [self.behind, newest] if stale and self.behind is not None else [newest]
        self.followers[number].read(known, limit)

    def teardown(self) -> None:
        try:
            self.close()
            if self.exists:
                self.arrive()
        finally:
            shutil.rmtree(self.folder)

    def arrive(self) -> None:
        wanted = {
            f"{name}#chunk_{number}": hashlib.sha256(text.encode()).digest()
            for name, texts in self.documents.items()
            for number, text in enumerate(texts, 1)
        }
        newest = self.store.open(NAME)
        for limit, follower in enumerate([*self.followers, Follower()], 1):
            pages = 0
            while follower.read([newest], limit):
                pages += 1
                assert pages < 1_000
            assert follower.held == wanted


@pytest.mark.slow
@pytest.mark.parametrize("packed", [changelog.PACKED, 2])
def test_whoever_follows_ends_with_the_collection(packed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is cut here
    monkeypatch.setattr(changelog, "PACKED", packed)
    monkeypatch.setattr(changelog, "PACKS_MERGED", 2)
    run_state_machine_as_test(Following, settings=SETTINGS)


# -- one step of it at a time ------------------------------------------------------------------------------------


def commit(store: Store, records: Sequence[Record | str], doomed: Sequence[str] = ()) -> Snapshot:
    with store.writer(NAME, spaces=[SPACE]) as writer:
        if records:
            put(writer, records, ROWS[: len(records)])
        writer.delete(doomed)
        writer.commit()
    return store.open(NAME)


def told(page: ChangesPage) -> list[tuple[str, str]]:
    return [(change.op, change.id.removesuffix("#chunk_1")) for change in page.changes]


def listed(snapshot: Snapshot) -> ChangeCursor:
    """Where a client stands that has listed all."""
    page = snapshot.changes(None, 1_000)
    assert not page.more
    return page.cursor


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_of_the_listing_hold_each_chunk_once(limit: int, tmp_path: Path) -> None:
    commit(Store(tmp_path), names(5))
    snapshot = commit(Store(tmp_path), names(5, 5), names(1))
    changes, cursor, pages, more = [], None, 0, True
    while more:
        page = snapshot.changes(cursor, limit)
        assert len(page.changes) <= limit
        changes += page.changes
        cursor, pages, more = page.cursor, pages + 1, page.more
    assert sorted(change.id for change in changes) == [f"{one}#chunk_1" for one in names(9, 1)]
    assert {change.op for change in changes} == {"add"}
    assert all(change.chunk is not None and change.chunk.passage[4] == change.content_hash for change in changes)
    assert pages == -(-9 // limit)


def test_what_came_while_a_client_listed_is_told_after_the_listing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pages = [commit(store, ["a", "b", "c", "d"]).changes(None, 2)]
    newest = commit(store, [record("a", ["other"]), "e"], ["b"])
    while pages[-1].more:
        pages.append(newest.changes(pages[-1].cursor, 10))
    assert [len(page.changes) for page in pages[:1]] == [2]
    assert {("add", "c"), ("add", "d")} <= {*told(pages[0]), *told(pages[1])}
    assert sorted(told(pages[2])) == [("add", "e"), ("change", "a"), ("delete", "b")]
    assert len(pages) == 3


@pytest.mark.parametrize("pages", [0, 1])
def test_a_generation_that_vanished_while_a_client_listed_leaves_nothing_with_it(pages: int, tmp_path: Path) -> None:
    """The client was shown chunks of a generation that a crash, or a backup, took back: there is another one now. It
    may have read some of the changes that it has to read after the listing."""
    client, store, other = Follower(), Store(tmp_path / "store"), Store(tmp_path / "other")
    client.read([commit(store, ["a", "b", "c", "d"])], 1)
    kept = contents(commit(store, ["e", "f"]))
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    vanishing = commit(store, names(8))
    assert client.read([vanishing], 100)
    assert client.held.keys() - kept.keys()
    for _ in range(pages):
        client.read([vanishing], 1)
    now = commit(other, ["g"])
    while client.read([now], 100):
        pass
    assert client.held == contents(now)


@pytest.mark.parametrize(("limit", "sizes"), [(3, [3, 2]), (4, [4, 1]), (5, [5])])
def test_a_commit_is_told_in_parts_and_a_merge_is_not_told(limit: int, sizes: list[int], tmp_path: Path) -> None:
    store = Store(tmp_path)
    cursor = listed(commit(store, ["a", "b", "c"]))
    commit(store, [record("a", ["other"]), "d", "e"], ["b"])
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
    snapshot, parts, more = commit(store, [], ["c"]), [], True
    while more:
        page = snapshot.changes(cursor, limit)
        parts.append(told(page))
        cursor, more = page.cursor, page.more
    assert [len(part) for part in parts] == sizes
    changes = [change for part in parts for change in part]
    assert sorted(changes[:4]) == [("add", "d"), ("add", "e"), ("change", "a"), ("delete", "b")]
    assert changes[4:] == [("delete", "c")]
    assert snapshot.changes(cursor, limit).changes == []


def test_a_change_that_a_later_one_replaced_brings_no_chunk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cursor = listed(commit(store, ["a"]))
    commit(store, [record("b", ["once"])])
    changes = commit(store, [record("b", ["again"])]).changes(cursor, 10).changes
    assert [(change.op, change.chunk and change.chunk.text) for change in changes] == [
        ("add", None),
        ("change", "again"),
    ]


@pytest.mark.parametrize("what", ["gone", "damaged", "of another collection"])
def test_history_that_does_not_lead_on_is_missing(what: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    cursor = listed(commit(store, ["a"]))
    commit(store, ["b"])
    snapshot = commit(store, ["c"])
    path = store.path / NAME / "changes" / "000002.arrow"
    assert told(snapshot.changes(cursor, 10)) == [("add", "b"), ("add", "c")]
    if what == "gone":
        path.unlink()
    elif what == "damaged":
        alter(path, flipped(path.stat().st_size // 2))
    else:
        cursor = listed(commit(Store(tmp_path / "other"), ["z"]))
    with pytest.raises(HistoryMissing, match="begin again"):
        snapshot.changes(cursor, 10)
    assert sorted(told(snapshot.changes(None, 10))) == [("add", "a"), ("add", "b"), ("add", "c")]
