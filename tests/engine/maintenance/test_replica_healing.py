"""Replicas heal: damaged files, killed pulls and purges, a bucket that goes away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    AidreError,
    BucketFailed,
)
from aidre.engine.maintenance import replica as module
from aidre.engine.maintenance.replica import pulled_at
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import durable
from tests.support.buckets import S3, FolderPlace, Place, S3Place, denied, failing_from, proxy_of
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.fault_proxy import RESET_AFTER, RESET_BEFORE, Fault
from tests.support.replicas import commit, found, holders, purge
from tests.support.stores import NAME, copied

CURRENT = f"{NAME}/CURRENT"


# -- healing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["segments/*/chunks.arrow", "manifests/000001.json", "CURRENT"])
@pytest.mark.parametrize("damage", ["cut", "altered", "missing"])
def test_a_damaged_file_of_a_cache_is_pulled_again_when_the_replica_starts(
    folder_place: FolderPlace, path: Path, cache: Path, what: str, damage: str
) -> None:
    folder_place.publish(path)
    folder_place.replica(cache)
    file = next((cache / NAME).glob(what))
    whole = file.read_bytes()
    file.chmod(0o640)
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(whole[:-3] if damage == "cut" else bytes([whole[0] ^ 1]) + whole[1:])
    if damage == "altered" and "*" in what:  # of the same size: a replica does not read its cache when it starts
        folder_place.replica(cache)
        [problem] = verify(Store(cache))[0].problems
        (cache / problem.file).unlink()
    folder_place.replica(cache)
    assert file.read_bytes() == whole
    assert found(cache) == ["a", "b", "c"]


@pytest.mark.parametrize("damage", ["cut", "altered", "missing"])
def test_a_damaged_file_that_was_removed_is_pulled_again_by_a_running_replica(
    folder_place: FolderPlace, path: Path, cache: Path, damage: str
) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    file = next((cache / NAME).glob("segments/*/chunks.arrow"))
    whole = file.read_bytes()
    file.chmod(0o640)
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(whole[:-3] if damage == "cut" else bytes([whole[0] ^ 1]) + whole[1:])
    [problem] = verify(Store(cache))[0].problems
    (cache / problem.file).unlink(missing_ok=True)
    assert replica.pull() == [NAME]
    assert file.read_bytes() == whole
    assert found(cache) == ["a", "b", "c"]


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_changelog_of_a_cache_is_pulled_again_when_the_replica_starts(
    folder_place: FolderPlace, path: Path, cache: Path, damage: str
) -> None:
    folder_place.publish(path)
    folder_place.replica(cache)
    file = cache / NAME / "changes" / "000001.arrow"
    whole = file.read_bytes()
    file.unlink()
    if damage == "cut":
        file.write_bytes(whole[:-3])
    folder_place.replica(cache)
    assert file.read_bytes() == whole


def test_temporary_files_of_a_killed_pull_are_removed(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    folder_place.replica(cache)
    folder = next((cache / NAME / "segments").iterdir())
    for file in (
        folder / ".chunks.arrow.1.tmp",
        cache / NAME / ".CURRENT.1.tmp",
        cache / NAME / "changes" / ".x.1.tmp",
    ):
        file.write_bytes(b"left")
    (cache / NAME / "segments" / "0123456789abcdef").mkdir()
    (cache / NAME / "segments" / "0123456789abcdef" / ".chunks.arrow.1.tmp").write_bytes(b"left")
    folder_place.replica(cache)
    assert holders(cache, "left") == []
    assert found(cache) == ["a", "b", "c"]


def test_a_purge_that_was_killed_in_a_cache_is_completed(
    folder_place: FolderPlace, path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each removal that it makes."""
    folder_place.publish(path)
    commit(path, folder_place, "d")
    folder_place.replica(cache)
    purge(path, "a")
    folder_place.publish(path)
    removed = 0
    while True:
        again = copied(cache, cache.parent / f"cache{removed}")
        if not _pull_killed_after(folder_place, again, removed, monkeypatch):
            break
        folder_place.replica(again)
        assert holders(again, "text of a") == holders(again, "a#chunk_1") == []
        assert found(again) == ["b", "c", "d"]
        removed += 1
    assert removed > 1


class Killed(BaseException):
    """Stands for a SIGKILL."""


def _pull_killed_after(place: Place, cache: Path, removals: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    left = [removals]
    remove = durable.remove

    def counted(path: Path) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        remove(path)

    with monkeypatch.context() as patched:
        patched.setattr(durable, "remove", counted)
        try:
            place.replica(cache)
        except Killed:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("fault", [RESET_BEFORE, RESET_AFTER])
def test_a_pull_that_fails_at_any_request_leaves_the_old_generation(
    s3: S3, s3_place: S3Place, path: Path, cache: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance import bucket

    monkeypatch.setattr(bucket, "_RETRY", {"max_retries": 0})
    s3_place.publish(path)
    s3_place.replica(cache)
    commit(path, s3_place, "d")
    number = 0
    while True:
        again = copied(cache, cache.parent / f"cache{number}")
        with proxy_of(s3, failing_from(number, fault)) as proxy:
            try:
                s3_place.through(proxy).replica(again)
                break
            except BucketFailed:
                assert found(again) == ["a", "b", "c"]
        s3_place.replica(again)
        assert found(again) == ["a", "b", "c", "d"]
        number += 2
    assert number > 6


def test_a_bucket_that_goes_away_and_comes_back_is_followed(
    s3: S3, s3_place: S3Place, path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance import bucket

    monkeypatch.setattr(bucket, "_RETRY", {"max_retries": 0})
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    away = threading.Event()
    s3_place.publish(path)
    with proxy_of(s3, lambda asked: denied() if away.is_set() else None) as proxy:
        replica = s3_place.through(proxy).replica(cache)
        stopped = threading.Event()
        thread = threading.Thread(target=replica.follow, args=(stopped, 0.01))
        thread.start()
        try:
            away.set()
            seen = len(proxy.asked)
            until(lambda: len(proxy.asked) > seen + 3)
            commit(path, s3_place, "d")
            before = pulled_at(cache)
            seen = len(proxy.asked)
            until(lambda: len(proxy.asked) > seen + 3)
            assert pulled_at(cache) == before
            assert found(cache) == ["a", "b", "c"]
            away.clear()
            until(lambda: Store(cache).current(NAME) == 2)
            until(lambda: (pulled_at(cache) or 0) > (before or 0))
        finally:
            stopped.set()
            thread.join(WAIT_SECONDS)
    assert found(cache) == ["a", "b", "c", "d"]


def test_two_replicas_of_one_folder_do_not_disturb_each_other(place: Place, path: Path, cache: Path) -> None:
    place.publish(path)
    replicas = [place.unpulled(cache), place.unpulled(cache)]
    for number in range(4):
        failures: list[AidreError] = []

        def pull(one: module.Replica, failures: list[AidreError] = failures) -> None:
            try:
                one.pull()
            except AidreError as error:
                failures.append(error)

        threads = [threading.Thread(target=pull, args=(one,)) for one in replicas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_SECONDS)
        assert failures == []
        assert len(found(cache)) == 3 + number
        commit(path, place, f"d{number}", first=3 + number)
