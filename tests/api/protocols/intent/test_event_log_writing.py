"""Writing to the event log: the bytes of its segments, beside other writers, after torn lines and removed segments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.api.protocols.intent.event_log import EventLog, encode_line
from aidre.engine.storage import durable


def line(number: int) -> bytes:
    return encode_line({"n": number})


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[EventLog, EventLog]]:
    """Two writers of one folder."""
    both = EventLog(tmp_path / "events"), EventLog(tmp_path / "events")
    yield both
    for log in both:
        log.close()


def content(log: EventLog, segment: int = 1) -> bytes:
    return (log.folder / f"{segment:06d}.jsonl").read_bytes()


def test_writers_that_take_turns_leave_whole_lines_and_nothing_else(logs: tuple[EventLog, EventLog]) -> None:
    for number in (0, 0, 1, 1, 0, 1):
        logs[number].append([line(number), line(number)])
    assert content(logs[0]) == b"".join(line(number) * 2 for number in (0, 0, 1, 1, 0, 1))


@pytest.mark.parametrize("torn", [b"{", b'{"n": 1, "te', line(1)[:-1]])
def test_a_torn_line_is_ended_once(logs: tuple[EventLog, EventLog], torn: bytes) -> None:
    log, _ = logs
    log.append([line(0)])
    with (log.folder / "000001.jsonl").open("ab") as file:
        file.write(torn)
    log.append([line(2)])
    log.append([line(3)])
    assert content(log) == line(0) + torn + b"\n" + line(2) + line(3)


def test_a_write_that_the_system_cuts_short_is_continued(
    logs: tuple[EventLog, EventLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    logs[0].append([line(0), line(1)])
    assert content(logs[0]) == line(0) + line(1)


def test_a_log_whose_first_segments_were_removed_goes_on_with_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "000007.jsonl").write_bytes(line(0))
    log = EventLog(folder)
    log.append([line(1)])
    log.close()
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["000007.jsonl"]
    assert content(log, 7) == line(0) + line(1)


def test_what_is_appended_is_synced_and_so_is_the_name_of_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync, fdatasync = os.fsync, os.fdatasync

    def recorded(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path.name)
        (fsync if path.is_dir() else fdatasync)(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(os, "fdatasync", recorded)
    durable.make_folder(tmp_path / "events")
    log = EventLog(tmp_path / "events", segment_bytes=len(line(0)))
    synced.clear()
    log.append([line(0)])
    assert synced == ["events", "000001.jsonl"]
    synced.clear()
    log.append([line(1)])
    assert synced == ["000001.jsonl", "events", "000002.jsonl"], "a full segment for the last time"
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    log.append([line(2)])
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert [stat.st_mode & 0o777 for stat in map(Path.stat, sorted(log.folder.glob("*.jsonl")))] == [
        0o400,
        0o400,
        0o600,
    ]
    log.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors - 2
