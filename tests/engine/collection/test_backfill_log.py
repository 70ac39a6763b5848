"""Vectors that are kept by key until a space is complete, and what of them survives an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection import backfill
from aidre.engine.collection.backfill import VectorLog, log_path, remove_log
from aidre.engine.errors import StorageFailed
from aidre.engine.index.vectors.encoding import encode
from tests.support.stores import normal, space_of

SPACE = space_of("cosine", 70)
KEYS = [bytes([number]) * 15 + bytes([number % 2]) for number in range(1, 41)]
VECTORS = encode(SPACE, normal(40, 70))


def add(log: VectorLog, first: int, last: int) -> None:
    part = slice(first, last)
    log.add(KEYS[part], encode(SPACE, normal(40, 70)[part]))


def check(log: VectorLog, known: Sequence[int]) -> None:
    """Exactly the keys of these numbers are found, each with its own vector and norm."""
    places = log.find(KEYS)
    assert np.flatnonzero(places >= 0).tolist() == sorted(known)
    taken = log.take(places[list(known)])
    np.testing.assert_array_equal(taken.codes, VECTORS.codes[list(known)])
    np.testing.assert_array_equal(taken.norms, VECTORS.norms[list(known)])


def test_vectors_are_found_by_key_at_once_and_after_it_was_opened_again(tmp_path: Path) -> None:
    log = VectorLog(tmp_path, SPACE)
    check(log, [])
    add(log, 0, 10)
    add(log, 10, 30)
    check(log, range(30))
    again = VectorLog(tmp_path, SPACE)
    add(again, 30, 40)
    check(again, range(40))
    check(VectorLog(tmp_path, SPACE), range(40))


def test_keys_are_found_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "_MAX_UNSORTED_KEYS", 4)
    log = VectorLog(tmp_path, SPACE)
    for start in range(0, 40, 3):
        add(log, start, min(start + 3, 40))
        check(log, range(min(start + 3, 40)))


def test_a_torn_record_at_the_end_is_written_over(tmp_path: Path) -> None:
    add(VectorLog(tmp_path, SPACE), 0, 10)
    path = log_path(tmp_path, SPACE.id)
    size = path.stat().st_size // 10
    with path.open("r+b") as file:
        file.truncate(9 * size + size // 2)
    log = VectorLog(tmp_path, SPACE)
    check(log, range(9))
    add(log, 9, 12)
    check(log, range(12))
    check(VectorLog(tmp_path, SPACE), range(12))


@pytest.mark.parametrize("place", ["key", "norm", "codes", "checksum", "zeros"])
def test_a_record_that_was_altered_is_left_out_and_the_others_are_not(place: str, tmp_path: Path) -> None:
    add(VectorLog(tmp_path, SPACE), 0, 10)
    path = log_path(tmp_path, SPACE.id)
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    start = 4 * size
    if place == "zeros":  # what a power cut may leave where a file had grown
        content[start : start + size] = bytes(size)
    else:
        content[start + {"key": 3, "norm": 17, "codes": 40, "checksum": size - 1}[place]] ^= 1
    path.write_bytes(content)
    check(VectorLog(tmp_path, SPACE), [number for number in range(10) if number != 4])


def test_what_was_written_for_other_dimensions_or_is_no_log_at_all_is_not_believed(tmp_path: Path) -> None:
    add(VectorLog(tmp_path, SPACE), 0, 10)
    path = log_path(tmp_path, SPACE.id)
    other = VectorLog(tmp_path, space_of("cosine", 70, precision="float32"))
    assert (other.find(KEYS) < 0).all()
    path.write_bytes(b"no log at all " * 100)
    check(VectorLog(tmp_path, SPACE), [])


def test_a_disk_that_refuses_is_named_and_nothing_is_found_of_what_it_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = VectorLog(tmp_path, SPACE)
    add(log, 0, 10)

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(StorageFailed, match="No space left"):
            add(log, 10, 20)
    check(log, range(10))
    add(log, 10, 30)
    check(log, range(30))


def test_logs_of_two_spaces_are_apart_and_one_that_is_gone_can_be_removed_again(tmp_path: Path) -> None:
    other = space_of("cosine", 71)
    add(VectorLog(tmp_path, SPACE), 0, 10)
    assert (VectorLog(tmp_path, other).find(KEYS) < 0).all()
    remove_log(tmp_path, other.id)
    remove_log(tmp_path, other.id)
    check(VectorLog(tmp_path, SPACE), range(10))
