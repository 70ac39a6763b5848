"""The event log: rotation, torn lines, full disks, several processes, and what of it is missing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aidre.api.protocols.intent.event_log import EventLog, encode_line, missing_lines, newest_segment, read_events
from aidre.engine.errors import StorageFailed
from tests.support.clocks import WAIT_SECONDS


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = EventLog(tmp_path / "events", segment_bytes=200)
    yield opened
    opened.close()


def numbers(folder: Path) -> list[int]:
    return [event["n"] for event in read_events(folder)]


def test_lines_come_back_in_order_over_segments(log: EventLog) -> None:
    for n in range(100):
        log.append([encode_line({"n": n, "text": "ü\n\u2028"})])
    assert numbers(log.folder) == list(range(100))
    segments = sorted(log.folder.glob("*.jsonl"))
    assert len(segments) > 5
    assert newest_segment(log.folder) == len(segments)
    assert all(path.stat().st_size <= 300 for path in segments)
    assert {stat.S_IMODE(path.stat().st_mode) for path in segments[:-1]} == {0o400}
    assert stat.S_IMODE(segments[-1].stat().st_mode) == 0o600


def test_full_segments_never_change_again(log: EventLog) -> None:
    for n in range(40):
        log.append([encode_line({"n": n})])
    before = {path: path.read_bytes() for path in sorted(log.folder.glob("*.jsonl"))[:-1]}
    for n in range(40, 80):
        log.append([encode_line({"n": n})])
    assert all(path.read_bytes() == content for path, content in before.items())


def test_a_log_is_gone_on_with_after_a_restart(log: EventLog) -> None:
    log.append([encode_line({"n": 0})])
    again = EventLog(log.folder, segment_bytes=200)
    again.append([encode_line({"n": 1})])
    log.append([encode_line({"n": 2})])
    again.close()
    assert numbers(log.folder) == [0, 1, 2]


def test_a_torn_line_costs_no_other(log: EventLog) -> None:
    log.append([encode_line({"n": 0})])
    [segment] = log.folder.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"n": 1, "te')
    log.append([encode_line({"n": 2}), encode_line({"n": 3})])
    assert numbers(log.folder) == [0, 2, 3]


def test_a_full_disk_leaves_no_part_of_a_line(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([encode_line({"n": 0})])
    [segment] = log.folder.glob("*.jsonl")
    before, write, calls = segment.read_bytes(), os.write, [0]

    def full(descriptor: int, content: bytes) -> int:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:9])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailed, match="No space left"):
        log.append([encode_line({"n": 1}), encode_line({"n": 2})])
    monkeypatch.undo()
    assert segment.read_bytes() == before
    log.append([encode_line({"n": 3})])
    assert numbers(log.folder) == [0, 3]


def test_after_a_failed_fsync_another_segment_is_begun(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(StorageFailed):
        log.append([encode_line({"n": 0})])
    monkeypatch.undo()
    log.append([encode_line({"n": 1})])
    assert newest_segment(log.folder) == 2
    assert numbers(log.folder) == [0, 1]


PROGRAM = """
import sys
from pathlib import Path
from aidre.api.protocols.intent.event_log import EventLog, encode_line
log = EventLog(Path(sys.argv[1]), segment_bytes=500)
print("ready", flush=True)
sys.stdin.readline()
for n in range(100):
    log.append([encode_line({"writer": int(sys.argv[2]), "n": n})])
"""


@pytest.mark.process
def test_several_processes_share_a_log(tmp_path: Path) -> None:
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", PROGRAM, str(tmp_path), str(writer)] for writer in range(3)]
        writers = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for command in commands
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        for writer in writers:  # all begin together
            assert writer.stdin is not None
            writer.stdin.close()
        assert [writer.wait(WAIT_SECONDS) for writer in writers] == [0, 0, 0]
    events = list(read_events(tmp_path))
    for number in range(3):
        assert [event["n"] for event in events if event["writer"] == number] == list(range(100))
    assert newest_segment(tmp_path) > 5


def test_lines_that_are_no_objects_are_no_events(tmp_path: Path) -> None:
    (tmp_path / "000001.jsonl").write_bytes(b'5\n"x"\n\n\xff\n{"n": 1}\n')
    (tmp_path / "notes.jsonl").write_bytes(b'{"n": 2}\n')
    assert numbers(tmp_path) == [1]
    assert list(read_events(tmp_path / "absent")) == []


def test_what_is_missing_in_a_log_is_found_over_its_segments(log: EventLog) -> None:
    lines = [encode_line({"n": n}) for n in range(60)]
    for line in lines[:50]:
        log.append([line])
    assert newest_segment(log.folder) > 2
    assert missing_lines(log.folder, lines, 1) == lines[50:]
    assert missing_lines(log.folder, [lines[0], lines[59]], 2) == [lines[0], lines[59]]


def test_a_line_is_one_line_of_json() -> None:
    line = encode_line({"a": "x\ny\u2028z"})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"a": "x\ny\u2028z"}
