"""Promotion of a replica, and the fence of the former home node: by hand, and by a model that is killed everywhere."""

from __future__ import annotations

import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    BucketFailed,
    PublicationRefused,
    PublishConflict,
    StorageFailed,
    StoreDamaged,
    Unsupported,
)
from aidre.engine.maintenance.promotion import Tenure, home_of, promote
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    Term,
    encode_record,
    read_catalog,
    read_publication,
)
from aidre.engine.maintenance.replica import replicated_url
from aidre.engine.storage import HOME, WriterLock
from aidre.engine.storage.manifest import unseal
from tests.support.buckets import FolderPlace, Place
from tests.support.clocks import WAIT_SECONDS
from tests.support.interleaving import by_chance, in_turn
from tests.support.promotions import FIRST, HOME as HOST, SECOND, Promotions, Template, commit as write_one
from tests.support.replicas import commit, found
from tests.support.signers import PublisherKey
from tests.support.stores import NAME, delete, everything, write

SEEDS = (0, 1, 20, 21, 40, 45, 59)
"""Of the orders and kills that every run of the tests tries: those of most have found a planted fault. `make hostile
NAME=promotions` tries others."""
PLACES = (0, 3, 6, 9, 11, 12, 13, 14)


@pytest.fixture
def place(request: pytest.FixtureRequest, folder_place: FolderPlace) -> Place:
    """A folder; an S3 API where a test asks for it."""
    return request.getfixturevalue("s3_place") if getattr(request, "param", "") == "s3" else folder_place


@pytest.fixture
def replica(place: Place, path: Path, tmp_path: Path) -> Path:
    """A replica of what the store at `path` has published."""
    place.publish(path)
    place.replica(tmp_path / "replica")
    return tmp_path / "replica"


def published(place: Place, tmp_path: Path) -> list[str]:
    """What a new replica finds."""
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    place.replica(tmp_path / "new")
    return found(tmp_path / "new")


@pytest.mark.parametrize("place", ["s3", "folder"], indirect=True)
def test_a_promoted_replica_publishes_and_the_former_home_node_is_refused_by_name(
    place: Place, path: Path, replica: Path, tmp_path: Path
) -> None:
    promoted = promote(place.bucket, replica)
    assert (promoted.term, dict(promoted.generations)) == (1, {NAME: 1})
    assert replicated_url(replica) is None
    assert home_of(replica) == {place.address.url: 1}
    commit(replica, place, "new")
    write(path, ["lost"], 4)
    since = read_catalog(place.bucket)[0].term
    assert since is not None
    with pytest.raises(PublishConflict) as refused:
        place.publish(path)
    for part in (f"belongs to term 1 since {since.since}", f"by {since.by}", "of term 0", "aidre serve --store"):
        assert part in str(refused.value)
    assert published(place, tmp_path) == ["a", "b", "c", "new"]


def test_also_with_nothing_new_and_after_a_drop_a_fenced_home_node_is_refused(
    place: Place, path: Path, replica: Path, tmp_path: Path
) -> None:
    promote(place.bucket, replica)
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        place.publish(path)
    Store(path).drop(NAME)
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        place.publisher(path).publish_drops()
    assert published(place, tmp_path) == ["a", "b", "c"]


def test_a_fenced_home_node_drops_no_collection_that_the_next_has_not_published(
    place: Place, path: Path, replica: Path
) -> None:
    """CURRENT is of its term still; the catalog is of the next."""
    write_one(path, "more", "x")
    place.publisher(path).publish(["more"])
    promote(place.bucket, replica)
    place.publish(path, force=True)
    Store(replica).drop("more")
    with pytest.raises(PublishConflict, match="belongs to term 2"):
        place.publisher(replica).publish_drops()
    assert everything(place.replica(replica.parent / "new").source.open("more")) == ["x"]


def test_a_fenced_home_node_enters_no_new_collection(place: Place, path: Path, replica: Path) -> None:
    promote(place.bucket, replica)
    write_one(path, "more", "x")
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        place.publisher(path).publish(["more"])
    assert read_catalog(place.bucket)[0].collections == (NAME,)


