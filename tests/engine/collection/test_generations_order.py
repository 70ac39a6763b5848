"""How a generation becomes durable: its manifest before CURRENT, numbers that are used once, and when it is indexed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.collection import garbage, generations as module
from aidre.engine.collection.indexing import GROWTH_FACTOR, index_generation
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.storage import durable
from tests.support.stores import NAME, ROWS, SPACE, everything, put


class Steps(list[str]):
    """The files that publishing replaces, and what it does between; a step in `failing` raises StorageFailed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.failing: Sequence[str] = ()
        self.growths: list[int] = []
        replace_file, make_folder = durable.replace_file, durable.make_folder

        def replaced(path: Path, content: bytes) -> None:
            self._step(path.name)
            replace_file(path, content)

        def made(path: Path) -> None:
            self._step(f"{path.name}/")
            make_folder(path)

        def indexed(folder: Path, manifest: Any, segments: Any, **rules: Any) -> Any:
            self.growths.append(rules["growth"])
            return index_generation(folder, manifest, segments, **rules)

        monkeypatch.setattr(durable, "replace_file", replaced)
        monkeypatch.setattr(durable, "make_folder", made)
        monkeypatch.setattr(module, "index_generation", indexed)
        monkeypatch.setattr(garbage, "collect", lambda *_: self._step("garbage"))

    def _step(self, name: str) -> None:
        self.append(name)
        if name in self.failing:
            raise StorageFailed(f"cannot write {name}")

    def taken(self) -> list[str]:
        """Those of publishing, since the last call."""
        wanted = [one for one in self if one.endswith(".json") or one in {"CURRENT", "manifests/", "garbage"}]
        self.clear()
        return wanted


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def test_a_generation_is_written_before_it_is_named_and_nothing_is_removed_before(tmp_path: Path, steps: Steps) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for number in (1, 2):
            put(writer, [f"d{number}"], ROWS[:1])
            writer.commit()
            assert steps.taken() == ["manifests/", f"{number:06d}.json", "CURRENT", "garbage"]
    manifest = Store(tmp_path).open(NAME).manifest
    assert (manifest.generation, manifest.parent) == (2, 1)
    assert (tmp_path / NAME / "CURRENT").read_bytes() == b"000002\n"


@pytest.mark.parametrize(("failing", "number"), [("000002.json", 2), ("CURRENT", 3)])
def test_a_number_that_readers_may_have_seen_is_not_used_again(
    tmp_path: Path, steps: Steps, failing: str, number: int
) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        steps.taken()
        steps.failing = [failing]
        put(writer, ["b"], ROWS[1:2])
        with pytest.raises(StorageFailed):
            writer.commit()
        assert writer.generations.is_unacknowledged is (failing == "CURRENT")
        assert "garbage" not in steps.taken()
        assert everything(Store(tmp_path).open(NAME)) == ["a"]
        steps.failing = []
        result = writer.commit()
        assert result is not None and result.generation == number
        assert not writer.generations.is_unacknowledged
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


def test_garbage_that_cannot_be_removed_costs_no_commit(tmp_path: Path, steps: Steps) -> None:
    steps.failing = ["garbage"]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        assert writer.commit() is not None
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


def test_a_bulk_load_is_indexed_at_its_first_commit_and_at_its_end(tmp_path: Path, steps: Steps) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for number in range(3):
            put(writer, [f"d{number}"], ROWS[:1])
            writer.commit()
            assert steps.growths == [GROWTH_FACTOR]
        writer.finish()
        assert steps.growths == [GROWTH_FACTOR, 0]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["later"], ROWS[:1])
        writer.commit()
        assert steps.growths == [GROWTH_FACTOR, 0, GROWTH_FACTOR]


def test_what_a_writer_reads_is_the_generation_that_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(_: Path, manifest: Any, *__: Any, **___: Any) -> Any:
        return replace(manifest, description="indexed")

    monkeypatch.setattr(module, "index_generation", renamed)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        assert writer.snapshot is not None
        assert writer.snapshot.manifest is writer.generations.manifest
    assert Store(tmp_path).open(NAME).manifest.description == "indexed"
