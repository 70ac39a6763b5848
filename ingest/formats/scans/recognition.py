"""Pages that are pictures: the sandbox decodes them, tesseract reads them (OCR), where the file asks for it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.records import File, note
from aidre.ingest.sandbox import SHARED, recogniser

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})

MAX_SCANNED_PAGES = 2_000
"""Of one document: an hour, at two seconds a page."""

MAX_SCANNED_CHARACTERS = 8 << 20
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
    scanned = _scan_pages(file, content, pictures[:MAX_SCANNED_PAGES], file.ocr)
    if not scanned:
        return answer | {"notice": "no text: OCR found none"}
    return SHARED.parse("pdf", content, options | {"scanned": {str(page): text for page, text in scanned.items()}})


def ask_image(file: File, content: bytes, options: dict[str, Json]) -> Json:
    """The text of an image, or of the pages of a TIFF file. Raises InvalidDocument where none can be decoded."""
    assert file.ocr is not None
    texts: list[str] = []
    try:
        for text in _read_all(SHARED.stream("image", content), file.ocr):
            if isinstance(text, InvalidDocument):
                raise text
            texts.append(text)
    except InvalidDocument as error:
        if not texts:
            raise
        note(file, f"page {len(texts) + 1} and those after it are not read: it {error.message}")
    return SHARED.parse("scan", b"", {"pages": texts})


def _scan_pages(file: File, content: bytes, pages: Sequence[int], languages: str) -> dict[int, str]:
    """The texts of pages by index, without those on which there is none. A page that fails is noted."""
    found: dict[int, str] = {}
    left, failures = list(pages), 0
    room = MAX_SCANNED_CHARACTERS
    while left and failures < _MAX_FAILURES:
        try:
            for text in _read_all(SHARED.stream("pdf pages", content, {"pages": left[:]}), languages):
                page = left.pop(0)
                if isinstance(text, InvalidDocument):
                    note(file, f"page {page + 1} has no text: it {text.message}")
                elif text and (room := room - len(text)) > 0:
                    found[page] = text
            break
        except InvalidDocument as error:
            failures += 1
            note(file, f"page {left.pop(0) + 1} has no text: it {error.message}")
    return found


def _read_all(images: Iterator[memoryview[int]], languages: str) -> Iterator[str | InvalidDocument]:
    """The text of each image, or why it has none; several are read at once. Raises InvalidDocument of the parser,
    after the texts of the images before."""
    waiting: deque[Future[str]] = deque()
    parallel = min(_MAX_PARALLEL, os.cpu_count() or 1)
    fault: InvalidDocument | None = None
    with ThreadPoolExecutor(parallel) as pool:
        try:
            for image in images:
                waiting.append(pool.submit(_read, bytes(image), languages))
                if len(waiting) > parallel:
                    yield _outcome(waiting.popleft())
        except InvalidDocument as error:
            fault = error
        while waiting:
            yield _outcome(waiting.popleft())
    if fault is not None:
        raise fault


def _read(image: bytes, languages: str) -> str:
    if not image:
        raise InvalidDocument("cannot be drawn")
    return recogniser(languages).read(image)


def _outcome(future: Future[str]) -> str | InvalidDocument:
    try:
        return future.result()
    except InvalidDocument as error:
        return error
