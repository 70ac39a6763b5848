"""OCR by tesseract: what of its words is text, what is said where it lacks, and the walls around a program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import orjson
import pytest

from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.ingest.sandbox import tesseract
from aidre.ingest.sandbox.program import LACKS_WALLS
from aidre.ingest.sandbox.tesseract import Recogniser, Tesseract, find_tesseract, recogniser, to_text
from aidre.ingest.sandbox.walls import available

walled = pytest.mark.skipif(not available().are_whole, reason="this system has not both walls")
BLANK = b"P5 40 40 255\n" + b"\xff" * 1600
INSTALLED = Tesseract("/opt/ocr/tesseract", "/opt/ocr/data", frozenset({"eng", "fra"}))


def row(place: tuple[int, int, int, int], confidence: float, text: str) -> str:
    return "\t".join(map(str, (5, 1, *place, 0, 0, 9, 9, confidence, text)))


def test_words_become_lines_and_paragraphs() -> None:
    rows = [
        "level\tpage_num\tblock_num",
        "4\t1\t1\t1\t1\t0\t0\t0\t9\t9\t-1\t",
        row((1, 1, 1, 1), 96.5, "the"),
        row((1, 1, 1, 2), 91, "crane"),
        row((1, 1, 2, 1), 90, "at quay"),
        row((1, 2, 1, 1), 95, "seven"),
        row((2, 1, 1, 1), 95, "ships"),
    ]
    assert to_text(rows) == "the crane\nat quay\n\nseven\n\nships"


def test_lines_and_words_of_little_confidence_are_left_out() -> None:
    rows = [
        row((1, 1, 1, 1), 30, "~|"),
        row((1, 1, 1, 2), 40, "%"),
        row((2, 1, 1, 1), 95, "a"),
        row((2, 1, 1, 2), 96, "b"),
    ]
    assert to_text([*rows, row((2, 1, 1, 3), 10, "~")]) == "a b"


def test_rows_that_are_no_words_are_passed_over() -> None:
    broken = ["", "5\t1", row((1, 1, 1, 1), 90, " "), row((1, 1, 1, 1), 90, "a").replace("90", "x")]
    assert to_text(broken) == ""


def test_where_tesseract_is_not_installed_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    recogniser.cache_clear()
    with pytest.raises(ConfigurationError, match=r"OCR needs the program tesseract .*: apt-get install tesseract-ocr"):
        recogniser("eng")


def test_a_language_that_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tesseract, "find_tesseract", lambda: INSTALLED)
    recogniser.cache_clear()
    with pytest.raises(ConfigurationError, match="tesseract lacks 'deu' and has eng, fra: install its data"):
        recogniser("eng+deu")
    assert recogniser("eng+fra").languages == "eng+fra"
    recogniser.cache_clear()


@pytest.mark.parametrize("place", [' in "/opt/data/"', ""])
@pytest.mark.process
def test_its_languages_are_those_that_it_lists(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tesseract"
    program.write_text(f"#!/bin/sh\ncat <<'end'\nList of available languages{place} (3):\neng\nosd\nfra\nend\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TESSDATA_PREFIX", "/opt/data/")
    assert find_tesseract() == Tesseract(str(program), "/opt/data/", frozenset({"eng", "fra"}))


def test_what_is_no_image_never_reaches_the_program() -> None:
    read = Recogniser(INSTALLED, "eng").read
    for image in (b"", b"P5 2 2 255\n123", b"P6 1 1 255\n123", b"\x89PNG"):
        with pytest.raises(InvalidDocument, match="gave an invalid image"):
            read(image)


@pytest.mark.process
def test_a_program_that_fails_is_named_by_its_status() -> None:
    false = Tesseract(shutil.which("false") or "/bin/false", "/usr/share/zoneinfo", frozenset({"eng"}))
    with pytest.raises(InvalidDocument, match="tesseract ended with status 1"):
        Recogniser(false, "eng").read(BLANK)


@pytest.mark.process
def test_the_working_folder_gives_no_module_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orjson.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    false = Tesseract(shutil.which("false") or "/bin/false", "/usr/share/zoneinfo", frozenset({"eng"}))
    with pytest.raises(InvalidDocument, match="tesseract ended with status 1"):
        Recogniser(false, "eng").read(BLANK)
    assert [each.name for each in tmp_path.iterdir()] == ["orjson.py"]


@pytest.mark.process
def test_the_program_has_no_secret_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, python = tmp_path / "environment", tmp_path / "python"
    python.write_text(f"#!/bin/sh\nenv > '{shown}'\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("AIDRE_SECRET", "s3cr3t")
    with pytest.raises(InvalidDocument, match="ended with status 3"):
        Recogniser(INSTALLED, "eng").read(BLANK)
    names = {line.partition("=")[0] for line in shown.read_text().splitlines()}
    assert "PATH" in names
    assert "AIDRE_SECRET" not in names


@walled
@pytest.mark.process
def test_a_program_that_takes_too_long_or_says_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recogniser, "_request", lambda self: python("while True: print('word ' * 1000)"))
    reader = Recogniser(INSTALLED, "eng")
    with pytest.raises(InvalidDocument, match="gives more words than a page has"):
        reader.read(BLANK)
    monkeypatch.setattr(tesseract, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(tesseract, "START_SECONDS", 0.0)
    with pytest.raises(InvalidDocument, match="took longer than 0 s"):
        reader.read(BLANK)


def test_an_image_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def run(self: Recogniser, image: bytes) -> bytes:
        asked.append(image)
        return row((1, 1, 1, 1), 90, "once").encode()

    monkeypatch.setattr(Recogniser, "_run", run)
    reader = Recogniser(INSTALLED, "eng")
    assert [reader.read(BLANK), reader.read(BLANK)] == ["once", "once"]
    assert asked == [BLANK]


TRIES = {
    "reads a file": "open({secret!r}).read()",
    "lists a folder": "import os; os.listdir({folder!r})",
    "writes a file": "open({new!r}, 'w')",
    "deletes a file": "import os; os.unlink({secret!r})",
    "opens a socket": "import socket; socket.socket()",
    "runs a shell": "import os; os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "forks": "import os; os.fork()",
    "takes memory": "bytes(1 << 30)",
}


def python(code: str) -> str:
    """A request for Python with some code, as the program behind the walls: its data are its library."""
    file = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    request = {
        "file": file, "data": sysconfig.get_path("stdlib"), "memory": 1 << 29, "seconds": 20, "walls": True,
        "arguments": [file, "-I", "-S", "-c", code], "environment": {},
    }  # fmt: skip
    return orjson.dumps(request).decode()


def status_behind_walls(code: str) -> int:
    command = [sys.executable, "-m", "aidre.ingest.sandbox.program", python(code)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode


@walled
@pytest.mark.process
@pytest.mark.parametrize("name", TRIES)
def test_behind_the_walls_a_program_cannot_do_what_it_has_no_need_of(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = TRIES[name].format(secret=str(secret), folder=str(tmp_path), new=str(tmp_path / "new"))
    assert status_behind_walls(code) not in {0, LACKS_WALLS}
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


@walled
@pytest.mark.process
def test_behind_the_walls_a_program_runs() -> None:
    assert status_behind_walls("import json; raise SystemExit(5)") == 5


@pytest.mark.process
def test_required_walls_that_do_not_stand_keep_a_program_from_starting() -> None:
    without = (
        "from aidre.ingest.sandbox import program as p, walls; p.raise_walls = lambda one: walls.Walls(); p.main()"
    )
    request = orjson.dumps({"file": "/bin/true", "data": "/", "walls": True}).decode()
    ended = subprocess.run([sys.executable, "-c", without, request], check=False)
    assert ended.returncode == LACKS_WALLS
