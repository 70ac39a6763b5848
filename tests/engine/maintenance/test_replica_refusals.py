"""What replicas refuse: cut and altered objects, names that lead out of the folder, sizes that no file has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    FormatTooNew,
    StoreDamaged,
)
from aidre.engine.maintenance.fleet import pulling as module
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    checksum,
    encode_record,
    manifest_key,
    read_publication,
)
from aidre.engine.storage.manifest import seal, unseal
from tests.support.buckets import FolderPlace, Place, S3Place
from tests.support.replicas import found
from tests.support.stores import NAME, ROWS, SPACE, put

CURRENT = f"{NAME}/CURRENT"


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["chunks.arrow", "000002.json", "deletes/000002.arrow"])
@pytest.mark.parametrize("damage", ["cut", "altered", "longer", "empty", "missing"])
def test_a_cut_or_altered_object_is_never_opened(
    folder_place: FolderPlace, path: Path, cache: Path, what: str, damage: str
) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    before = set(folder_place.contents())
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["d"], ROWS[3:4])
        writer.delete(["a"])
        writer.commit()
    folder_place.publish(path)
    key = next(key for key in sorted(set(folder_place.contents()) - before) if key.endswith(what))
    whole = folder_place.contents()[key]
    if damage == "missing":
        folder_place.remove(key)
    else:
        changed = {"cut": whole[:-7], "altered": b"\1" + whole[1:], "longer": whole * 3, "empty": b""}
        folder_place.put(key, changed[damage])
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="--repair"):
            replica.pull()
        assert found(cache) == ["a", "b", "c"]
    folder_place.put(key, whole)
    replica.pull()
    assert found(cache) == ["b", "c", "d"]


def test_a_damaged_collection_does_not_stop_another(place: Place, path: Path, cache: Path) -> None:
    with Store(path).writer("more", spaces=[SPACE]) as writer:
        put(writer, ["x"], ROWS[:1])
        writer.commit()
    place.publisher(path).publish([NAME, "more"])
    place.put(manifest_key(NAME, 1), b"altered")
    replica = place.unpulled(cache)
    with pytest.raises(StoreDamaged, match="docs/manifests"):
        replica.pull()
    assert replica.source.collections() == ["more"]


def test_a_huge_object_is_not_read_to_its_end(
    place: Place, path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.publish(path)
    place.put(place.key_of("chunks.arrow"), bytes(8 << 20))
    read = []
    write_block = module._Checked.write

    def counted(self: module._Checked, block: bytes) -> int:
        read.append(len(block))
        return write_block(self, block)

    monkeypatch.setattr(module._Checked, "write", counted)
    replica = place.unpulled(cache)
    with pytest.raises(StoreDamaged, match="--repair"):
        replica.pull()
    assert sum(read) < 6 << 20
    assert list(cache.rglob("*chunks.arrow*")) == []


def crafted(place: Place, change: Callable[[dict[str, object]], None]) -> None:
    """Publishes an altered manifest with right checksums, as whoever can write the bucket may."""
    key = manifest_key(NAME, 1)
    value = orjson.loads(unseal(place.contents()[key]))
    change(value)
    content = seal(orjson.dumps(value))
    publication = read_publication(place.bucket, NAME)
    assert publication is not None
    place.put(key, content)
    place.put(CURRENT, encode_record(replace(publication[0], manifest=checksum(content))))


@pytest.mark.parametrize("name", ["../../../escaped", "/tmp/escaped", "a/../../escaped", "..", ".hidden", "a\0b", ""])
@pytest.mark.parametrize("member", ["segment", "file", "deletes"])
def test_names_that_lead_out_of_the_folder_are_refused(
    folder_place: Place, path: Path, cache: Path, tmp_path: Path, name: str, member: str
) -> None:
    folder_place.publish(path)

    def change(value: dict[str, object]) -> None:
        segment = value["segments"][0]  # type: ignore[index]
        entry = next(iter(segment["files"].values()))
        if member == "segment":
            segment["id"] = name
        elif member == "file":
            segment["files"][name] = entry
        else:
            value["deletes"] = {name: entry}

    crafted(folder_place, change)
    with pytest.raises(StoreDamaged):
        folder_place.replica(cache)
    assert list(tmp_path.rglob("*escaped*")) == []


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "..", ".log", "a/b", "", "\0", "x" * 300])
def test_a_catalog_that_leads_out_of_the_folder_is_refused(
    folder_place: Place, path: Path, cache: Path, name: str
) -> None:
    folder_place.publish(path)
    folder_place.put(CATALOG, encode_record(BucketCatalog((NAME, name))))
    with pytest.raises(StoreDamaged, match="names a collection with an invalid name"):
        folder_place.replica(cache)


def test_changelogs_with_foreign_names_are_left(s3_place: S3Place, path: Path, cache: Path, tmp_path: Path) -> None:
    s3_place.publish(path)
    for name in ("x.arrow", "000001.txt", "-1.arrow", "000009.arrow", "000001/000001.arrow"):
        s3_place.put(f"{NAME}/changes/{name}", b"x")
    s3_place.replica(cache)
    assert [one.name for one in (cache / NAME / "changes").iterdir()] == ["000001.arrow"]
    assert list(tmp_path.rglob("*escaped*")) == []


@pytest.mark.parametrize("size", [1 << 52, 1 << 63, 1 << 200, -1])
def test_sizes_that_no_file_has_are_refused(folder_place: Place, path: Path, cache: Path, size: int) -> None:
    folder_place.publish(path)
    content = folder_place.contents()[manifest_key(NAME, 1)]
    value = unseal(content)
    entry = next(iter(orjson.loads(value)["segments"][0]["files"].values()))
    altered = value.replace(b'"size":%d' % entry["size"], b'"size":%d' % size)
    assert altered != value
    publication = read_publication(folder_place.bucket, NAME)
    assert publication is not None
    folder_place.put(manifest_key(NAME, 1), seal(altered))
    folder_place.put(CURRENT, encode_record(replace(publication[0], manifest=checksum(seal(altered)))))
    with pytest.raises(StoreDamaged):
        folder_place.replica(cache)


def test_a_newer_format_of_a_manifest_is_told(folder_place: Place, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    crafted(folder_place, lambda value: value.update(format=99))
    with pytest.raises(FormatTooNew, match="upgrade aidre"):
        folder_place.replica(cache)
