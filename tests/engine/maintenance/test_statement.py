"""Signed publications: who reads them, what a replica with keys refuses, and keys that change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import PublicationRefused, PublishConflict
from aidre.engine.maintenance import replica as module
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    Publication,
    encode_record,
    read_publication,
)
from aidre.engine.maintenance.replica import Replica
from aidre.engine.maintenance.statement import read_claims, sha256_of
from tests.support.buckets import Place
from tests.support.replicas import found, purge
from tests.support.signers import PublisherKey
from tests.support.stores import NAME, write

CURRENT = f"{NAME}/CURRENT"


@pytest.fixture
def key(tmp_path: Path) -> PublisherKey:
    return PublisherKey.made(tmp_path)


def current(place: Place) -> Publication:
    publication = read_publication(place.bucket, NAME)
    assert publication is not None
    return publication[0]


def refusal(replica: Replica) -> str:
    with pytest.raises(PublicationRefused, match=r"docs/CURRENT ") as raised:
        replica.pull()
    assert raised.value.details["collection"] == NAME
    return str(raised.value.details["reason"])


def lists(place: Place) -> list[str]:
    return sorted(one for one in place.contents() if "/signed/" in one)


# -- who reads ---------------------------------------------------------------------------------------------------


def test_a_signed_publication_is_read_with_the_key_and_without(place: Place, path: Path, tmp_path: Path) -> None:
    key = PublisherKey.made(tmp_path)
    assert place.publish(path, key.signer).signed
    for cache, keys in ((tmp_path / "with", key.trusted), (tmp_path / "without", None)):
        replica = place.replica(cache, keys=keys)
        assert found(cache) == ["a", "b", "c"]
        assert replica.pull() == []
    write(path, ["d"], 3)
    assert place.publish(path, key.signer).signed
    assert place.replica(tmp_path / "with", keys=key.trusted).pull() == []
    assert found(tmp_path / "with") == ["a", "b", "c", "d"]


def test_without_a_key_nothing_of_signatures_is_in_the_bucket(folder_place: Place, path: Path) -> None:
    assert not folder_place.publish(path).signed
    assert b"statement" not in folder_place.contents()[CURRENT]
    assert lists(folder_place) == []


def test_a_bucket_that_is_not_signed_is_signed_by_the_next_publication(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path)
    replica = folder_place.unpulled(cache, keys=key.trusted)
    assert refusal(replica) == "unsigned"
    assert replica.source.collections() == []
    published = folder_place.publish(path, key.signer)
    assert (published.files, published.signed) == (0, True)
    assert replica.pull() == [NAME]
    before = folder_place.contents()
    assert folder_place.publish(path, key.signer).signed
    assert folder_place.contents() == before


def test_who_has_no_key_does_not_publish_over_signed_publications(
    folder_place: Place, path: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    assert folder_place.publish(path).signed
    write(path, ["d"], 3)
    with pytest.raises(PublishConflict, match=r"provenance\.key"):
        folder_place.publish(path)
    assert not folder_place.publish(path, force=True).signed


def test_a_dropped_collection_is_dropped_by_a_signed_publication(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    Store(path).drop(NAME)
    [dropped] = folder_place.publisher(path, key.signer).publish_drops()
    assert dropped.signed
    assert replica.pull() == [NAME]
    assert replica.source.collections() == []


def test_an_older_generation_is_pulled_for_a_cursor_where_it_was_signed(
    folder_place: Place, path: Path, tmp_path: Path, key: PublisherKey
) -> None:
    for number, name in enumerate("de", 3):
        folder_place.publish(path, key.signer)
        write(path, [name], number)
    folder_place.publish(path, key.signer)
    for cache, is_signed in ((tmp_path / "one", True), (tmp_path / "other", False)):
        replica = folder_place.replica(cache, keys=key.trusted)
        if not is_signed:
            [older] = [one for one in lists(folder_place) if "/000002-" in one]
            folder_place.put(older, folder_place.contents()[older].replace(b"a", b"b"))
        assert replica.fetch(NAME, 2) == is_signed
        assert replica.fetch(NAME, 1)


def test_a_list_of_an_older_generation_that_is_no_list_is_passed_over(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    [older] = lists(folder_place)
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    for content in (b"[", b'{"more": ' + b"[" * 200_000, b'{"statement": 1}', b'{"statement": "a.b", "files": {}}'):
        folder_place.put(older, content)
        assert not replica.fetch(NAME, 1)


@pytest.mark.parametrize("payload", [b"[" * 200_000, b'{"more": ' + b"[" * 200_000, b"[]", b"{}", b"1", b""])
def test_a_signed_payload_that_is_no_publication_is_refused(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, payload: bytes
) -> None:
    folder_place.publish(path, key.signer)
    forged = replace(current(folder_place), statement=key.signer.sign(payload))
    folder_place.put(CURRENT, encode_record(forged))
    assert refusal(folder_place.unpulled(cache, keys=key.trusted)) == "forged"


def test_the_lists_of_generations_that_stay_are_not_collected(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance import publisher

    monkeypatch.setattr(publisher, "COLLECT_SECONDS", 0)
    folder_place.publish(path, key.signer)
    folder_place.age(48)
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    folder_place.age(48, *lists(folder_place))
    write(path, ["e"], 4)
    folder_place.publish(path, key.signer)
    assert len(lists(folder_place)) == 3
    replica = folder_place.replica(cache, keys=key.trusted)
    assert replica.fetch(NAME, 1) and replica.fetch(NAME, 2)


def test_a_purge_removes_the_lists_of_what_was_erased(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    purge(path, "a")
    folder_place.publish(path, key.signer)
    assert len(lists(folder_place)) == 1
    assert replica.pull() == [NAME]
    assert found(cache) == ["b", "c"]


# -- what is refused ---------------------------------------------------------------------------------------------


def test_a_foreign_key_is_refused_and_named(
    folder_place: Place, path: Path, cache: Path, tmp_path: Path, key: PublisherKey
) -> None:
    other = PublisherKey.made(tmp_path, "other")
    folder_place.publish(path, other.signer)
    replica = folder_place.unpulled(cache, keys=key.trusted)
    with pytest.raises(PublicationRefused, match=other.trusted.ids[0]):
        replica.pull()
    assert refusal(replica) == "unknown_key"


def test_an_older_publication_is_refused_also_after_a_restart_and_without_the_catalog(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    former = folder_place.contents()[CURRENT]
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    newest, catalog = folder_place.contents()[CURRENT], folder_place.contents()[CATALOG]
    folder_place.put(CURRENT, former)
    assert refusal(replica) == "older"
    assert refusal(folder_place.unpulled(cache, keys=key.trusted)) == "older"
    folder_place.put(CATALOG, encode_record(BucketCatalog()))
    assert refusal(folder_place.unpulled(cache, keys=key.trusted)) == "withdrawn"
    folder_place.put(CATALOG, catalog)
    assert refusal(folder_place.unpulled(cache, keys=key.trusted)) == "older"
    assert found(cache) == ["a", "b", "c", "d"]
    folder_place.put(CURRENT, newest)
    assert replica.pull() == []


def test_a_removed_publication_is_refused_also_after_a_restart(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    folder_place.replica(cache, keys=key.trusted)
    newest = folder_place.contents()[CURRENT]
    folder_place.remove(CURRENT)
    restarted = folder_place.unpulled(cache, keys=key.trusted)
    for replica in (restarted, restarted, folder_place.unpulled(cache, keys=key.trusted)):
        assert refusal(replica) == "withdrawn"
    assert found(cache) == ["a", "b", "c"]
    folder_place.put(CURRENT, newest)
    assert restarted.pull() == []


def test_a_forced_publication_of_a_restored_store_is_no_older_one(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.with_name("restored")
    write(other, ["x"])
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    monkeypatch.setattr(
        "aidre.engine.maintenance.statement.time.time", lambda: 1_000_000.0
    )  # and the clock was set back
    folder_place.publish(other, key.signer, force=True)
    assert replica.pull() == [NAME]
    assert found(cache) == ["x"]


def test_a_private_collection_becomes_public_where_the_replica_says_so(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    write(path, ["d"], visibility="private")
    folder_place.publish(path, key.signer)
    replica = folder_place.replica(cache, keys=key.trusted)
    write(path, ["e"], visibility="public")
    folder_place.publish(path, key.signer)
    assert refusal(replica) == "widened"
    assert Store(cache).open(NAME).collection.visibility == "private"
    assert folder_place.unpulled(cache, keys=key.trusted, widened=[NAME]).pull() == [NAME]
    assert Store(cache).open(NAME).collection.visibility == "public"
    write(path, ["f"], visibility="private")
    folder_place.publish(path, key.signer)
    assert replica.pull() == [NAME]


class Colliding(str):
    """A checksum that equals every other one."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        return False


