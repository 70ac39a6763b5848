"""Pages that are pictures: the sandbox decodes them, tesseract reads them (OCR), where the file asks for it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.records import File, note
from aidre.ingest.sandbox import SHARED, recogniser

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})

MAX_SCANNED_PAGES = 2_000
"""Pages of one document."""

MAX_SCANNED_CHARACTERS = 8 << 20
MAX_DOCUMENT_SECONDS = 1_800.0
"""Wall-clock seconds of one document; the pages in progress are finished then, and the others left out."""

_MAX_FAILURES = 3
"""Pages that end the parser that draws them; then the others stay unread."""

_MAX_PARALLEL = 8
"""Processes of tesseract, each with a page of up to 12 MB and about 150 MB of its own."""


def ask_pdf(file: File, content: bytes, options: dict[str, Json]) -> Json:
    """The parser's answer about a PDF, with the text of pages that are pictures where `file.ocr` names a language."""
    answer = SHARED.parse("pdf", content, options)
    pictures = answer.get("pictures") if type(answer) is dict else None
    if file.ocr is None or type(pictures) is not list or not pictures:
        return answer
    if any(type(page) is not int for page in pictures):
        raise InvalidDocument("cannot be read: its parser answered with pages that make no sense")
    if len(pictures) > MAX_SCANNED_PAGES:
        note(file, f"OCR reads the first {MAX_SCANNED_PAGES:,} pages without text, and this has more: split it")
    scanned, left = _scan_pages(file, content, pictures[:MAX_SCANNED_PAGES], file.ocr)
    unread = left + max(0, len(pictures) - MAX_SCANNED_PAGES)
    if not scanned:
        return answer | {"notice": "no text: OCR found none" + (" on the pages that it read" if unread else "")}
    texts = {str(page): text for page, text in scanned.items()}
    return SHARED.parse("pdf", content, options | {"scanned": texts, "unread": unread})


def ask_image(file: File, content: bytes, options: dict[str, Json]) -> Json:
    """The text of an image, or of the pages of a TIFF file. Raises InvalidDocument where none can be decoded."""
    assert file.ocr is not None
    texts: list[str] = []
    room = _Room()
    try:
        for text in _read_all(SHARED.stream("image", content), file.ocr, room):
            if isinstance(text, InvalidDocument):
                raise text
            if not room.takes(text):
                break
            texts.append(text)
        if room.end is not None:
            raise InvalidDocument(room.end)
    except InvalidDocument as error:
        if not texts:
            raise
        note(file, f"page {len(texts) + 1} and those after it are not read: it {error.message}")
    return SHARED.parse("scan", b"", {"pages": texts})


class _Room:
    """What one document may still take. `end` says why nothing more is read of it."""

    def __init__(self) -> None:
        self.end: str | None = None
        self._pages, self._characters = MAX_SCANNED_PAGES, MAX_SCANNED_CHARACTERS
        self._deadline = monotonic() + MAX_DOCUMENT_SECONDS

    def takes(self, text: str) -> bool:
        """Whether there is room for a further page with this text."""
        self._pages -= 1
        self._characters -= len(text)
        if self._pages < 0:
            self.end = f"has more than {MAX_SCANNED_PAGES:,} pages: split it"
        elif self._characters < 0:
            self.end = f"has more than {MAX_SCANNED_CHARACTERS:,} characters: split it"
        return self.end is None

    def is_late(self) -> bool:
        """Whether there is no time for a further page."""
        if self.end is None and monotonic() > self._deadline:
            self.end = f"takes longer than {MAX_DOCUMENT_SECONDS / 60:g} minutes to recognise: split it"
        return self.end is not None


def _scan_pages(file: File, content: bytes, pages: Sequence[int], languages: str) -> tuple[dict[int, str], int]:
    """The texts of pages by index, without those on which there is none, and how many pages are not read. A page that
    fails is noted, and so are those that are not read."""
    found: dict[int, str] = {}
    left, failures = list(pages), 0
    room = _Room()
    while left and failures < _MAX_FAILURES:
        try:
            for text in _read_all(SHARED.stream("pdf pages", content, {"pages": left[:]}), languages, room):
                if not left or not (isinstance(text, InvalidDocument) or room.takes(text)):
                    break
                page = left.pop(0)
                if isinstance(text, InvalidDocument):
                    note(file, f"page {page + 1} has no text: it {text.message}")
                elif text:
                    found[page] = text
            break
        except InvalidDocument as error:
            if not left:
                break  # the parser ended after its last page
            failures += 1
            note(file, f"page {left.pop(0) + 1} has no text: it {error.message}")
    if left:
        ended = f"ended its parser {failures} times" if failures == _MAX_FAILURES else "got no more pages of its parser"
        note(file, f"OCR leaves out {len(left):,} pages, from page {left[0] + 1} on: it {room.end or ended}")
    return found, len(left)


def _read_all(images: Iterator[memoryview[int]], languages: str, room: _Room) -> Iterator[str | InvalidDocument]:
    """The text of each image, or why it has none, as long as there is time; several are read at once. Raises
    InvalidDocument of the parser, after the texts of the images before."""
    waiting: deque[Future[str]] = deque()
    parallel = min(_MAX_PARALLEL, os.cpu_count() or 1)
    fault: InvalidDocument | None = None
    with ThreadPoolExecutor(parallel) as pool, _cancelling(waiting):
        try:
            for image in images:
                if room.is_late():
                    break
                waiting.append(pool.submit(_read, bytes(image), languages))
                if len(waiting) > parallel:
                    yield _outcome(waiting.popleft())
        except InvalidDocument as error:
            fault = error
        while waiting and (waiting[0].done() or not room.is_late()):
            yield _outcome(waiting.popleft())
    if fault is not None and room.end is None:
        raise fault


@contextmanager
def _cancelling(waiting: Iterable[Future[str]]) -> Iterator[None]:
    """Nobody waits for images that no reader takes any more."""
    try:
        yield
    finally:
        for future in waiting:
            future.cancel()


def _read(image: bytes, languages: str) -> str:
    if not image:
        raise InvalidDocument("cannot be drawn")
    return recogniser(languages).read(image)


def _outcome(future: Future[str]) -> str | InvalidDocument:
    try:
        return future.result()
    except InvalidDocument as error:
        return error