def test_force_takes_the_bucket_back_under_a_further_term(
    place: Place, path: Path, replica: Path, tmp_path: Path
) -> None:
    promote(place.bucket, replica)
    commit(replica, place, "new")
    write(path, ["own"], 4)
    place.publish(path, force=True)
    assert published(place, tmp_path) == ["a", "b", "c", "own"]
    commit(path, place, "more")
    with pytest.raises(PublishConflict, match=r"belongs to term 2 .*this store is of term 1"):
        place.publish(replica)


def test_a_publisher_of_an_older_release_finds_another_lineage(place: Place, path: Path, replica: Path) -> None:
    """It compares the lineage of CURRENT with that of its store, and knows no term."""
    before = msgspec.json.decode(unseal(place.contents()[f"{NAME}/CURRENT"]))
    assert "term" not in before
    promote(place.bucket, replica)
    after = msgspec.json.decode(unseal(place.contents()[f"{NAME}/CURRENT"]))
    assert after["lineage"] == f"{before['lineage']}.1"
    assert {name: after[name] for name in ("generation", "manifest", "purged")} == {
        name: before[name] for name in ("generation", "manifest", "purged")
    }
    known = read_publication(place.bucket, NAME)
    assert known is not None
    assert known[0].lineage == before["lineage"]


