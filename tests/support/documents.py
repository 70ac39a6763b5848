"""PDF and DOCX files as tests need them: small real ones, and the parts that hostile ones are made of."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence

ENCRYPTED = b"<</Filter/Standard/V 1/R 2/Length 40/P -44/O(%s)/U(%s)>>" % (b"o" * 32, b"u" * 32)
"""What a file says that opens with a password only; this one has none that fits."""


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    outline: Sequence[tuple[str, int]] = (),
    info: Mapping[str, str] | None = None,
    catalog: bytes = b"",
    trailer: bytes = b"",
    size_of: Callable[[str], int] = lambda _: 12,
) -> bytes:
    """A PDF of these pages of lines; `outline` has titles with the number of their page, from 0.

    `size_of` gives the type of a line, in points.
    """
    objects: list[bytes] = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    kids = []
    for lines in pages:
        shown = b" ".join(b"/F1 %d Tf (%s) Tj T*" % (size_of(line), _escaped(line)) for line in lines)
        leading = 14 if all(size_of(line) == 12 for line in lines) else 36
        content = add(stream(b"BT /F1 12 Tf 72 720 Td %d TL %s ET" % (leading, shown)))
        kids.append(add(_PAGE % content))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    if outline:
        root = len(objects) + 1
        last = root + len(outline)
        add(b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (root + 1, last, len(outline)))
        for at, (title, page) in enumerate(outline, root + 1):
            following = b"/Next %d 0 R" % (at + 1) if at < last else b""
            dest = b"/Dest[%d 0 R/XYZ 0 792 0]" % kids[page]
            add(b"<</Title(%s)/Parent %d 0 R%s%s>>" % (_escaped(title), root, dest, following))
        catalog += b"/Outlines %d 0 R" % root
    if info:
        facts = b"".join(b"/%s(%s)" % (name.encode(), _escaped(value)) for name, value in info.items())
        trailer += b"/Info %d 0 R" % add(b"<<%s>>" % facts)
    objects[0] = b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog
    return pdf_file(objects, trailer)


_PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>"


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF file of these objects, the first of which is the catalog."""
    written = io.BytesIO()
    written.write(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(written.tell())
        written.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = written.tell()
    written.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    written.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    written.write(b"trailer<</Size %d/Root 1 0 R/ID[(a)(a)]%s>>\n" % (len(objects) + 1, trailer))
    written.write(b"startxref\n%d\n%%%%EOF" % start)
    return written.getvalue()


def stream(content: bytes, *, deflated: bool = False) -> bytes:
    filters = b"/Filter/FlateDecode" if deflated else b""
    content = zlib.compress(content, 9) if deflated else content
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(content), filters, content)


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def docx(build: Callable[..., None] | None = None) -> bytes:
    """A DOCX as python-docx writes it, after `build` has put something into it."""
    from docx import Document

    document = Document()
    if build is not None:
        build(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def repacked(archive: bytes, parts: Mapping[str, bytes | None], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive with some parts replaced, added or (None) left out."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(written, "w", method) as new:
        for name in dict.fromkeys([*old.namelist(), *parts]):
            content = parts[name] if name in parts else old.read(name)
            if content is not None:
                new.writestr(name, content)
    return written.getvalue()


def part(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.read(name)


def lying(archive: bytes, name: str, size: int) -> bytes:
    """A zip archive that declares another size for one of its parts than it inflates to."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        local = opened.getinfo(name).header_offset
    changed = bytearray(archive)
    central = changed.rfind(name.encode()) - 46
    struct.pack_into("<I", changed, local + 22, size)
    struct.pack_into("<I", changed, central + 24, size)
    return bytes(changed)


def laughing(body: bytes) -> bytes:
    """An XML document whose entities grow to gigabytes where they stand in its body."""
    entities = b"".join(b'<!ENTITY a%d "%s">' % (level, b"&a%d;" % (level - 1) * 10) for level in range(1, 10))
    start = b'<?xml version="1.0"?><!DOCTYPE laugh [<!ENTITY a0 "ha">' + entities + b"]>"
    return start + body.split(b"?>", 1)[-1].replace(b"HERE", b"&a9;")
