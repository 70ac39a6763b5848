"""PDFs that grow, for the proof `growth`, written object by object."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from tests.hostile.shapes import Make, repeated

_FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_PAGES = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
_PAGE = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>%s>>%s>>"
_CATALOG = "<</Type/Catalog/Pages 2 0 R%s>>"


def pdf(objects: Sequence[str | bytes], trailer: str = "", *, has_table: bool = True) -> bytes:
    """A file of these objects, from number 1; the first is the catalog."""
    content, places = bytearray(b"%PDF-1.7\n"), []
    for number, each in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n" % number + (each.encode() if isinstance(each, str) else each) + b"\nendobj\n"
    start = len(content)
    if has_table:
        content += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
        content += b"".join(b"%010d 00000 n \n" % place for place in places)
    end = f"trailer<</Size {len(places) + 1}/Root 1 0 R{trailer}>>\nstartxref\n{start}\n%%EOF"
    return bytes(content) + end.encode()


def stream(content: bytes, entries: str = "") -> bytes:
    packed = zlib.compress(content)
    head = f"<</Length {len(packed)}/Filter/FlateDecode{entries}>>stream\n"
    return head.encode() + packed + b"\nendstream"


def _drawn(make: Make) -> Make:
    """A page whose program grows."""

    def content(size: int) -> bytes:
        made = make(size)
        program = made.encode() if isinstance(made, str) else made
        return pdf([_CATALOG % "", _PAGES, _PAGE % ("", ""), stream(program), _FONT])

    return content


def _with(others: Callable[[int], list[str | bytes]], catalog: str = "", page: str = "", resources: str = "",
          program: str = "BT /F 9 Tf (x) Tj ET", trailer: str = "") -> Make:  # fmt: skip
    """A document with further objects, from number 6."""
    return lambda size: pdf(
        [_CATALOG % catalog, _PAGES, _PAGE % (resources, page), stream(program.encode()), _FONT, *others(size)], trailer
    )


def _page_tree(size: int) -> bytes:
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]>>"
    kids = " ".join(f"{number} 0 R" for number in range(3, size + 3))
    return pdf([_CATALOG % "", f"<</Type/Pages/Kids[{kids}]/Count {size}>>", *([page] * size)])


def _deep_tree(size: int) -> bytes:
    nodes = [f"<</Type/Pages/Parent {n + 1} 0 R/Kids[{n + 3} 0 R]/Count 1>>" for n in range(size)]
    return pdf([_CATALOG % "", *nodes, f"<</Type/Page/Parent {size + 1} 0 R/MediaBox[0 0 9 9]>>"])


def _wide_root(size: int) -> bytes:
    return pdf([_CATALOG % "", f"<</Type/Pages/Kids[{'3 0 R ' * size}]/Count {size}>>", _PAGE % ("", ""),
                stream(b"BT /F 9 Tf (x) Tj ET"), _FONT])  # fmt: skip


def _bookmarks(size: int) -> list[str | bytes]:
    return [
        "<</Type/Outlines/First 7 0 R/Last 7 0 R>>",
        *(f"<</Title(b{n})/Parent 6 0 R/Next {n + 8} 0 R/Dest[3 0 R/Fit]>>" for n in range(size)),
        "<</Title(last)/Parent 6 0 R/Dest[3 0 R/Fit]>>",
    ]


def _deep_bookmarks(size: int) -> list[str | bytes]:
    return [f"<</Title(b{n})/First {n + 7} 0 R/Last {n + 7} 0 R/Dest[3 0 R/Fit]>>" for n in range(size)] + ["<<>>"]


def _forms(size: int) -> list[str | bytes]:
    """Forms that draw the next one."""
    return [
        stream(b"/X Do", f"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X {n + 7} 0 R>>>>")
        for n in range(size)
    ] + [stream(b"")]


def _many(piece: str, joined: str = "") -> Callable[[int], list[str | bytes]]:
    return lambda size: [str(repeated(piece, *joined.split("*"))(size))]


_TEXT = ("BT /F 9 Tf 1 0 0 1 50 700 Tm ", " ET")
PDF: dict[str, Make] = {
    "texts": _drawn(repeated("(word) Tj ", *_TEXT)),
    "one text": _drawn(repeated("word ", _TEXT[0] + "(", ") Tj ET")),
    "one word": _drawn(repeated("x", _TEXT[0] + "(", ") Tj ET")),
    "lines": _drawn(repeated("0 -1 Td (word) Tj ", *_TEXT)),
    "columns": _drawn(repeated("90 0 Td (word) Tj ", *_TEXT)),
    "texts at one place": _drawn(repeated("1 0 0 1 50 700 Tm (word) Tj ", *_TEXT)),
    "texts anywhere": _drawn(lambda size: _TEXT[0] + "".join(
        f"1 0 0 1 {n * 7919 % 500} {n * 104729 % 700} Tm (w) Tj " for n in range(size)) + " ET"),
    "texts upwards": _drawn(lambda size: _TEXT[0] + "".join(f"1 0 0 1 50 {n % 700} Tm (w) Tj " for n in range(size))),
    "turned texts": _drawn(repeated("0 1 -1 0 %d 50 Tm (word) Tj ", *_TEXT)),
    "sizes": _drawn(lambda size: _TEXT[0] + "".join(f"/F {n % 90 + 1} Tf (w) Tj " for n in range(size)) + " ET"),
    "hyphens": _drawn(repeated("0 -1 Td (word-) Tj ", *_TEXT)),
    "kerned": _drawn(repeated("(w)-300", _TEXT[0] + "[", "] TJ ET")),
    "texts of their own": _drawn(repeated("BT /F 9 Tf 50 %d Td (word) Tj ET ")),
    "escapes": _drawn(repeated("\\101", _TEXT[0] + "(", ") Tj ET")),
    "brackets of a text": _drawn(repeated("(", _TEXT[0])),
    "hexadecimal": _drawn(repeated("41", _TEXT[0] + "<", "> Tj ET")),
    "boxes": _drawn(repeated("50 %d 90 9 re S ")),
    "equal boxes": _drawn(repeated("50 50 90 9 re S ")),
    "boxes of one path": _drawn(repeated("50 %d 90 9 re ", "", "S")),
    "boxes anywhere": _drawn(lambda size: "".join(
        f"{n * 7919 % 500} {n * 104729 % 700} 9 9 re S " for n in range(size))),
    "boxes in boxes": _drawn(lambda size: "".join(f"0 0 {n % 600} {n % 800} re S " for n in range(size))),
    "a grid": _drawn(lambda size: "".join(
        f"{n % 100 * 5} {n // 100 % 100 * 5} 5 5 re S BT /F 4 Tf {n % 100 * 5} {n // 100 % 100 * 5} Td (x) Tj ET "
        for n in range(size))),
    "rules": _drawn(repeated("0 %d m 500 %d l S ")),
    "rules across": _drawn(lambda size: "".join(
        f"0 {n / size * 800} m 600 {n / size * 800} l S {n / size * 600} 0 m {n / size * 600} 800 l S "
        for n in range(size))),
    "rules and texts": _drawn(lambda size: "".join(
        f"0 {n / size * 800} m 600 {n / size * 800} l S BT /F 4 Tf 9 {n / size * 800} Td (x) Tj ET "
        for n in range(size))),
    "lines of one path": _drawn(repeated("%d 9 l ", "0 0 m ", "S")),
    "curves": _drawn(repeated("1 2 3 4 5 6 c ", "0 0 m ", "S")),
    "clips": _drawn(repeated("0 0 9 9 re W n ")),
    "states": _drawn(repeated("q ")),
    "restored states": _drawn(repeated("q Q ")),
    "matrices": _drawn(repeated("1 0 0 1 1 1 cm ", "", "BT /F 9 Tf (x) Tj ET")),
    "marks of contents": _drawn(repeated("/Span BMC ")),
    "numbers": _drawn(repeated("1 ")),
    "lists": _drawn(repeated("[")),
    "dictionaries": _drawn(repeated("<<")),
    "names": _drawn(repeated("/n%d ")),
    "unknown operators": _drawn(repeated("x%d ")),
    "pictures in line": _drawn(repeated("BI /W 1/H 1/BPC 8/CS/G ID x EI ")),
    "comments": _drawn(repeated("% a comment\n")),
    "zeros": _drawn(repeated("\0")),
    "pages": _page_tree,
    "a page again and again": _wide_root,
    "pages in pages": _deep_tree,
    "bookmarks": _with(_bookmarks, "/Outlines 6 0 R"),
    "bookmarks in bookmarks": _with(_deep_bookmarks, "/Outlines 6 0 R"),
    "objects": _with(lambda size: ["<<>>"] * size),
    "objects without a table": lambda size: pdf(
        [_CATALOG % "", _PAGES, _PAGE % ("", ""), stream(b""), _FONT, *(["<<>>"] * size)], has_table=False),
    "forms in forms": _with(_forms, resources="/XObject<</X 6 0 R>>", program="/X Do"),
    "a form again and again": _with(
        lambda size: [stream(b"/X Do " * 10, "/Type/XObject/Subtype/Form/BBox[0 0 9 9]")] * (size // 10),
        resources="/XObject<</X 6 0 R>>", program="/X Do " * 1_000),
    "a deep list": _with(lambda size: ["[" * size + "]" * size], "/A 6 0 R"),
    "a deep dictionary": _with(lambda size: ["<</A" * size + "1" + ">>" * size], "/A 6 0 R"),
    "a wide dictionary": _with(_many("/a%d 1", "<<*>>"), "/A 6 0 R"),
    "fonts": _with(lambda size: [], resources="".join(f"/F{n} 5 0 R" for n in range(9))),
    "notes": _with(_many("<</Type/Annot/Subtype/Text/Rect[0 0 9 9]>>", "[*]"), page="/Annots 6 0 R"),
    "labels of pages": _with(_many("%d <</S/D>>", "<</Nums[*]>>"), "/PageLabels 6 0 R"),
    "a title": _with(_many("t ", "<</Title(*)>>"), trailer="/Info 6 0 R"),
    "letters of a title": _with(_many("x", "<</Title(*)>>"), trailer="/Info 6 0 R"),
    "a language": _with(_many("x", "(*)"), "/Lang 6 0 R"),
    "remarks before": lambda size: b"%x\n" * (size // 100) + pdf([_CATALOG % "", _PAGES, _PAGE % ("", ""), stream(b""),
                                                                _FONT]),
    "remarks after": lambda size: pdf([_CATALOG % "", _PAGES, _PAGE % ("", ""), stream(b""), _FONT]) + b"%x\n" * size,
}  # fmt: skip
