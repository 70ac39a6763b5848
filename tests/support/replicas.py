"""What the tests of replicas share: a store that is written and published, and what is in a folder."""

from __future__ import annotations

from pathlib import Path

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import verify
from tests.support.buckets import Place
from tests.support.stores import NAME, SPACE, everything, write


def purge(store: Path, *ids: str) -> None:
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(ids)
        writer.commit()
        writer.purge()


def commit(store: Path, place: Place, *ids: str, first: int = 3) -> int:
    """Writes and publishes."""
    generation = write(store, list(ids), first)
    place.publish(store)
    return generation


def holders(folder: Path, text: str) -> list[str]:
    """The files of any kind in which a text is."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in files if text.encode() in path.read_bytes())


def found(cache: Path) -> list[str]:
    """What a reader of the cache finds; every file is whole, and no temporary one is left."""
    for report in verify(Store(cache)):
        assert not report.problems, report
        assert not report.older, report
    assert [path for path in cache.rglob("*.tmp*") if path.is_file()] == []
    return everything(Store(cache).open(NAME))
