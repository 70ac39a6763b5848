"""Presentations, OpenDocument texts, books and archives as tests need them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_NAMES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    f'xmlns:r="{_TYPES}"'
)
_CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">%s</cp:coreProperties>'
)


def archive(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as packed:
        for name, content in parts.items():
            packed.writestr(zipfile.ZipInfo(name), content, method)  # of 1980: the same bytes at any time
    return written.getvalue()


def _relations(targets: Mapping[str, tuple[str, str]]) -> str:
    listed = "".join(
        f'<Relationship Id="{name}" Type="{kind}" Target="{target}"/>' for name, (kind, target) in targets.items()
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{listed}</Relationships>'
    )


def shape(text: str, place: str | None = None) -> str:
    """A shape of a slide with a paragraph for each line; `place` is the kind of its place, such as `title`."""
    kind = "" if place is None else f'<p:ph type="{place}"/>'
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return f"<p:sp><p:nvSpPr><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>"


def pptx(slides: Sequence[str], *, core: str = "", notes: Mapping[int, str] | None = None, show: str = "1") -> bytes:
    """A presentation of slides, each of them the XML of its shapes; `notes` by the number of the slide, from 0."""
    core_type = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
    own: dict[str, str | bytes] = {
        "_rels/.rels": _relations(
            {"r1": (f"{_TYPES}/officeDocument", "ppt/presentation.xml"), "r2": (core_type, "docProps/core.xml")}
        ),
        "docProps/core.xml": _CORE % core,
        "ppt/presentation.xml": f"<p:presentation {_NAMES}><p:sldIdLst>"
        + "".join(f'<p:sldId id="{256 + n}" r:id="s{n}"/>' for n in range(len(slides)))
        + "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations(
            {f"s{n}": (f"{_TYPES}/slide", f"slides/slide{n}.xml") for n in range(len(slides))}
        ),
    }
    for number, content in enumerate(slides):
        tree = f"<p:cSld><p:spTree>{content}</p:spTree></p:cSld>"
        own[f"ppt/slides/slide{number}.xml"] = f'<p:sld {_NAMES} show="{show}">{tree}</p:sld>'
    for number, text in (notes or {}).items():
        target = {"n1": (f"{_TYPES}/notesSlide", f"../notesSlides/n{number}.xml")}
        own[f"ppt/slides/_rels/slide{number}.xml.rels"] = _relations(target)
        tree = f"<p:cSld><p:spTree>{shape(text, 'body')}{shape('7', 'sldNum')}</p:spTree></p:cSld>"
        own[f"ppt/notesSlides/n{number}.xml"] = f"<p:notes {_NAMES}>{tree}</p:notes>"
    return archive(own)


_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "meta": "meta",
        "presentation": "presentation",
    }.items()
)  # fmt: skip


def odt(body: str, *, meta: str = "", kind: str = "text") -> bytes:
    """An OpenDocument file with this XML in its body."""
    content = f"<office:document-content {_ODF}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
    described = f'<office:document-meta {_ODF} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>{meta}'
    return archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"{content}</office:document-content>",
            "meta.xml": f"{described}</office:meta></office:document-meta>",
        }
    )


def epub(
    pages: Sequence[str], *, metadata: str = "", more: Mapping[str, str] | None = None, properties: str = ""
) -> bytes:
    """A book of these bodies of pages; `properties` are those of the first."""
    items = "".join(
        f'<item id="p{n}" href="text/p%20{n}.xhtml" media-type="application/xhtml+xml"'
        f"{f' properties={chr(34)}{properties}{chr(34)}' if n == 0 and properties else ''}/>"
        for n in range(len(pages))
    )
    spine = "".join(f'<itemref idref="p{n}"/>' for n in range(len(pages)))
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/" version="3.0">'
        f"<metadata>{metadata}</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    own: dict[str, str | bytes] = {"META-INF/container.xml": container, "OEBPS/book.opf": book}
    for number, body in enumerate(pages):
        own[f"OEBPS/text/p {number}.xhtml"] = (
            '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title>'
            f"</head><body>{body}</body></html>"
        )
    return archive(own | dict(more or {}))
