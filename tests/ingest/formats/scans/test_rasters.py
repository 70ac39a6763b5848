"""Gray pixels for OCR: what is decoded, and what is refused before it is."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.scans import rasters
from aidre.ingest.formats.scans.rasters import decode_images, render_pages

images = pytest.importorskip("PIL.Image")


def encoded(image: object, kind: str, **options: object) -> bytes:
    written = BytesIO()
    image.save(written, kind, **options)  # type: ignore[attr-defined]
    return written.getvalue()


def gray(content: bytes) -> tuple[int, int, bytes]:
    """Size and pixels of the one image of a file."""
    [pgm] = decode_images(content, {})
    head, _, pixels = pgm.partition(b"\n")
    width, height = map(int, head.split()[1:3])
    assert head == b"P5 %d %d 255" % (width, height)
    assert len(pixels) == width * height
    return width, height, pixels


@pytest.mark.parametrize(
    "write",
    [
        lambda image: encoded(image, "PNG"),
        lambda image: encoded(image.convert("RGB"), "JPEG", quality=100),
        lambda image: encoded(image.convert("CMYK"), "JPEG", quality=100),
        lambda image: encoded(image.convert("1"), "TIFF", compression="group4"),
        lambda image: encoded(image.convert("RGB"), "WEBP", lossless=True),
        lambda image: encoded(image.convert("P"), "PNG"),
    ],
)
def test_images_of_every_kind_become_gray(write: Callable[[object], bytes]) -> None:
    image = images.new("L", (16, 16), 255)
    image.paste(0, (8, 0, 16, 16))
    width, height, pixels = gray(write(image))
    assert (width, height) == (16, 16)
    assert pixels[2] > 200
    assert pixels[13] < 60


def test_what_is_transparent_is_paper() -> None:
    image = images.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.putpixel((1, 1), (0, 0, 0, 255))
    _, _, pixels = gray(encoded(image, "PNG"))
    assert pixels[0] == 255
    assert pixels[5] == 0


def test_sixteen_bits_become_eight() -> None:
    image = images.new("I;16", (2, 1), 0x8000)
    assert gray(encoded(image, "PNG"))[2] == b"\x80\x80"


def test_the_orientation_of_a_camera_is_followed() -> None:
    image = images.new("L", (8, 4), 255)
    image.putpixel((0, 0), 0)
    exif = images.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    width, height, pixels = gray(encoded(image, "PNG", exif=exif))
    assert (width, height) == (4, 8)
    assert pixels.index(0) == 3


def test_each_page_of_a_tiff_file_is_an_image() -> None:
    pages = [images.new("L", (4, 4), shade) for shade in (0, 100, 200)]
    content = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert [page[-1] for page in decode_images(content, {})] == [0, 100, 200]


def bomb(width: int, height: int) -> bytes:
    """The head of a PNG file of that size, with few bytes behind it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", None)
    with pytest.raises(InvalidDocument, match="has 60000 x 60000 pixels, more than 64 million: make it smaller"):
        list(decode_images(bomb(60_000, 60_000), {}))


def test_large_images_are_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rasters, "MAX_PIXELS", 10_000)
    for kind in ("PNG", "JPEG"):
        width, height, _ = gray(encoded(images.new("L", (800, 200), 255), kind))
        assert (width, height) == (200, 50)
    monkeypatch.setattr(rasters, "MAX_SIDE", 100)
    assert gray(encoded(images.new("L", (800, 1), 255), "PNG"))[:2] == (100, 1)


def test_what_is_no_image_is_refused() -> None:
    gif = encoded(images.new("L", (4, 4)), "GIF")
    for content in (b"", b"text", gif, b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(InvalidDocument, match="is not an image of a kind that is read"):
            list(decode_images(content, {}))


def pdf_of(*boxes: tuple[float, float]) -> bytes:
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    for box in boxes:
        document.new_page(*box)
    written = BytesIO()
    document.save(written)
    return written.getvalue()


def sizes(pages: list[bytes]) -> list[tuple[int, ...]]:
    return [tuple(map(int, page.split(b"\n", 1)[0].split()[1:3])) for page in pages]


def test_pages_are_drawn_at_300_dots_per_inch_or_fewer_where_they_are_large() -> None:
    content = pdf_of((72, 144), (14_400, 14_400), (1, 14_400))
    pages = list(render_pages(content, {"pages": [0, 1, 2]}))
    first, second, third = sizes(pages)
    assert first == (300, 600)
    assert second[0] * second[1] <= 1.001 * rasters.MAX_PIXELS
    assert third[1] <= rasters.MAX_SIDE
    assert all(
        len(page) == width * height + page.index(b"\n") + 1
        for page, (width, height) in zip(pages, sizes(pages), strict=True)
    )


def test_only_the_named_pages_are_drawn() -> None:
    content = pdf_of((72, 72), (144, 72), (288, 72))
    assert sizes(list(render_pages(content, {"pages": [2, 0]}))) == [(1200, 300), (300, 300)]
