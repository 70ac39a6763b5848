"""Images and pages that are pictures, read by tesseract: their text, what fails alone, and what never asks for it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import ConfigurationError, InvalidDocument
from aidre.ingest.formats.scans import rasters, recognition
from aidre.ingest.sandbox import tesseract
from aidre.ingest.sandbox.parent import SHARED
from aidre.ingest.sandbox.tesseract import recogniser
from tests.ingest.formats.scans.test_rasters import bomb
from tests.support.documents import pdf
from tests.support.ingests import Bench
from tests.support.office import archive
from tests.support.programs import needs

images = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.process
LINES = ["The crane at quay seven was repaired", "in March and found to be in good order."]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    SHARED.close()


def page(*lines: str, size: tuple[int, int] = (1300, 500)) -> Any:
    """A picture of some lines."""
    from PIL import ImageDraw, ImageFont

    picture = images.new("L", size, 255)
    ImageDraw.Draw(picture).text((60, 60), "\n".join(lines), font=ImageFont.load_default(44), fill=0)
    return picture


def saved(picture: Any, kind: str, **options: Any) -> bytes:
    written = BytesIO()
    picture.save(written, kind, **options)
    return written.getvalue()


def joined(*documents: bytes) -> bytes:
    """The pages of some PDF files in one."""
    from pypdfium2 import PdfDocument

    whole = PdfDocument.new()
    for one in documents:
        whole.import_pages(PdfDocument(one))
    written = BytesIO()
    whole.save(written)
    return written.getvalue()


def fake(monkeypatch: pytest.MonkeyPatch, *texts: str | InvalidDocument) -> list[int]:
    """OCR that gives these texts in turn; the lengths of the images that it was asked for."""
    asked: list[int] = []
    given = iter(texts)

    def read(image: bytes, languages: str) -> str:
        asked.append(len(image))
        text = next(given)
        if isinstance(text, InvalidDocument):
            raise text
        return text

    monkeypatch.setattr(recognition, "_read", read)
    monkeypatch.setattr(recognition, "_MAX_PARALLEL", 1)
    monkeypatch.setattr("aidre.ingest.pipeline.ingest.recogniser", lambda languages: None)
    return asked


@needs("tesseract")
@pytest.mark.slow
def test_images_and_scanned_pages_are_read_where_it_is_asked_for(bench: Bench) -> None:
    picture = page(*LINES)
    second = page("Nine ships are waiting in the harbour.")
    bench.write("a.png", saved(picture, "PNG"))
    bench.write("b.tiff", saved(picture.convert("1"), "TIFF", save_all=True, append_images=[second.convert("1")]))
    bench.write("c.pdf", joined(pdf([["A page with a text."]]), saved(second, "PDF", resolution=150)))
    bench.write("d.webp", saved(picture.convert("RGB"), "WEBP"))
    bench.write("e.zip", archive({"f.jpg": saved(picture, "JPEG")}))
    assert bench.run().documents == 1
    assert "c.pdf: 1 page needs OCR (--ocr): of 2 pages they have no text" in bench.notices
    assert "docs: 3 files of other kinds skipped (.png 1, .tiff 1, .webp 1: --ocr)" in bench.notices
    summary = bench.run(ocr="eng")
    assert (summary.documents, summary.failed) == (5, 0), bench.problems
    text = " ".join(LINES)
    for name in ("a.png", "d.webp", "e.zip/f.jpg"):
        assert bench.text(f"docs/{name}#chunk_1").replace("\n", " ") == text
    assert "Nine ships are waiting" in bench.text("docs/b.tiff#chunk_2")
    assert "Nine ships are waiting in the harbour." in bench.text("docs/c.pdf#chunk_2")
    assert "c.pdf: OCR read 1 page" in bench.notices


@needs("tesseract")
@pytest.mark.slow
def test_noise_a_blank_and_drawings_have_no_text(bench: Bench) -> None:
    chance = random.Random(1)
    noise = images.frombytes("L", (400, 300), chance.randbytes(120_000))
    bench.write("blank.png", saved(images.new("L", (300, 200), 255), "PNG"))
    bench.write("dot.png", saved(images.new("L", (1, 1), 0), "PNG"))
    bench.write("noise.png", saved(noise, "PNG"))
    assert bench.run(ocr="eng").skipped == 3, bench.problems
    assert "blank.png: no text, skipped" in bench.notices


def test_hostile_images_fail_by_name_and_others_are_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    good = saved(page("a"), "PNG")
    fake(monkeypatch, "read")
    bench.write("bomb.png", bomb(60_000, 60_000))
    bench.write("cut.png", good[: len(good) // 2])
    bench.write("empty.jpg", b"")
    bench.write("script.webp", b"<script>")
    bench.write("z.png", good)
    summary = bench.run(ocr="eng")
    assert (summary.documents, summary.failed, summary.exit_status) == (1, 4, 1)
    assert "bomb.png: has 60000 x 60000 pixels, more than 64 million: make it smaller" in bench.problems
    assert all("\n" not in problem for problem in bench.problems)
    assert bench.text("docs/z.png#chunk_1") == "read"


def test_a_page_that_fails_keeps_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    blank = saved(images.new("L", (100, 100), 200), "PDF")
    bench.write("a.pdf", joined(pdf([["A page with a text."]]), blank, blank, blank))
    asked = fake(monkeypatch, "one", InvalidDocument("took too long"), "three")
    assert bench.run(ocr="eng").failed == 0
    assert len(asked) == 3
    found = [bench.text(f"docs/a.pdf#chunk_{number}") for number in (1, 2, 3)]
    assert found == ["A page with a text.", "one", "three"]
    assert "a.pdf: page 3 has no text: it took too long" in bench.notices
    assert "a.pdf: OCR read 2 pages, and found no text on 1 more" in bench.notices


def test_where_drawing_a_page_ends_the_parser_its_text_and_the_other_pages_stay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = saved(images.new("L", (100, 100), 200), "PDF")
    bench.write("a.pdf", joined(blank, blank, blank))
    fake(monkeypatch, "one", "three")
    draw, asked = SHARED.stream, []

    def stream(kind: str, content: bytes, options: dict[str, Any]) -> Iterator[memoryview]:
        asked.append(options["pages"])
        for number in options["pages"]:
            if number == 1:
                raise InvalidDocument("crashed its parser")
            yield from draw(kind, content, {"pages": [number]})

    monkeypatch.setattr(SHARED, "stream", stream)
    assert bench.run(ocr="eng").failed == 0
    assert asked == [[0, 1, 2], [2]]
    assert bench.text("docs/a.pdf#chunk_1") == "one"
    assert bench.text("docs/a.pdf#chunk_2") == "three"
    assert "a.pdf: page 2 has no text: it crashed its parser" in bench.notices


def test_pages_beyond_the_bound_are_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    blank = saved(images.new("L", (100, 100), 200), "PDF")
    bench.write("a.pdf", joined(blank, blank))
    monkeypatch.setattr(recognition, "MAX_SCANNED_PAGES", 1)
    asked = fake(monkeypatch, "one")
    bench.run(ocr="eng")
    assert len(asked) == 1
    assert "a.pdf: OCR reads the first 1 pages without text, and this has more: split it" in bench.notices


def streaming(monkeypatch: pytest.MonkeyPatch, parts: int, fault: str | None = None) -> None:
    """The parser gives some pages, whatever it is asked for, and then fails, where it does."""

    def stream(kind: str, content: bytes, options: object = None) -> Iterator[memoryview]:
        yield from [memoryview(b"page")] * parts
        if fault is not None:
            raise InvalidDocument(fault)

    monkeypatch.setattr(SHARED, "stream", stream)


def pictures(count: int) -> bytes:
    return joined(*[saved(images.new("L", (100, 100), 200), "PDF")] * count)


@pytest.mark.parametrize(("parts", "fault"), [(2, "crashed its parser"), (3, None), (9, None), (9, "crashed")])
def test_a_parser_that_ends_late_or_gives_more_pages_than_it_was_asked_for_ends_no_ingest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, parts: int, fault: str | None
) -> None:
    bench.write("a.pdf", pictures(2))
    bench.write("b.md", "text")
    fake(monkeypatch, *map(str, range(parts)))
    streaming(monkeypatch, parts, fault)
    summary = bench.run(ocr="eng")
    assert (summary.documents, summary.failed) == (2, 0), bench.problems
    assert bench.text("docs/a.pdf#chunk_2") == "1"
    assert "a.pdf: OCR read 2 pages" in bench.notices


@pytest.mark.parametrize(
    ("parts", "fault", "why"),
    [
        (1, None, "OCR leaves out 4 pages, from page 2 on: it got no more pages of its parser"),
        (0, "fails", "OCR leaves out 2 pages, from page 4 on: it ended its parser 3 times"),
    ],
)
def test_pages_that_the_parser_does_not_give_are_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, parts: int, fault: str | None, why: str
) -> None:
    bench.write("a.pdf", pictures(5))
    fake(monkeypatch, *["read"] * parts)
    streaming(monkeypatch, parts, fault)
    assert bench.run(ocr="eng").failed == 0, bench.problems
    assert f"a.pdf: {why}" in bench.notices
    assert not any("found no text on" in notice for notice in bench.notices)


@pytest.mark.parametrize(
    ("name", "bound", "value", "why"),
    [
        ("a.pdf", "MAX_SCANNED_CHARACTERS", 12, "has more than 12 characters: split it"),
        ("a.tiff", "MAX_SCANNED_CHARACTERS", 12, "has more than 12 characters: split it"),
        ("a.tiff", "MAX_SCANNED_PAGES", 2, "has more than 2 pages: split it"),
    ],
)
def test_a_scan_beyond_a_bound_keeps_its_first_pages_and_says_which_are_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, bound: str, value: int, why: str
) -> None:
    bench.write(name, pictures(6))
    fake(monkeypatch, *["crane"] * 6)
    streaming(monkeypatch, 6)
    monkeypatch.setattr(recognition, bound, value)
    summary = bench.run(ocr="eng")
    assert (summary.documents, summary.failed) == (1, 0), bench.problems
    assert [bench.text(f"docs/{name}#chunk_{number}") for number in (1, 2)] == ["crane"] * 2
    left = "OCR leaves out 4 pages, from page 3 on" if name == "a.pdf" else "page 3 and those after it are not read"
    assert f"{name}: {left}: it {why}" in bench.notices
    assert "a.pdf: OCR read 2 pages" in bench.notices or name != "a.pdf"


@pytest.mark.parametrize("name", ["a.pdf", "a.tiff"])
def test_after_its_time_the_remaining_pages_of_a_scan_are_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clock = [0.0]

    def stream(kind: str, content: bytes, options: object = None) -> Iterator[memoryview]:
        for number in range(6):
            clock[0] = 1_801.0 if number == 4 else 1_799.0
            yield memoryview(b"page")

    bench.write(name, pictures(6))
    asked = fake(monkeypatch, *["crane"] * 6)
    monkeypatch.setattr(SHARED, "stream", stream)
    monkeypatch.setattr(recognition, "monotonic", lambda: clock[0])
    assert bench.run(ocr="eng").failed == 0, bench.problems
    assert len(asked) <= 4
    [noted] = [notice for notice in bench.notices if "takes longer than 30 minutes to recognise: split it" in notice]
    first = re.search(r"page (\d)", noted)
    assert first is not None
    assert 3 <= int(first[1]) <= 5
    assert bench.text(f"docs/{name}#chunk_{int(first[1]) - 1}") == "crane"


def test_a_tiff_file_of_too_many_pages_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    blank = images.new("1", (8, 8))
    monkeypatch.setattr(rasters, "MAX_FRAMES", 2)
    two, three = (saved(blank, "TIFF", save_all=True, append_images=[blank] * more) for more in (1, 2))
    assert len(list(rasters.decode_images(two, {}))) == 2
    with pytest.raises(InvalidDocument, match="has more than 2 pages: split it"):
        list(rasters.decode_images(three, {}))


def test_without_tesseract_an_ingest_with_ocr_does_not_begin(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tesseract, "find_tesseract", lambda: None)
    recogniser.cache_clear()
    bench.write("a.md", "text")
    with pytest.raises(ConfigurationError, match="OCR needs the program tesseract"):
        bench.run(ocr="eng")
    assert bench.run().documents == 1
