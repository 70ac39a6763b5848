"""When each source was last read to its end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aidre.engine.storage.manifest import seal
from aidre.ingest.pipeline.last_read import (
    FILE_NAME,
    load_read_times,
    load_readers,
    oldest_read_times,
    save_read_times,
)
from aidre.ingest.sources.web import READER_VERSION


def test_a_run_is_noted_for_what_it_read(tmp_path: Path) -> None:
    save_read_times(tmp_path, "docs", ["a", "b"], [], 100.0)
    save_read_times(tmp_path, "news", ["https://example.com/feed"], [], 150.0)
    save_read_times(tmp_path, "docs", ["b"], ["a", "b"], 200.0)
    assert load_read_times(tmp_path) == {"docs": {"a": 100.0, "b": 200.0}, "news": {"https://example.com/feed": 150.0}}
    assert oldest_read_times(tmp_path) == {"docs": 100.0, "news": 150.0}


def test_a_source_that_the_collection_no_longer_knows_grows_no_older(tmp_path: Path) -> None:
    save_read_times(tmp_path, "docs", ["a", "b"], [], 100.0)
    save_read_times(tmp_path, "docs", ["b"], ["b"], 200.0)
    assert oldest_read_times(tmp_path) == {"docs": 200.0}


def test_nothing_is_known_of_a_store_that_noted_nothing(tmp_path: Path) -> None:
    assert oldest_read_times(tmp_path) == {}
    save_read_times(tmp_path, "docs", [], [], 1.0)
    assert oldest_read_times(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"docs":', b'{"docs": 3}', b'{"docs": {"a": "now"}}', b"\xff"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_damaged_note_is_begun_anew(tmp_path: Path, content: bytes, whole: bool) -> None:
    """Also one whose seal is whole, which another program may have written."""
    save_read_times(tmp_path, "docs", ["a"], [], 100.0)
    (tmp_path / FILE_NAME).write_bytes(seal(content) if whole else content)
    assert oldest_read_times(tmp_path) == {}
    save_read_times(tmp_path, "docs", ["a"], [], 200.0)
    assert oldest_read_times(tmp_path) == {"docs": 200.0}


def test_a_flipped_bit_is_found_wherever_it_stands(tmp_path: Path) -> None:
    save_read_times(tmp_path, "docs", ["a"], [], 100.0)
    whole = (tmp_path / FILE_NAME).read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            altered = bytearray(whole)
            altered[place] ^= 1 << bit
            (tmp_path / FILE_NAME).unlink()
            (tmp_path / FILE_NAME).write_bytes(altered)
            assert load_read_times(tmp_path) == {}


def test_runs_that_end_at_once_are_all_noted(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: save_read_times(tmp_path, f"c{number}", ["a"], [], float(number)), range(12)))
    assert oldest_read_times(tmp_path) == {f"c{number}": float(number) for number in range(12)}


def test_a_store_that_cannot_be_written_is_told_of_and_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).mkdir()
    save_read_times(tmp_path, "docs", ["a"], [], 1.0)
    save_read_times(tmp_path / "gone", "docs", ["a"], [], 1.0)
    assert [record.message.startswith("the times when sources were read") for record in caplog.records] == [True, True]
    assert not (tmp_path / "gone").exists()


def test_the_readers_of_a_source_are_noted_beside_its_time(tmp_path: Path) -> None:
    save_read_times(tmp_path, "docs", ["a", "b"], [], 100.0)
    save_read_times(tmp_path, "news", ["a"], [], 100.0)
    assert load_readers(tmp_path, "docs") == {"a": READER_VERSION, "b": READER_VERSION}
    save_read_times(tmp_path, "docs", [], ["b"], 200.0)
    assert load_readers(tmp_path, "docs") == {"b": READER_VERSION}
    assert load_readers(tmp_path, "other") == {}
    assert load_read_times(tmp_path).keys() == {"docs", "news"}
