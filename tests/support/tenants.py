"""Stores of many small collections, and what a bucket is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from aidre.engine.collection.store import Store
from tests.support.fault_proxy import Asked
from tests.support.stores import ROWS, SPACE, put


def tenants(count: int) -> list[str]:
    return [f"tenant{number:04d}" for number in range(count)]


def write_tenants(store: Path, names: Sequence[str], documents: Sequence[str] = ("a",)) -> None:
    """One commit to each collection."""
    for name in names:
        with Store(store).writer(name, spaces=[SPACE]) as writer:
            put(writer, list(documents), ROWS[: len(documents)])
            writer.commit()


def methods(asked: Sequence[Asked]) -> Counter[str]:
    """The requests by method; LIST is that of S3, a GET of the bucket."""
    return Counter("LIST" if "list-type" in one.target else one.method for one in asked)
