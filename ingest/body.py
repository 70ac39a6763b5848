"""What came over the wire, as a file that a parser can read: unpacked, in UTF-8, and what kind of file it is."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from aidre.engine.errors import InvalidDocument
from aidre.ingest.charsets import codec_of
from aidre.ingest.fetch import Fetched, inflated
from aidre.ingest.members import printable
from aidre.ingest.xml import SNIFFED, kind_of_xml

PAGES = frozenset({".html", ".pdf", ".docx", ".txt"})
"""Kinds that a sitemap may list. Others, whose parsers trust who wrote the file, are for addresses that are named."""

_ROWS = frozenset({".jsonl", ".ndjson", ".json", ".jsonld", ".csv", ".tsv", ".parquet"})
_PIECE = 1 << 16
_GZIP = b"\x1f\x8b"
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream", "text/plain")
_FEEDS = ("application/rss+xml", "application/atom+xml", "application/rdf+xml")
_TYPES: dict[str, tuple[str, ...]] = {
    "text/html": (".html",),
    "application/xhtml+xml": (".html",),
    "application/pdf": (".pdf",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (".docx",),
    "application/ld+json": (".jsonld", ".json"),
    "application/json": (".json", ".jsonld"),
    "application/jsonl": (".jsonl",),
    "application/x-ndjson": (".jsonl",),
    "application/vnd.apache.parquet": (".parquet",),
    "text/markdown": (".md",),
    "text/csv": (".csv",),
    "text/tab-separated-values": (".tsv",),
}


def kind_of(path: Path, fetched: Fetched, suffixes: Collection[str]) -> str | None:
    """ "feed", "sitemap", or the suffix of the files that are read as this one is; None where there is none.

    The content says whether it is a feed, since servers often do not; for the rest the media type counts.
    """
    with path.open("rb") as file:
        start = file.read(SNIFFED)
    by_root = kind_of_xml(start)
    if by_root in ("feed", "sitemap"):
        return by_root
    if by_root is None and fetched.kind in _FEEDS:
        return "feed"
    suffix = Path(fetched.url.path).suffix.lower()
    candidates = _TYPES.get(fetched.kind, ())
    if fetched.kind in _UNTYPED:
        sniffed = ".pdf" if start.startswith(b"%PDF-") else ".html" if by_root == "html" else ".txt"
        is_known = sniffed == ".txt" and (fetched.kind == "text/plain" or suffix == ".txt")
        candidates = (suffix, sniffed) if is_known or sniffed != ".txt" else (suffix,)
    elif by_root == "html":
        candidates = (".html",)
    return next((each for each in candidates if each in suffixes), None)


def listing_of(kind: str | None) -> str | None:
    """ "feed", "sitemap" or "rows" where a body of this kind stands for many documents."""
    return kind if kind in ("feed", "sitemap") else "rows" if kind in _ROWS else None


def gunzipped(path: Path, most: int) -> Path:
    """The file itself, or what is in it where it was packed beforehand, as sitemaps are; raises FetchFailed."""
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            return path
        file.seek(0)
        unpacked = path.with_name("unpacked")
        with unpacked.open("wb") as into:
            for piece in inflated(_pieces(file), "gzip", most):
                into.write(piece)
    return unpacked


def in_utf8(path: Path, charset: str) -> None:
    """Write a text anew in UTF-8, with the mark that tells so; what its encoding has not becomes U+FFFD."""
    name = codec_of(charset)
    try:
        b" ".decode(name, "replace")  # refuses codecs that are no text encodings, like zip
        decoder = codecs.getincrementaldecoder(name)("replace")
    except (LookupError, UnicodeError):
        raise InvalidDocument(f"declares the unknown encoding {printable(charset)}") from None
    with path.open("rb") as file:
        path.unlink()
        with path.open("wb") as into:
            into.write(codecs.BOM_UTF8)
            is_start = True
            for piece in _pieces(file):
                text = decoder.decode(piece)
                into.write((text.removeprefix("\ufeff") if is_start else text).encode("utf-8", "replace"))
                is_start = is_start and not text
            into.write(decoder.decode(b"", True).encode("utf-8", "replace"))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
