"""The files of a generation, here and in the bucket, compared with its manifest before they are sent or kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from aidre.engine.errors import StoreDamaged
from aidre.engine.maintenance.bucket import Bucket
from aidre.engine.maintenance.fleet.signing import Signing
from aidre.engine.maintenance.publication import changes_prefix, manifest_key, named_files
from aidre.engine.storage import (
    CHANGES,
    MANIFESTS,
    FileEntry,
    FileProblem,
    Manifest,
    check_file,
    encode_manifest,
    manifest_name,
)


def check_whole(path: Path, key: str, entry: FileEntry) -> None:
    """StoreDamaged where a file of this store is not what its manifest says."""
    try:
        check_file(path, entry, whole=True)
    except FileProblem as problem:
        raise StoreDamaged(
            f"{key} {problem}: restore it from a backup, it is not published",
            collection=key.partition("/")[0],
            file=key,
            problem=str(problem),
        ) from problem


def damaged_keys(
    bucket: Bucket, folder: Path, manifest: Manifest, signing: Signing, digests: Mapping[str, str]
) -> Iterator[str]:
    """The objects of a generation that differ from their checksum, or from what is to be signed."""
    temporary = folder / f".repair.{os.getpid()}.tmp"
    try:
        for key, entry in named_files(manifest.name, manifest):
            with temporary.open("wb") as file:
                exists = bucket.download(key, file)
            if exists and not (_is_whole(temporary, entry) and signing.is_signed(digests.get(key, ""), temporary)):
                yield key
    finally:
        temporary.unlink(missing_ok=True)


def _is_whole(path: Path, entry: FileEntry) -> bool:
    try:
        check_file(path, entry, whole=True)
    except FileProblem:
        return False
    return True


def content_of(folder: Path, manifest: Manifest) -> bytes:
    try:
        return (folder / MANIFESTS / manifest_name(manifest.generation)).read_bytes()
    except FileNotFoundError:  # garbage collection removed it meanwhile
        return encode_manifest(manifest)


def changelogs(folder: Path, generation: int) -> Iterator[tuple[Path, int]]:
    """The changelogs and packs of them up to a generation, each with the last one that it holds."""
    for path in sorted((folder / CHANGES).glob("*.arrow")):
        numbers = path.stem.split("-")
        if all(map(str.isdecimal, numbers)) and int(numbers[0]) <= generation:
            yield path, int(numbers[-1])


def contents_of(folder: Path, manifest: Manifest, content: bytes, descriptors: Mapping[str, int]) -> dict[str, bytes]:
    """All files that belong to a generation, by their keys. StoreDamaged."""
    contents = dict[str, bytes]()
    for key, entry in named_files(manifest.name, manifest):
        path = Path(f"/proc/self/fd/{descriptors[key]}")
        check_whole(path, key, entry)
        contents[key] = path.read_bytes()
    for path, _ in changelogs(folder, manifest.generation):
        contents[f"{changes_prefix(manifest.name)}/{path.name}"] = path.read_bytes()
    return contents | {manifest_key(manifest.name, manifest.generation): content}
