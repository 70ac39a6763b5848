"""A store to damage, the ways to damage its files, and what verification says of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import CollectionReport, verify
from tests.support.stores import NAME, Vectors, copied, names, normal, put, record, space_of, structured

MODEL = space_of("cosine", 768, model="m")
PLAIN = space_of("dot", 4)
SPACES = (MODEL, PLAIN)
ROWS = 1700
KEYS = [number.to_bytes(16, "big") for number in range(1, ROWS + 51)]
TRUTH = ("documents.arrow", "chunks.arrow", "vectors.arrow")
DERIVED = ("ids.arrow", "fields.arrow", "index.arrow")
Damage = Callable[[bytes], bytes]


def vectors_of(rows: int, seed: int) -> dict[str, Vectors]:
    return {MODEL.id: structured(rows, 768, seed), PLAIN.id: normal(rows, 4, seed)}


QUERIES = [vectors_of(6, 50)[MODEL.id], vectors_of(6, 50)[PLAIN.id]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment with a scan and deleted documents, and a small one, in generation 3."""
    path = tmp_path_factory.mktemp("sound")
    with Store(path).writer(NAME, spaces=SPACES, dates=["day"]) as writer:
        for first, count in ((0, ROWS), (ROWS, 50)):
            documents = [
                record(one, metadata={"n": row, "day": f"2026-01-{row % 28 + 1:02d}"})
                for row, one in enumerate(names(count, first))
            ]
            put(writer, documents, vectors_of(count, first), {MODEL.id: KEYS[first : first + count]})
            writer.commit()
        writer.delete(names(20))
        writer.commit()
    return path


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy to damage."""
    yield copied(sound, tmp_path / "store")
    shutil.rmtree(tmp_path / "store")


def files(store: Path, endings: Sequence[str], segments: str = "*") -> list[Path]:
    every = sorted((store / NAME / "segments").glob(f"{segments}/*.arrow"))
    return [path for path in every if path.name.endswith(tuple(endings))]


def alter(path: Path, damage: Damage) -> None:
    """As a disk would: under the same name, whatever the permissions say."""
    content = damage(path.read_bytes())
    path.unlink()
    path.write_bytes(content)


def flipped(place: int, bit: int = 0) -> Damage:
    def damage(content: bytes) -> bytes:
        altered = bytearray(content)
        altered[place] ^= 1 << bit
        return bytes(altered)

    return damage


def cut(size: int) -> Damage:
    return lambda content: content[:size]


def flip(path: Path, place: int | None = None) -> None:
    """One bit, on the disk and in every map of the file; in the middle where no place is given."""
    path.chmod(0o644)
    place = path.stat().st_size // 2 if place is None else place
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


def file_in(store: Path, name: str, collection: str = NAME) -> Path:
    """The file of this name of a collection's only segment."""
    [found] = (store / collection / "segments").glob(f"*/{name}")
    return found


def report_of(store: Path) -> CollectionReport:
    (report,) = verify(Store(store))
    return report


def frame_of(store: Path, path: Path) -> list[int]:
    manifest = Store(store).open(NAME).manifest
    (entry,) = (entry for entry in manifest.segments if entry.id == path.parent.name)
    parts = entry.files[path.name].frame
    return [offset + place for offset, length in parts for place in range(length)]
