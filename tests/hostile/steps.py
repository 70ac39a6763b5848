"""What is done to a collection while it is attacked: steps with known outcomes, each acknowledged once it is durable.

A document is known by its id and its version, from which its text, its vector and its metadata follow. A version
is used once, so whatever is found tells when it was written.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.model import EmbeddingSpace, Record
from tests.hostile.nursery import Say
from tests.support.stores import NAME, Vectors, put, record, space_of

Kind: TypeAlias = Literal["put", "delete", "merge", "compact", "purge"]
KINDS: tuple[Kind, ...] = ("put", "delete", "merge", "compact", "purge")
State: TypeAlias = Mapping[str, int]
"""The live documents and their versions."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a collection is: documents that there can be, dimensions, and the most that a step touches."""

    documents: int
    dimensions: int
    step: int

    @property
    def space(self) -> EmbeddingSpace:
        return space_of("cosine", self.dimensions)

    def ids(self) -> list[str]:
        return [f"d{number:05d}" for number in range(self.documents)]


SMALL = Shape(300, 16, 30)
"""Many commits a second, merged again and again."""
INDEXED = Shape(2_300, 768, 250)
"""Large enough that the engine builds indexes of its own accord."""


@dataclass(frozen=True, slots=True)
class Step:
    kind: Kind
    ids: tuple[str, ...] = ()
    version: int = 0


def after(state: State, steps: Iterable[Step]) -> State:
    """The documents after these steps."""
    live = dict(state)
    for step in steps:
        if step.kind == "put":
            live.update(dict.fromkeys(step.ids, step.version))
        elif step.kind == "delete":
            live = {one: version for one, version in live.items() if one not in step.ids}
    return live


def planned(shape: Shape, state: State, version: int, count: int, chance: random.Random) -> list[Step]:
    """So many random steps from a state on; their versions begin at `version`."""
    steps: list[Step] = []
    for number in range(count):
        kind = chance.choices(KINDS, (8, 4, 2, 3, 2))[0]
        live = after(state, steps)
        if kind == "put" or not live:
            ids = chance.sample(shape.ids(), chance.randint(1, shape.step))
            steps.append(Step("put", tuple(sorted(ids)), version + number))
        elif kind == "delete":
            ids = chance.sample(sorted(live), min(len(live), chance.randint(1, shape.step // 3)))
            steps.append(Step("delete", tuple(sorted(ids))))
        else:
            steps.append(Step(kind))
    return steps


# -- documents -------------------------------------------------------------------------------------------------

_MARK = re.compile(rb"xq([a-p]{8})([a-p]{6})zx")


def mark(document_id: str, version: int) -> str:
    """A word that stands in this version of this document and nowhere else; no stemmer shortens it."""
    return f"xq{_letters(int(document_id[1:]), 8)}{_letters(version, 6)}zx"


def _letters(number: int, count: int) -> str:
    return "".join(chr(ord("a") + (number >> 4 * place & 15)) for place in range(count))


def marks_in(folder: Path) -> set[tuple[str, int]]:
    """Every version of every document of which a trace stands in any file below a folder; a server may replace some."""
    found: set[tuple[bytes, bytes]] = set()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            found.update(_MARK.findall(path.read_bytes()))
    return {(f"d{_number(one):05d}", _number(version)) for one, version in found}


def _number(letters: bytes) -> int:
    return sum((letter - ord("a")) << 4 * place for place, letter in enumerate(letters))


def text_of(document_id: str, version: int) -> str:
    return f"{document_id} as of {version}: {mark(document_id, version)}. " + "Rain falls on tents and hoods. " * 8


def record_of(document_id: str, version: int) -> Record:
    metadata = {"number": int(document_id[1:]), "version": version}
    return record(document_id, [text_of(document_id, version)], metadata=metadata)


GRID = 1024
"""Steps in a unit of the coordinates. A point has less than 2^14 of them, the map into the space less than 2^12."""


def vectors_of(shape: Shape, documents: Collection[tuple[str, int]]) -> Vectors:
    """Vectors as embeddings are: of clusters, of low intrinsic dimension, bent into the space; no two are alike.

    A document's vector is the same to the last bit in every batch and on every processor. The order in which BLAS adds
    up a product depends on both, so both factors are whole numbers: every sum of their sixteen products stays below
    2^30 and is exact in float64. Division and rounding are exact by IEEE 754.
    """
    centres, bend = _world(shape.dimensions)
    points = np.array([_point(int(one[1:]), version) for one, version in documents], dtype=np.float64).reshape(-1, 16)
    numbers = [int(one[1:]) % len(centres) for one, _ in documents]
    straight = (centres[numbers] + points) @ bend / GRID**2
    return np.asarray(straight / (1 + np.abs(straight)), dtype=np.float32)


@lru_cache(maxsize=100_000)
def _point(number: int, version: int) -> NDArray[np.float64]:
    """The place of one version within its cluster: whole numbers from -GRID to GRID - 1, drawn from a hash."""
    digest = hashlib.blake2b(f"{number} {version}".encode(), digest_size=32).digest()
    return np.frombuffer(digest, "<u2").astype(np.float64) % (2 * GRID) - GRID


@lru_cache(maxsize=4)
def _world(dimensions: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The centres of the clusters and the map into the space, in steps of the grid."""
    rng = np.random.default_rng(dimensions)
    centres, bend = rng.normal(size=(64, 16)) * 1.5, rng.normal(size=(16, dimensions)) / 4
    return np.rint(centres * GRID), np.rint(bend * GRID)


# -- doing it --------------------------------------------------------------------------------------------------


def do(writer: Writer, shape: Shape, step: Step) -> None:
    """One step, durable when this returns. What is as it should be is left as it is, so it can be done again."""
    if step.kind == "put":
        stored = writer.fingerprints(step.ids)
        wanted = [(one, record_of(one, step.version)) for one in step.ids]
        changed = [one for one, mark in zip(wanted, stored, strict=True) if one[1].fingerprint != mark]
        if changed:
            put(writer, [new for _, new in changed], vectors_of(shape, [(one, step.version) for one, _ in changed]))
        writer.commit()
    elif step.kind == "delete":
        writer.delete(step.ids)
        writer.commit()
    elif step.kind == "merge":
        writer.finish()
    elif step.kind == "compact":
        writer.compact()
    else:
        writer.purge()


def write(say: Say, store: Path, shape: Shape, steps: Sequence[Step]) -> None:
    """Do the steps, one after the other, and say the number of each when it is durable."""
    with Store(store).writer(NAME, spaces=[shape.space]) as writer:
        for number, step in enumerate(steps):
            do(writer, shape, step)
            say(str(number))


def write_all(store: Path, shape: Shape, steps: Sequence[Step]) -> None:
    write(lambda _: None, store, shape, steps)
