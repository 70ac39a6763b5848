"""Arrow files: what is written opens, and what was altered afterwards is told from what was not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pytest

from aidre.engine.errors import StorageFailed
from aidre.engine.storage.arrow import FileEntry, FileProblem, check_file, open_file, write_file

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.large_string())], metadata={"made": "here"})


def batch(rows: int, first: int = 0) -> pa.RecordBatch:
    numbers = list(range(first, first + rows))
    return pa.RecordBatch.from_pydict({"number": numbers, "text": [f"text {n}" for n in numbers]}, schema=SCHEMA)


def written(path: Path, *sizes: int) -> FileEntry:
    return write_file(path, [batch(size, 1000 * place) for place, size in enumerate(sizes)], SCHEMA)


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (100,), (100, 100, 7)])
def test_a_file_opens_with_the_rows_that_were_written(sizes: tuple[int, ...], tmp_path: Path) -> None:
    entry = written(tmp_path / "a.arrow", *sizes)
    opened = open_file(tmp_path / "a.arrow", entry, whole=True)
    assert opened.rows == sum(sizes)
    assert opened.schema.equals(SCHEMA, check_metadata=True)
    assert [len(part) for part in opened.batches] == list(sizes)
    wanted = [1000 * place + row for place, size in enumerate(sizes) for row in range(size)]
    assert [number for part in opened.batches for number in part.column(0).to_pylist()] == wanted


def test_an_entry_outlives_its_json() -> None:
    entry = FileEntry(7, "aa", ((0, 3), (5, 2)), "bb")
    assert msgspec.json.decode(orjson.dumps(entry), type=FileEntry) == entry


@pytest.mark.slow
def test_every_flipped_bit_is_found_in_the_whole_and_those_of_the_frame_on_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    entry = written(path, 3, 2)
    sound = path.read_bytes()
    frame = {offset + place for offset, length in entry.frame for place in range(length)}
    assert 0 < len(frame) < len(sound)
    for place in range(len(sound)):
        altered = bytearray(sound)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        with pytest.raises(FileProblem, match="checksum"):
            check_file(path, entry, whole=True)
        if place in frame:
            with pytest.raises(FileProblem, match="header or footer"):
                open_file(path, entry)
        else:
            check_file(path, entry, whole=False)


def test_what_lies_outside_the_frame_is_the_values_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    entry = written(path, 1000)
    frame = sum(length for _, length in entry.frame)
    assert entry.size - frame == batch(1000).nbytes + (-batch(1000).nbytes) % 64 or entry.size - frame < 40_000
    assert frame < 2_000


@pytest.mark.parametrize("size", [0, 1, 8, 100, -1])
def test_a_truncated_file_is_found_on_opening(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    entry = written(path, 50)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FileProblem, match="bytes instead of"):
        open_file(path, entry)


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="missing"):
        open_file(tmp_path / "a.arrow", FileEntry(1, "", (), ""))


@pytest.mark.parametrize("frame", [((0, 10**9),), ((-5, 3),), ((10, -3),)])
def test_a_frame_that_leaves_the_file_is_refused(frame: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    entry = written(path, 5)
    with pytest.raises(FileProblem, match="outside"):
        check_file(path, FileEntry(entry.size, entry.checksum, frame, entry.frame_checksum), whole=False)


def test_other_bytes_of_the_right_size_are_not_an_arrow_file(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"x" * 100)
    from aidre.engine.storage.arrow import checksum_of

    entry = FileEntry(100, checksum_of(np.frombuffer(b"x" * 100, np.uint8)), (), "")
    with pytest.raises(FileProblem, match="not an Arrow file"):
        open_file(path, entry, whole=True)


def test_a_disk_that_refuses_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").mkdir()
    with pytest.raises(StorageFailed, match=r"a\.arrow"):
        written(tmp_path / "a.arrow", 5)
