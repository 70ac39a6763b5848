"""The log of requests and the program's own messages, `api/http/access_log.py`: whole lines, nothing of what callers
sent, nobody waits."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aidre.api.http import access_log
from aidre.api.http.access_log import (
    AccessLog,
    JsonFormatter,
    TextFormatter,
    configure_logging,
    trace_locations,
    utc_timestamp,
    write_lines,
)
from tests.support.clocks import WAIT_SECONDS

REQUEST: dict[str, Any] = {
    "identifier": "req_1",
    "method": "POST",
    "route": "/search",
    "status": 200,
    "code": None,
    "seconds": 0.0123456,
    "size": 512,
    "caller": "",
}


class Dropped:
    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, lines: int) -> None:
        self.lines += lines


def repeat(log: AccessLog, times: int) -> None:
    for _ in range(times):
        log.write(**REQUEST)


def written(use: Callable[[AccessLog], None], descriptor: int) -> int:
    """How many lines were dropped."""
    dropped = Dropped()

    async def run() -> None:
        log = AccessLog(descriptor, dropped, flush_seconds=0.0)
        use(log)
        await log.close()

    asyncio.run(run())
    return dropped.lines


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def lines_of(descriptor: int) -> list[dict[str, Any]]:
    content = os.pread(descriptor, 1 << 24, 0).decode()
    assert content.endswith("\n") or not content
    return [json.loads(line) for line in content.splitlines()]


async def has_lines(descriptor: int, count: int) -> None:
    """Waits for the thread that writes."""
    async with asyncio.timeout(WAIT_SECONDS):
        while len(lines_of(descriptor)) < count:
            await asyncio.sleep(0.001)


def test_a_request_is_one_line(file: int) -> None:
    def use(log: AccessLog) -> None:
        log.write(**REQUEST)
        log.write(**REQUEST | {"caller": "partner", "status": 404, "code": "not_found"})

    assert written(use, file) == 0
    first, second = lines_of(file)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "request_id": "req_1",
        "method": "POST",
        "route": "/search",
        "status": 200,
        "code": None,
        "ms": 12.346,
        "bytes": 512,
        "caller": None,
    }
    assert (second["caller"], second["status"], second["code"]) == ("partner", 404, "not_found")


def test_a_method_of_the_callers_own_making_is_not_repeated(file: int) -> None:
    written(lambda log: log.write(**REQUEST | {"method": "alice@example.com"}), file)
    assert [line["method"] for line in lines_of(file)] == ["other"]


def test_many_who_are_turned_away_are_one_line_at_a_time(monkeypatch: pytest.MonkeyPatch, file: int) -> None:
    monkeypatch.setattr(access_log, "REJECTED_SECONDS", 0.0)

    async def run() -> None:
        log = AccessLog(file, Dropped(), flush_seconds=0.0)
        for number in range(2):
            for _ in range(500 + number):
                log.count_rejected()
            await has_lines(file, number + 1)
        log.count_rejected()
        await log.close()

    asyncio.run(run())
    assert [(line["level"], line["turned_away"]) for line in lines_of(file)] == [
        ("warning", 500),
        ("warning", 501),
        ("warning", 1),
    ]


def test_lines_are_written_by_and_by(file: int) -> None:
    async def run() -> None:
        log = AccessLog(file, Dropped(), flush_seconds=0.0)
        for number in range(3):
            log.write(**REQUEST | {"status": number})
            await has_lines(file, number + 1)
        await log.close()

    asyncio.run(run())
    assert [line["status"] for line in lines_of(file)] == [0, 1, 2]


def test_pieces_are_whole_lines_that_a_pipe_takes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[bytes] = []

    def write(descriptor: int, piece: bytes) -> int:
        pieces.append(piece)
        return len(piece)

    monkeypatch.setattr(os, "write", write)
    lines = [b"%04d" % number + b"x" * (number % 300) + b"\n" for number in range(500)]
    assert write_lines(1, lines) == 0
    assert b"".join(pieces) == b"".join(lines)
    assert all(len(piece) <= 4_096 and piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 30


def test_what_is_written_in_part_is_written_to_its_end(monkeypatch: pytest.MonkeyPatch, file: int) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, piece: write(descriptor, piece[:7]))
    assert write_lines(file, [b'{"a":1234567}\n'] * 3) == 0
    assert lines_of(file) == [{"a": 1_234_567}] * 3


def test_a_reader_that_does_not_read_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "WRITE_MILLISECONDS", 1)
    read, write = os.pipe()
    taken = written(lambda log: repeat(log, 3_000), write)
    content = os.read(read, 1 << 20)
    os.close(write)
    os.close(read)
    assert content.endswith(b"}\n")
    assert content.count(b"\n") + taken == 3_000
    assert taken > 2_000


def test_a_reader_that_is_gone_stops_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    assert written(lambda log: log.write(**REQUEST), write) == 1
    os.close(write)


def test_no_more_lines_wait_than_memory_was_meant_for(monkeypatch: pytest.MonkeyPatch, file: int) -> None:
    monkeypatch.setattr(access_log, "MAX_PENDING_LINES", 10)
    assert written(lambda log: repeat(log, 25), file) == 15
    assert len(lines_of(file)) == 10


def test_times_are_rfc_3339() -> None:
    assert utc_timestamp(1_790_000_000.0) == "2026-09-21T14:13:20.000Z"
    assert utc_timestamp(1_790_000_000.9996) == "2026-09-21T14:13:20.999Z"


# -- messages --------------------------------------------------------------------------------------------------------


def record_of(message: str, *arguments: object, broken: bool = False) -> logging.LogRecord:
    trouble = None
    if broken:
        try:
            raise ValueError("what alice@example.com had asked")
        except ValueError as error:
            trouble = (type(error), error, error.__traceback__)
    return logging.LogRecord("aidre", logging.ERROR, __file__, 1, message, arguments, trouble)


def test_messages_are_json_on_request() -> None:
    said = json.loads(JsonFormatter().format(record_of("collection %s cannot be opened", "do\ncs")))
    assert said.pop("time").endswith("Z")
    assert said == {"level": "error", "message": "collection do\ncs cannot be opened"}
    assert "\n" not in JsonFormatter().format(record_of("two\nlines"))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_of_a_defect_its_kind_and_place_are_written_and_not_its_message(formatter: logging.Formatter) -> None:
    said = formatter.format(record_of("request %s failed\n", "req_1", broken=True))
    assert "ValueError" in said
    assert re.search(r"http/test_access_log\.py:\d+ record_of", said)
    assert "alice" not in said
    assert "\n" not in said


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_what_asyncio_shows_of_a_task_that_failed_is_not_written(formatter: logging.Formatter) -> None:
    class Keeper(logging.Handler):
        lines: ClassVar[list[str]] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.lines.append(formatter.format(record))

    async def fail() -> None:
        raise ValueError("what a caller asked")

    async def forget() -> None:
        task = asyncio.create_task(fail(), name="secret")
        await asyncio.sleep(0)
        del task

    keeper = Keeper()
    logging.getLogger("asyncio").addHandler(keeper)
    try:
        asyncio.run(forget())
        gc.collect(1)
    finally:
        logging.getLogger("asyncio").removeHandler(keeper)
    [line] = keeper.lines
    assert "Task exception was never retrieved" in line
    assert "ValueError" in line
    assert "asked" not in line


def test_a_message_for_people_is_one_line_without_control_characters() -> None:
    assert TextFormatter().format(record_of("a\x1b[31m%s", "b\r\nc")) == "a [31mb  c"


def test_a_place_has_no_path_of_the_machine() -> None:
    with pytest.raises(ValueError) as raised:
        int("what was sent")
    [place] = trace_locations(raised.value.__traceback__)
    assert re.fullmatch(r"http/test_access_log\.py:\d+ test_a_place_has_no_path_of_the_machine", place)
    assert trace_locations(None) == []


@pytest.fixture
def loggers() -> Iterator[None]:
    found = [logging.getLogger(name) for name in ("aidre", "uvicorn", "uvicorn.error", "asyncio")]
    former = [(logger.handlers, logger.propagate, logger.level) for logger in found]
    found[2].setLevel(logging.NOTSET)  # tests that run uvicorn in this process silence it
    yield
    for logger, (handlers, propagate, level) in zip(found, former, strict=True):
        logger.handlers, logger.propagate, logger.level = handlers, propagate, level


@pytest.mark.parametrize(("structured", "expected"), [(True, '"message":"it is so"'), (False, "it is so\n")])
def test_the_program_speaks_on_standard_error(
    loggers: None, capsys: pytest.CaptureFixture[str], structured: bool, expected: str
) -> None:
    configure_logging(structured)
    logging.getLogger("uvicorn.error").error("it is %s", "so")
    said = capsys.readouterr()
    assert expected in said.err
    assert said.out == ""


def test_the_operator_can_ask_for_all_of_a_defect(
    loggers: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIDRE_TRACEBACK", "1")
    configure_logging(True)
    logging.getLogger("aidre").handle(record_of("failed", broken=True))
    assert "ValueError: what alice@example.com had asked" in capsys.readouterr().err
