"""The catalog: one request for all collections, aliases that move with what they mean, and who is still understood."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import BucketFailed, PublicationRefused
from aidre.engine.maintenance.fleet import catalog as catalog_module
from aidre.engine.maintenance.publication import CATALOG, BucketCatalog, encode_record, read_catalog, read_publication
from aidre.engine.maintenance.replica import Replica
from tests.engine.maintenance.fleet.tenants import methods, tenants, write_tenants
from tests.support.buckets import S3, FolderPlace, Once, Place, S3Place, denied, proxy_of
from tests.support.signers import PublisherKey
from tests.support.stores import NAME, everything


@pytest.fixture
def key(tmp_path: Path) -> PublisherKey:
    return PublisherKey.made(tmp_path)


def served(replica: Replica, name: str = "tenant0003") -> list[str]:
    return everything(replica.source.open(name))


# -- one request -------------------------------------------------------------------------------------------------


def test_an_idle_replica_asks_twice_however_many_collections_there_are(s3: S3, s3_place: S3Place, many: Path) -> None:
    s3_place.publisher(many).publish(Store(many).collections())
    with proxy_of(s3) as proxy:
        replica = s3_place.through(proxy).replica(many.parent / "cache")
        for _ in range(3):
            proxy.asked.clear()
            assert replica.pull() == []
            assert methods(proxy.asked) == {"GET": 2}


def test_a_commit_costs_a_replica_the_requests_of_that_collection_alone(s3: S3, s3_place: S3Place, many: Path) -> None:
    publisher = s3_place.publisher(many)
    publisher.publish(Store(many).collections())
    with proxy_of(s3) as proxy:
        replica = s3_place.through(proxy).replica(many.parent / "cache")
        write_tenants(many, ["tenant0003"], ["b"])
        publisher.publish(["tenant0003"])
        proxy.asked.clear()
        assert replica.pull() == ["tenant0003"]
        others = {f"/{name}/" for name in tenants(20)} - {"/tenant0003/"}
        assert sum(any(other in asked.target for other in others) for asked in proxy.asked) <= 1
    assert served(replica) == ["a", "b"]


def test_many_commits_are_entered_in_the_catalog_at_once(s3: S3, s3_place: S3Place, many: Path) -> None:
    s3_place.publisher(many).publish(Store(many).collections())
    write_tenants(many, tenants(5), ["b"])
    with proxy_of(s3) as proxy:
        s3_place.through(proxy).publisher(many).publish(tenants(5))
    assert sum(asked.method == "PUT" and asked.target.partition("?")[0].endswith(CATALOG) for asked in proxy.asked) == 1
    assert {name for name, one in read_catalog(s3_place.bucket)[0].publications.items() if one.generation == 2} == set(
        tenants(5)
    )


# -- a catalog that is behind ------------------------------------------------------------------------------------


def test_a_publisher_that_is_stopped_before_the_catalog_is_mended_by_the_next_pass(
    s3: S3, s3_place: S3Place, many: Path, tmp_path: Path
) -> None:
    s3_place.publisher(many).publish(Store(many).collections())
    write_tenants(many, ["tenant0003"], ["b"])
    with proxy_of(s3, Once("PUT", CATALOG, denied())) as proxy, pytest.raises(BucketFailed):
        s3_place.through(proxy).publisher(many).publish(["tenant0003"])
    assert read_catalog(s3_place.bucket)[0].publications["tenant0003"].generation == 1
    s3_place.publisher(many).publish(["tenant0003"])
    assert read_catalog(s3_place.bucket)[0].publications["tenant0003"].generation == 2


def test_a_replica_finds_what_no_catalog_lists_within_as_many_polls_as_there_are_collections(
    folder_place: FolderPlace, many: Path, tmp_path: Path
) -> None:
    publisher = folder_place.publisher(many)
    publisher.publish(Store(many).collections())
    behind = folder_place.contents()[CATALOG]
    replica = folder_place.replica(tmp_path / "cache")
    write_tenants(many, ["tenant0003"], ["b"])
    publisher.publish(["tenant0003"])
    folder_place.put(CATALOG, behind)
    assert "tenant0003" in [name for _ in range(20) for name in replica.pull()]
    assert served(replica) == ["a", "b"]


def test_the_catalog_of_an_older_release_lists_names_and_every_collection_is_asked_for(
    folder_place: FolderPlace, many: Path, tmp_path: Path
) -> None:
    publisher = folder_place.publisher(many)
    publisher.publish(tenants(4))
    folder_place.put(CATALOG, encode_record(BucketCatalog(tuple(tenants(4)))))
    replica = folder_place.replica(tmp_path / "cache")
    write_tenants(many, tenants(2), ["b"])
    publisher.publish(tenants(2))
    folder_place.put(CATALOG, encode_record(BucketCatalog(tuple(tenants(4)))))
    assert replica.pull() == tenants(2)


def test_a_collection_that_fails_stops_no_other_one(place: Place, many: Path) -> None:
    file = next(many.glob("tenant0001/segments/*/chunks.arrow"))
    file.chmod(0o640)
    file.write_bytes(b"")
    done = place.publisher(many).publish_each(tenants(3))
    assert [one.collection for one in done.published] == ["tenant0000", "tenant0002"]
    assert list(done.failures) == ["tenant0001"]
    assert read_catalog(place.bucket)[0].collections == ("tenant0000", "tenant0002")


# -- aliases -----------------------------------------------------------------------------------------------------


def switched(place: Place, many: Path, **signer: object) -> None:
    """A collection is built beside, and the alias is moved to it."""
    Store(many).point_alias("handbook", "tenant0001")
    place.publisher(many, **signer).publish(tenants(3))  # type: ignore[arg-type]


def test_an_alias_is_seen_by_replicas_and_moves_with_what_it_means(place: Place, many: Path, tmp_path: Path) -> None:
    switched(place, many)
    replica = place.replica(tmp_path / "cache")
    source = replica.source
    assert source.open("handbook").collection.name == "tenant0001"
    write_tenants(many, ["rebuilt"], ["z"])
    Store(many).point_alias("handbook", "rebuilt")
    place.publisher(many).publish(["rebuilt"])
    replica.pull()
    assert everything(source.open("handbook")) == ["z"]
    assert [former for former, _ in source.aliases()["handbook"].former] == ["tenant0001"]
    Store(many).remove_alias("handbook")
    place.publisher(many).publish_each([])
    replica.pull()
    assert source.aliases() == {}


def test_an_alias_stays_where_what_it_shall_mean_cannot_be_pulled(
    folder_place: FolderPlace, many: Path, tmp_path: Path
) -> None:
    switched(folder_place, many)
    replica = folder_place.replica(tmp_path / "cache")
    write_tenants(many, ["rebuilt"], ["z"])
    Store(many).point_alias("handbook", "rebuilt")
    folder_place.publisher(many).publish(["rebuilt"])
    whole = {key: content for key, content in folder_place.contents().items() if key.startswith("rebuilt/seg")}
    folder_place.remove(*whole)
    with pytest.raises(Exception, match="rebuilt"):
        replica.pull()
    assert replica.source.open("handbook").collection.name == "tenant0001"
    for one, content in whole.items():
        folder_place.put(one, content)
    replica.pull()
    assert everything(replica.source.open("handbook")) == ["z"]


def test_a_store_leaves_the_aliases_of_another_one(folder_place: FolderPlace, many: Path, tmp_path: Path) -> None:
    switched(folder_place, many)
    other = tmp_path / "other"
    write_tenants(other, ["more"])
    Store(other).point_alias("extra", "more")
    folder_place.publisher(other).publish(["more"])
    assert set(read_catalog(folder_place.bucket)[0].aliases) == {"handbook", "extra"}


def test_aliases_are_taken_from_signed_catalogs_alone(
    folder_place: FolderPlace, many: Path, tmp_path: Path, key: PublisherKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = count(1_800_000_000)
    monkeypatch.setattr(catalog_module, "time", SimpleNamespace(time=lambda: next(now)))
    switched(folder_place, many, signer=key.signer)
    signed = folder_place.contents()[CATALOG]
    replica = folder_place.replica(tmp_path / "cache", keys=key.trusted)
    assert replica.source.open("handbook").collection.name == "tenant0001"
    catalog, _ = read_catalog(folder_place.bucket)
    moved = {"handbook": replace(catalog.aliases["handbook"], collection="tenant0002")}
    for forged in (replace(catalog, aliases=moved), replace(catalog, aliases=moved, statement=None)):
        folder_place.put(CATALOG, encode_record(forged))
        with pytest.raises(PublicationRefused, match=r"forged|unsigned"):
            replica.pull()
        assert replica.source.open("handbook").collection.name == "tenant0001"
    Store(many).point_alias("handbook", "tenant0002")
    folder_place.publisher(many, key.signer).publish(["tenant0002"])
    replica.pull()
    assert replica.source.open("handbook").collection.name == "tenant0002"
    folder_place.put(CATALOG, signed)
    with pytest.raises(PublicationRefused, match="older"):
        folder_place.unpulled(tmp_path / "cache", keys=key.trusted).pull()
    assert replica.source.open("handbook").collection.name == "tenant0002"


def test_what_is_signed_already_is_not_written_again(folder_place: FolderPlace, many: Path, key: PublisherKey) -> None:
    switched(folder_place, many, signer=key.signer)
    before = folder_place.contents()
    folder_place.publisher(many, key.signer).publish(tenants(3))
    assert folder_place.contents() == before
    key.rotate()
    folder_place.publisher(many, key.signer).publish(tenants(3))
    assert folder_place.contents()[CATALOG] != before[CATALOG]


# -- packs -------------------------------------------------------------------------------------------------------


def test_many_small_collections_are_first_published_in_three_requests_each(
    s3: S3, s3_place: S3Place, many: Path, tmp_path: Path
) -> None:
    with proxy_of(s3) as proxy:
        published = s3_place.through(proxy).publisher(many).publish(Store(many).collections())
        assert methods(proxy.asked).total() <= 3 * 20 + 5
    assert {one.files > 5 for one in published} == {True}
    replica = s3_place.replica(tmp_path / "cache")
    assert [served(replica, name) for name in tenants(20)] == [["a"]] * 20
    assert len(replica.source.open("tenant0003").changes(None, 10).changes) == 1


def test_the_next_publication_of_a_packed_collection_stands_alone(
    place: Place, many: Path, tmp_path: Path, key: PublisherKey
) -> None:
    place.publisher(many, key.signer).publish(Store(many).collections())
    old = place.replica(tmp_path / "old", keys=key.trusted)
    publisher = place.publisher(many, key.signer)
    assert publisher.publish(["tenant0003"])[0].files == 0
    write_tenants(many, ["tenant0003"], ["b"])
    publisher.publish(["tenant0003"])
    place.remove("tenant0003/packs/000001.pack") if place.bucket.url.startswith("s3") else None
    assert old.pull() == ["tenant0003"]
    fresh = place.replica(tmp_path / "fresh", keys=key.trusted)
    assert served(old) == served(fresh) == ["a", "b"]
    assert fresh.fetch("tenant0003", 1) != place.bucket.url.startswith("s3")


def test_a_pack_that_was_altered_is_not_opened(folder_place: FolderPlace, many: Path, tmp_path: Path) -> None:
    folder_place.publisher(many).publish(Store(many).collections())
    pack = folder_place.contents()["tenant0003/packs/000001.pack"]
    folder_place.put("tenant0003/packs/000001.pack", pack[:-3] + b"xyz")
    replica = folder_place.unpulled(tmp_path / "cache")
    with pytest.raises(Exception, match="tenant0003"):
        replica.pull()
    assert replica.source.collections() == [name for name in tenants(20) if name != "tenant0003"]
    folder_place.publisher(many).publish(["tenant0003"], repair=True)
    assert replica.pull() == ["tenant0003"]


def test_few_first_publications_are_read_by_releases_before_packs(place: Place, many: Path) -> None:
    place.publisher(many).publish(tenants(3))
    assert not [key for key in place.contents() if "/packs/" in key]
    assert b'"format":1' in place.contents()["tenant0001/CURRENT"]
    found = read_publication(place.bucket, "tenant0001")
    assert found is not None
    assert found[0].generation == 1
    assert NAME not in place.contents()
