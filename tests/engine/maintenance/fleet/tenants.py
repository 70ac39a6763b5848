"""Stores of many small collections, and what a bucket is asked for."""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aidre.engine.collection.store import Store
from aidre.engine.storage.format import MANIFESTS, manifest_name
from aidre.engine.storage.manifest import encode_manifest, read_manifest
from tests.support.fault_proxy import Asked
from tests.support.stores import ROWS, SPACE, put


def tenants(count: int) -> list[str]:
    return [f"tenant{number:04d}" for number in range(count)]


def make_tenants(store: Path, names: Sequence[str]) -> None:
    """A store with a collection of each name, copies of one that was written: faster than to write them all."""
    write_tenants(store, names[:1])
    first = store / names[0]
    manifest = read_manifest(first / MANIFESTS, 1, names[0])
    for name in names[1:]:
        shutil.copytree(first, store / name, copy_function=os.link)
        path = store / name / MANIFESTS / manifest_name(1)
        path.unlink()
        path.write_bytes(encode_manifest(replace(manifest, name=name, lineage=secrets.token_hex(16))))


def write_tenants(store: Path, names: Sequence[str], documents: Sequence[str] = ("a",)) -> None:
    """One commit to each collection."""
    for name in names:
        with Store(store).writer(name, spaces=[SPACE]) as writer:
            put(writer, list(documents), ROWS[: len(documents)])
            writer.commit()


def methods(asked: Sequence[Asked]) -> Counter[str]:
    """The requests by method; LIST is that of S3, a GET of the bucket."""
    return Counter("LIST" if "list-type" in one.target else one.method for one in asked)