class CollidingDigest:
    def update(self, block: bytes) -> None:
        pass

    def hexdigest(self) -> str:
        return Colliding()


@pytest.mark.parametrize("ending", ["chunks.arrow", "changes/000001.arrow", "000001.json"])
def test_a_file_with_the_checksum_of_the_signed_one_is_refused(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    folder_place.publish(path, key.signer)
    altered = folder_place.key_of(ending)
    content = folder_place.contents()[altered]
    folder_place.put(altered, bytes([content[0] ^ 1]) + content[1:])
    monkeypatch.setattr("aidre.engine.maintenance.fleet.pulling.xxhash.xxh3_128", CollidingDigest)
    monkeypatch.setattr("aidre.engine.maintenance.fleet.pulling.check_arrived", lambda path, entry: None)
    monkeypatch.setattr(module, "checksum", lambda content: Colliding())
    replica = folder_place.unpulled(cache, keys=key.trusted)
    with pytest.raises(PublicationRefused, match="not the file that was signed") as raised:
        replica.pull()
    assert raised.value.details["reason"] == "forged"
    assert not (cache / altered).exists()


def test_a_changelog_that_was_not_signed_is_not_pulled(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    folder_place.put(f"{NAME}/changes/000000.arrow", b"of somebody else")
    folder_place.replica(cache, keys=key.trusted)
    assert [one.name for one in (cache / NAME / "changes").iterdir()] == ["000001.arrow"]


def test_what_a_cache_got_without_a_key_is_compared_with_what_was_signed(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    folder_place.replica(cache)
    chunks = cache / folder_place.key_of("chunks.arrow")
    whole = chunks.read_bytes()
    chunks.unlink()
    chunks.write_bytes(whole[:-1] + b"x")
    folder_place.replica(cache)
    assert chunks.read_bytes() != whole
    folder_place.replica(cache, keys=key.trusted)
    assert chunks.read_bytes() == whole
    assert found(cache) == ["a", "b", "c"]


def test_a_file_of_the_bucket_that_was_not_signed_is_sent_again_by_repair(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance.fleet import sound

    folder_place.publish(path, key.signer)
    altered = folder_place.key_of("chunks.arrow")
    whole = folder_place.contents()[altered]
    folder_place.put(altered, whole[:-1] + b"x")
    monkeypatch.setattr(sound, "_is_whole", lambda path, entry: True)
    folder_place.publish(path, key.signer, repair=True)
    assert folder_place.contents()[altered] == whole
    folder_place.replica(cache, keys=key.trusted)


# -- keys that change --------------------------------------------------------------------------------------------


def test_a_new_key_is_taken_once_the_replica_has_its_public_half(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    trusted, former = key.trusted, key.public.read_text()
    replica = folder_place.replica(cache, keys=trusted)
    newest = key.rotate()
    new = key.public.read_text()
    key.public.write_text(former)
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    assert refusal(replica) == "unknown_key"
    assert found(cache) == ["a", "b", "c"]
    key.public.write_text(new)
    assert replica.pull() == [NAME]
    assert found(cache) == ["a", "b", "c", "d"]
    assert trusted.ids[0] == newest


def test_after_a_rotation_the_same_generation_is_signed_by_the_new_key(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey
) -> None:
    folder_place.publish(path, key.signer)
    former = read_claims(current(folder_place).statement or "")
    newest = key.rotate()
    folder_place.publish(path, key.signer)
    claims = read_claims(current(folder_place).statement or "")
    assert former is not None
    assert claims is not None
    assert claims.iat > former.iat
    key.public.write_text(key.public.read_text().split("\n\n")[-1])
    assert key.trusted.ids == [newest]
    assert folder_place.replica(cache, keys=key.trusted).source.collections() == [NAME]


def test_keys_that_can_no_longer_be_read_stay_in_force(
    folder_place: Place, path: Path, cache: Path, key: PublisherKey, caplog: pytest.LogCaptureFixture
) -> None:
    folder_place.publish(path, key.signer)
    trusted = key.trusted
    key.public.write_text("-----BEGIN")
    assert folder_place.replica(cache, keys=trusted).source.collections() == [NAME]
    assert "stay" in caplog.text


def test_the_files_that_were_signed_before_are_not_read_again(
    folder_place: Place, path: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance.fleet import signing

    folder_place.publish(path, key.signer)
    read = list[str]()

    def counted(file: Path) -> str:
        read.append(str(file.resolve()))
        return sha256_of(file)

    monkeypatch.setattr(signing, "sha256_of", counted)
    write(path, ["d"], 3)
    folder_place.publish(path, key.signer)
    [segment] = {Path(file).parent for file in read}
    assert len(read) == len(list(segment.iterdir()))
