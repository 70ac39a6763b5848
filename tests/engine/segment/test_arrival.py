"""Files of data are checked at the first open by a user, and known afterwards."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import StoreDamaged
from aidre.engine.segment import arrival, segment_reader
from aidre.engine.storage.arrow import ArrowFile, check_offsets
from tests.hostile.foreign import Subject, replaced, sealed
from tests.support.stores import NAME, ROWS, SPACE, everything, put, write


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were checked."""
    counts = list[int]()

    def counted(file: ArrowFile) -> None:
        counts.append(file.rows)
        check_offsets(file)

    monkeypatch.setattr(arrival, "check_offsets", counted)
    return counts


def test_a_file_is_checked_once_for_a_user_and_again_in_a_copy(
    tmp_path: Path, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", ["a", "b"])
    checked.clear()
    Store(tmp_path / "store").open(NAME)
    assert checked == []
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    for times in (3, 0):
        Store(tmp_path / "copy").open(NAME)
        assert len(checked) == times
        checked.clear()
    [chunks] = (tmp_path / "copy").rglob("chunks.arrow")
    replaced(chunks, chunks.read_bytes())
    Store(tmp_path / "copy").open(NAME)
    assert checked == [2]
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "home-of-another"))
    Store(tmp_path / "store").open(NAME)
    assert len(checked) == 4


@pytest.mark.parametrize(("module", "step"), [(segment_reader, "open_file"), (arrival, "check_offsets")])
def test_a_file_that_is_swapped_while_another_is_checked_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    write(tmp_path / "store", ["a", "b"])
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    [chunks] = (tmp_path / "copy").rglob("chunks.arrow")
    run, found = getattr(module, step), list[str]()

    def swapping(*arguments: Any, **options: Any) -> Any:
        result = run(*arguments, **options)
        file = arguments[0] if result is None else result
        if "text" in file.schema.names:
            replaced(chunks, chunks.read_bytes())
        return result

    with monkeypatch.context() as patched:
        patched.setattr(module, step, swapping)
        Store(tmp_path / "copy").open(NAME)
    monkeypatch.setattr(arrival, "check_offsets", lambda file: found.extend(file.schema.names))
    Store(tmp_path / "copy").open(NAME)
    assert "text" in found


def test_of_a_user_without_a_home_nothing_is_remembered(
    tmp_path: Path, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIDRE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    write(tmp_path / "store", ["a"])
    monkeypatch.setattr(Path, "expanduser", homeless)
    for _ in range(2):
        checked.clear()
        assert everything(Store(tmp_path / "store").open(NAME)) == ["a"]
        assert len(checked) == 3


def test_without_a_cache_folder_everything_opens(tmp_path: Path, home: Path, checked: list[int]) -> None:
    home.write_text("no folder")
    write(tmp_path / "store", ["a"])
    assert everything(Store(tmp_path / "store").open(NAME)) == ["a"]
    assert len(checked) >= 6


def test_a_record_that_is_none_is_written_anew(tmp_path: Path, home: Path, checked: list[int]) -> None:
    write(tmp_path / "store", ["a"])
    [record] = home.rglob("*.json")
    for content in (b"", b"[]", b'{"a": 1}'):
        record.write_bytes(content)
        checked.clear()
        for _ in range(2):
            Store(tmp_path / "store").open(NAME)
        assert len(checked) == 3


def test_the_oldest_records_go(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "_MAX_RECORDS", 4)
    for number in range(6):
        write(tmp_path / f"store{number}", ["a"])
    assert len(list(home.rglob("*.json"))) <= 4


def test_a_large_check_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "store", ["a", "b"])
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    monkeypatch.setattr(arrival, "_TOLD_CHUNKS", 2)
    with caplog.at_level(logging.WARNING, "aidre"):
        Store(tmp_path / "store").open(NAME)
        assert caplog.text == ""
        Store(tmp_path / "copy").open(NAME)
    assert "checking 2 chunks of docs once" in caplog.text


def test_a_copied_file_whose_offsets_lead_out_of_it_closes_its_collection_alone(tmp_path: Path) -> None:
    write(tmp_path / "store", ["a", "b"])
    with Store(tmp_path / "store").writer("more", spaces=[SPACE]) as writer:
        put(writer, ["x"], ROWS[:1])
        writer.commit()
    [chunks] = (tmp_path / "store" / NAME).rglob("chunks.arrow")
    content = bytearray(chunks.read_bytes())
    place = content.find(b"text of atext of b")
    offsets = content.rfind((9).to_bytes(8, "little") + (18).to_bytes(8, "little"), 0, place)
    content[offsets + 8 : offsets + 16] = (1 << 40).to_bytes(8, "little")
    [manifest] = (tmp_path / "store" / NAME / "manifests").iterdir()
    subject = Subject(tmp_path, {}, {}, manifest, manifest.read_bytes())
    replaced(chunks, bytes(content))
    replaced(manifest, sealed(subject, chunks, bytes(content)))
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=r"chunks\.arrow holds offsets"):
            Store(tmp_path / "store").open(NAME)
    Store(tmp_path / "store").open("more")