def test_what_an_older_release_puts_in_the_place_of_a_dropped_collection_is_refused_and_taken_back(
    place: Place, path: Path, replica: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaces another lineage where that is dropped, by a later generation without a term."""
    promote(place.bucket, replica)
    follower = place.replica(tmp_path / "follower")
    Store(replica).drop(NAME)
    place.publisher(replica).publish_drops()
    follower.pull()
    older = place.publisher(path)
    older._tenure = Tenure(tmp_path, place.bucket)
    monkeypatch.setattr(older._tenure, "check", lambda *given, **named: None)
    monkeypatch.setattr(older, "_check_succeeds", lambda *given: None)
    write(path, ["lost"], 4)
    write(path, ["lost"], 5)
    monkeypatch.setattr(older, "_enter", lambda *given, **named: None)
    older.publish([NAME])
    usurper = read_publication(place.bucket, NAME)
    assert usurper is not None
    assert usurper[0].term == 0
    for pulled in (follower, place.unpulled(tmp_path / "follower"), place.unpulled(tmp_path / "new")):
        with pytest.raises(PublicationRefused, match=r"older_term.* is of term 0, and there was one of term 1"):
            pulled.pull()
    place.publisher(replica).publish_drops()
    assert follower.pull() == []
    assert Store(tmp_path / "follower").collections() == []
    commit(replica, place, "new")
    assert published(place, tmp_path) == ["new"]


def test_a_store_that_an_older_release_has_entered_over_the_term_enters_it_again(place: Place, replica: Path) -> None:
    promote(place.bucket, replica)
    catalog, etag = read_catalog(place.bucket)
    assert place.bucket.swap(CATALOG, encode_record(BucketCatalog(catalog.collections)), etag)
    commit(replica, place, "new")
    assert read_catalog(place.bucket)[0].term == catalog.term


@pytest.mark.parametrize("place", ["s3", "folder"], indirect=True)
def test_what_the_former_home_node_left_unfinished_does_not_hold_up_the_next(
    place: Place, path: Path, replica: Path, tmp_path: Path
) -> None:
    """Its manifest and tombstones, of a generation that no CURRENT names."""
    delete(path, ["a"])
    failing = place.publisher(path)
    failing._swap = _killed  # type: ignore[method-assign]
    with pytest.raises(BucketFailed):
        failing.publish([NAME])
    promote(place.bucket, replica)
    delete(replica, ["b"])
    assert place.publish(replica).generation == 2
    assert published(place, tmp_path) == ["a", "c"]


def test_a_first_publication_that_is_under_way_loses_to_the_takeover(
    place: Place, path: Path, replica: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is in the catalog already; CURRENT is made after the takeover."""
    write_one(path, "more", "x")
    begun = place.publisher(path)
    swap = begun._swap

    def late(*arguments: Any, **named: Any) -> None:
        promote(place.bucket, replica)
        swap(*arguments, **named)

    monkeypatch.setattr(begun, "_swap", late)
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        begun.publish(["more"])
    assert place.replica(tmp_path / "new").source.collections() == [NAME]
    write_one(replica, "more", "y")
    place.publisher(replica).publish(["more"])
    assert everything(place.replica(tmp_path / "newer").source.open("more")) == ["y"]


def test_a_promotion_whose_claim_was_lost_meanwhile_stays_a_replica(
    folder_place: FolderPlace, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older release has rewritten the catalog, and another store has claimed the same number."""
    folder_place.publish(path)
    folder_place.replica(tmp_path / "replica")
    confirm = Tenure.confirm

    def overtaken(self: Tenure, term: Term) -> None:
        catalog, etag = read_catalog(folder_place.bucket)
        other = replace(catalog, term=replace(term, token="another"))
        assert folder_place.bucket.swap(CATALOG, encode_record(other), etag)
        confirm(self, term)

    monkeypatch.setattr(Tenure, "confirm", overtaken)
    with pytest.raises(
        PublishConflict, match=r"another store has taken .* over, by term 1, while this one did by term 1"
    ):
        promote(folder_place.bucket, tmp_path / "replica")
    assert replicated_url(tmp_path / "replica") == folder_place.address.url


def _killed(*arguments: object, **named: object) -> None:
    raise BucketFailed("killed", url="", reason="unreachable")


def test_a_replica_that_still_runs_changes_nothing_in_the_folder_of_the_home_node(
    place: Place, path: Path, replica: Path
) -> None:
    running = place.unpulled(replica)
    running.pull()
    promote(place.bucket, replica)
    write(replica, ["new"], 4)
    write_one(replica, "more", "x")
    with pytest.raises(StorageFailed, match="is not a replica any more, it was promoted"):
        running.pull()
    assert running.fetch(NAME, 1)
    assert everything(Store(replica).open(NAME)) == ["a", "b", "c", "new"]
    assert Store(replica).collections() == [NAME, "more"]
    with pytest.raises(StorageFailed, match="is not a replica any more"):
        place.unpulled(replica)


def test_a_lazy_replica_that_still_runs_lets_go_nothing_of_the_home_node(
    place: Place, path: Path, tmp_path: Path
) -> None:
    place.publish(path)
    running = place.replica(tmp_path / "replica", keep_seconds=0.001)
    running.source.open(NAME)
    promote(place.bucket, tmp_path / "replica")
    assert running._lazy is not None
    running._lazy.let_go()
    assert found(tmp_path / "replica") == ["a", "b", "c"]


def test_a_collection_that_is_let_go_during_the_promotion_is_pulled_again(
    place: Place, path: Path, replica: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirm = Tenure.confirm

    def let_go(self: Tenure, term: Term) -> None:
        monkeypatch.setattr(Tenure, "confirm", confirm)
        shutil.rmtree(replica / NAME / "segments")

    monkeypatch.setattr(Tenure, "confirm", let_go)
    assert promote(place.bucket, replica).term == 1
    assert found(replica) == ["a", "b", "c"]


def test_a_running_replica_sets_nothing_back_while_the_folder_becomes_the_home_node(
    place: Place, path: Path, replica: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its poll has read CURRENT of a former generation, and looks at REPLICA just before that is removed."""
    running, confirm = place.unpulled(replica), Tenure.confirm
    write(path, ["d"], 3)
    place.publish(path)
    read, locks, opens, opened = (threading.Event() for _ in range(4))
    lock, open_publication = running.lock, running._open_publication

    def late_lock(name: str) -> WriterLock:
        read.set()
        locks.wait(WAIT_SECONDS)
        return lock(name)

    def late_open(*arguments: Any) -> bool:
        opens.set()
        opened.wait(WAIT_SECONDS)
        return open_publication(*arguments)

    def late_confirm(self: Tenure, term: Term) -> None:
        confirm(self, term)
        locks.set()
        opens.wait(0.2)  # in vain: the lock is held

    monkeypatch.setattr(running, "lock", late_lock)
    monkeypatch.setattr(running, "_open_publication", late_open)
    monkeypatch.setattr(Tenure, "confirm", late_confirm)
    with ThreadPoolExecutor(1) as threads:
        pulling = threads.submit(running.pull)
        read.wait(WAIT_SECONDS)
        write(path, ["e"], 4)
        place.publish(path)
        promote(place.bucket, replica)
        opened.set()
        with pytest.raises(StorageFailed, match="it was promoted"):
            pulling.result(WAIT_SECONDS)
    assert everything(Store(replica).open(NAME)) == ["a", "b", "c", "d", "e"]
    assert commit(replica, place, "new") == 4


def test_a_signed_bucket_stays_signed(folder_place: FolderPlace, path: Path, tmp_path: Path) -> None:
    place, key, other = folder_place, PublisherKey.made(tmp_path), PublisherKey.made(tmp_path, "other")
    place.publish(path, key.signer)
    follower = place.replica(tmp_path / "follower", keys=key.trusted)
    place.replica(tmp_path / "replica", keys=key.trusted)
    with pytest.raises(PublishConflict, match=r"are signed, and here is no provenance\.key"):
        promote(place.bucket, tmp_path / "replica", keys=key.trusted)
    assert read_catalog(place.bucket)[0].term is None
    write(path, ["d"], 3)
    assert place.publish(path, key.signer).generation == 2
    promote(place.bucket, tmp_path / "replica", signer=key.signer, keys=key.trusted)
    assert follower.pull() == [NAME]
    write(tmp_path / "replica", ["new"], 4)
    assert place.publish(tmp_path / "replica", key.signer).signed
    assert follower.pull() == [NAME]
    with pytest.raises(StorageFailed, match="unknown_key"):
        place.replica(tmp_path / "stranger", keys=other.trusted)


def test_a_replica_whose_bucket_is_gone_or_damaged_stays_one(
    folder_place: FolderPlace, path: Path, tmp_path: Path
) -> None:
    folder_place.publish(path)
    folder_place.replica(tmp_path / "replica")
    write(path, ["d"], 3)
    folder_place.publish(path)
    folder_place.remove(f"{NAME}/manifests/000002.json")
    with pytest.raises(StoreDamaged, match="is not the manifest that was published"):
        promote(folder_place.bucket, tmp_path / "replica")
    with pytest.raises(Unsupported, match="aidre promote --store"):
        Store(tmp_path / "replica").check_writable()
    assert read_catalog(folder_place.bucket)[0].term is None
    folder_place.publish(path, repair=True)


def test_a_claim_that_another_was_faster_at_is_not_remembered(
    folder_place: FolderPlace, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_place.publish(path)
    bucket = folder_place.bucket
    swap = bucket.swap

    def overtaken(key: str, content: bytes, etag: str | None) -> bool:
        Tenure(tmp_path / "other", folder_place.bucket).claim()
        monkeypatch.setattr(bucket, "swap", swap)
        raise BucketFailed("the process is killed here", url="", reason="unreachable")

    (tmp_path / "other").mkdir()
    monkeypatch.setattr(bucket, "swap", overtaken)
    with pytest.raises(BucketFailed):
        Tenure(path, bucket).claim()
    assert not (path / HOME).exists()
    assert Tenure(path, bucket).claim().number == 2


def test_terms_that_cannot_be_read_are_no_first_term(folder_place: FolderPlace, path: Path) -> None:
    (path / HOME).write_text("{")
    with pytest.raises(StorageFailed, match="does not say the terms of this store: restore it"):
        folder_place.publish(path)


# -- the model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template(tmp_path_factory.mktemp("promotions") / "template")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_the_order_and_the_kills_there_is_one_history(seed: int, template: Template, tmp_path: Path) -> None:
    run = Promotions(template, tmp_path / "run", by_chance(random.Random(seed), 0.03))
    last = run.promoter(SECOND, 2) if seed % 2 else run.follower(SECOND)
    run.run(run.home(3), run.promoter(FIRST, 2), last)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_killed_at_each_step_a_promotion_is_repeated(place: int, template: Template, tmp_path: Path) -> None:
    """While a publication of the home node is under way, which goes on after the kill."""
    run = Promotions(template, tmp_path / "run", in_turn((HOST, 8, ""), (FIRST, place + 1, "after"), (HOST, 99, "")))
    assert run.run(run.home(1), run.promoter(FIRST, 1)) == 1
    assert run.promoted[FIRST] >= 1
