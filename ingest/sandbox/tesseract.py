"""Text of images (OCR) by the program tesseract, each in a process of its own behind walls (`program`).

It gets nothing but gray pixels that a parser of the sandbox has decoded, and starts only where OCR is asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from time import monotonic
from typing import NamedTuple

import orjson

from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.ingest.sandbox.parent import SHARED, START_SECONDS, reduced_environment
from aidre.ingest.sandbox.program import LACKS_WALLS

MAX_SECONDS = 90.0
"""Seconds for one image, by wall clock and by processor time."""

MAX_MEMORY = 1 << 30
MAX_ANSWER_BYTES = 4 << 20
"""Largest output for one image (words with their places); a newspaper page has 300 KB."""

MIN_CONFIDENCE = 60.0
"""Percent, on average over a line: below are the lines that tesseract sees in photographs and drawings."""

MIN_WORD_CONFIDENCE = 20.0
_ASK_SECONDS = 20.0
_MAX_KEPT_CHARACTERS = 32 << 20
_IMAGE = re.compile(rb"P5 (\d{1,5}) (\d{1,5}) 255\n")
_FOLDER = re.compile(r'"(/[^"\n]+)"')
_WORD, _COLUMNS = "5", 12
_INSTALL = "apt-get install tesseract-ocr, or brew install tesseract"


class Tesseract(NamedTuple):
    """The installed program, the folder of its languages, and their names."""

    file: str
    data: str
    languages: frozenset[str]


def find_tesseract() -> Tesseract | None:
    """The program as it is installed; None where it is not, or does not answer."""
    file = shutil.which("tesseract")
    if file is None:
        return None
    try:
        process = subprocess.run(
            [file, "--list-langs"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    head, *names = (process.stdout + process.stderr).decode("utf-8", "replace").splitlines() or [""]
    folder = _FOLDER.search(head)
    data = folder[1] if folder is not None else os.environ.get("TESSDATA_PREFIX", "")
    return Tesseract(file, data, frozenset(map(str.strip, names)) - {"osd", ""}) if data else None


@lru_cache(maxsize=8)
def recogniser(languages: str) -> Recogniser:
    """What reads images in some languages ("eng", "deu+eng"). Raises ConfigurationError where it is not installed."""
    found = find_tesseract()
    if found is None:
        raise ConfigurationError(f"OCR needs the program tesseract (5 or later), which is not installed: {_INSTALL}")
    for language in languages.split("+"):
        if language not in found.languages:
            known = ", ".join(sorted(found.languages)) or "none"
            raise ConfigurationError(
                f"sources.ocr_languages: tesseract lacks {language!r} and has {known}: install its data, as in "
                "apt-get install tesseract-ocr-deu"
            )
    return Recogniser(found, languages)


@dataclass(slots=True)
class Recogniser:
    """Reads images in some languages. Texts are kept by the hash of their image, so that `aidre watch` reads each once;
    shared by threads."""

    program: Tesseract
    languages: str
    _kept: dict[bytes, str] = field(default_factory=dict)
    _kept_characters: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, image: bytes) -> str:
        """The text of a gray image (PGM): lines, with blank lines between paragraphs. Raises InvalidDocument."""
        size = _IMAGE.match(image)
        if size is None or int(size[1]) * int(size[2]) != len(image) - size.end():
            raise InvalidDocument("cannot be read: its parser gave an invalid image")
        key = hashlib.sha256(image).digest()
        text = self._kept.get(key)
        if text is None:
            text = to_text(self._run(image).decode("utf-8", "replace").splitlines())
            with self._lock:
                if self._kept_characters > _MAX_KEPT_CHARACTERS:
                    self._kept.clear()
                    self._kept_characters = 0
                self._kept[key] = text
                self._kept_characters += len(text) + len(key)
        return text

    def _run(self, image: bytes) -> bytes:
        """The words of an image as tesseract writes them. Raises InvalidDocument."""
        with tempfile.TemporaryFile() as stream:
            stream.write(image)
            stream.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aidre.ingest.sandbox.program", self._request()],
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=reduced_environment(),
            )
        with process:
            try:
                return _answer_of(process)
            finally:
                process.kill()

    def _request(self) -> str:
        file, data, _ = self.program
        arguments = [file, "stdin", "stdout", "--tessdata-dir", data, "-l", self.languages, "tsv"]
        # One thread: the threads of tesseract wait for each other more than they read.
        environment = {"OMP_THREAD_LIMIT": "1", "LC_ALL": "C"} | {
            name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ
        }
        limits = {"memory": MAX_MEMORY, "seconds": MAX_SECONDS, "walls": SHARED.requires_walls}
        request = {"file": file, "data": data, "arguments": arguments, "environment": environment, **limits}
        return orjson.dumps(request).decode()


def _answer_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    answer = bytearray()
    ends = monotonic() + START_SECONDS / 2 + MAX_SECONDS
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while poll.poll(max(0.0, ends - monotonic()) * 1000):
        block = os.read(process.stdout.fileno(), 1 << 16)
        answer += block
        if len(answer) > MAX_ANSWER_BYTES:
            raise InvalidDocument("gives more words than a page has")
        if not block:
            break
    else:
        raise InvalidDocument(f"took longer than {MAX_SECONDS:g} s to recognise")
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ASK_SECONDS)
    if process.returncode == LACKS_WALLS:
        raise InvalidDocument(
            'is not read: this system lacks a wall, and sources.sandbox is "required" (`aidre doctor` names the wall)'
        )
    if process.returncode != 0:
        raise InvalidDocument(f"cannot be recognised: tesseract ended with status {process.returncode}")
    return bytes(answer)


class _RecognisedWord(NamedTuple):
    paragraph: tuple[str, str]
    line: str
    confidence: float
    text: str


def to_text(rows: Iterable[str]) -> str:
    """The text of tesseract's table of words, without lines that it hardly trusts."""
    paragraphs = []
    for _, words in groupby(_words(rows), lambda word: word.paragraph):
        lines = []
        for _, line in groupby(words, lambda word: word.line):
            found = list(line)
            if sum(word.confidence for word in found) >= MIN_CONFIDENCE * len(found):
                lines.append(" ".join(word.text for word in found if word.confidence >= MIN_WORD_CONFIDENCE))
        if lines:
            paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def _words(rows: Iterable[str]) -> Iterator[_RecognisedWord]:
    for row in rows:
        cells = row.split("\t")
        if len(cells) != _COLUMNS or cells[0] != _WORD or not cells[-1].strip():
            continue
        with suppress(ValueError):
            yield _RecognisedWord((cells[2], cells[3]), cells[4], float(cells[10]), cells[11].strip())
