"""Gray pixels of pages and images, for OCR: each a PGM image of at most MAX_PIXELS.

Runs in the sandbox's child; knows no file. Sizes are looked at before anything is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from aidre.engine.errors import InvalidDocument

if TYPE_CHECKING:
    from PIL.Image import Image
    from pypdfium2 import PdfPage

MAX_PIXELS = 12_000_000
"""Pixels of one image for tesseract: a page of 8.3 by 11.7 inches has 8.7 million at 300 dots per inch."""

MAX_SIDE = 32_000
"""Tesseract takes no more than 32,767."""

MAX_DECODED_PIXELS = 64_000_000
"""Decoded pixels of an image file: 256 MB in four channels."""

MAX_FRAMES = 1_000
"""Pages of one TIFF file."""

IMAGE_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
_DPI = 300
_POINTS = 72
_ORIENTATION = 0x0112
_TURNS = {3: "ROTATE_180", 6: "ROTATE_270", 8: "ROTATE_90"}
"""What turns an image upright, by the Exif orientation that a camera gives it."""


def render_pages(content: bytes, options: Mapping[str, Any]) -> Iterator[bytes]:
    """The pages of a PDF whose indexes `options["pages"]` has, in their order; nothing (b"") for one that cannot be
    drawn. Raises InvalidDocument."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(content)
    except PdfiumError:
        raise InvalidDocument("is a damaged PDF file: it cannot be opened") from None
    for number in options["pages"]:
        try:
            page = document[number]
            image = _render(page)
            page.close()
        except PdfiumError:
            image = b""
        yield image


def _render(page: PdfPage) -> bytes:
    width, height = page.get_size()
    if not (0 < width < 1e6 and 0 < height < 1e6):
        return b""
    scale = min(_DPI / _POINTS, (MAX_PIXELS / (width * height)) ** 0.5, MAX_SIDE / max(width, height))
    bitmap = page.render(scale=scale, grayscale=True)
    with memoryview(bitmap.buffer).cast("B") as pixels:
        stride, columns = bitmap.stride, bitmap.width
        rows = [bytes(pixels[row * stride : row * stride + columns]) for row in range(bitmap.height)]
    bitmap.close()
    return _to_pgm(columns, len(rows), b"".join(rows))


def decode_images(content: bytes, options: Mapping[str, Any]) -> Iterator[bytes]:
    """The image of a file, of a TIFF file each of its pages. Raises InvalidDocument."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # `_decode` has its own bound, with its own words
    try:
        image = Image.open(BytesIO(content), formats=IMAGE_FORMATS)
    except UnidentifiedImageError:
        raise InvalidDocument(f"is not an image of a kind that is read ({', '.join(IMAGE_FORMATS)})") from None
    with image:
        if image.format != "TIFF":
            yield _decode(image)
            return
        for number in range(MAX_FRAMES + 1):
            try:
                image.seek(number)
            except EOFError:
                return
            if number == MAX_FRAMES:
                raise InvalidDocument(f"has more than {MAX_FRAMES:,} pages: split it")
            yield _decode(image)


def _decode(image: Image) -> bytes:
    from PIL import Image as images

    width, height = image.size
    if width * height > MAX_DECODED_PIXELS:
        most = f"{MAX_DECODED_PIXELS // 10**6} million"
        raise InvalidDocument(f"has {width} x {height} pixels, more than {most}: make it smaller")
    scale = min(1.0, (MAX_PIXELS / (width * height)) ** 0.5, MAX_SIDE / max(width, height))
    size = max(1, int(width * scale)), max(1, int(height * scale))
    if image.format == "JPEG":
        image.draft("L", size)
    turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    decoded: Image = image
    if image.has_transparency_data:
        decoded = image.convert("RGBA").resize(size)
        paper = images.new("RGBA", size, "white")
        paper.alpha_composite(decoded)
        decoded = paper
    elif image.mode.startswith("I"):  # 16 bits a pixel
        decoded = image.convert("I").point(lambda value: value * (1 / 256))
    gray = decoded.convert("L")
    gray = gray.resize(size) if gray.size != size else gray
    gray = gray if turn is None else gray.transpose(images.Transpose[turn])
    return _to_pgm(*gray.size, gray.tobytes())


def _to_pgm(width: int, height: int, pixels: bytes) -> bytes:
    return b"P5 %d %d 255\n" % (width, height) + pixels
