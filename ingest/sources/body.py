"""The body of an HTTP response as a file that a reader accepts: unpacked, and of a known kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from aidre.ingest.fetch import FetchResult, decompress
from aidre.ingest.formats import SNIFF_BYTES, is_address_list, sniff_xml

PAGE_KINDS = frozenset({".html", ".pdf", ".docx", ".pptx", ".odt", ".odp", ".rtf", ".epub", ".txt"})
"""Kinds that a sitemap may list. The readers of other kinds trust the author of a file: they are for addresses that the
operator names."""

_TABLE_KINDS = frozenset({".jsonl", ".ndjson", ".json", ".jsonld", ".csv", ".tsv", ".xlsx", ".xlsm", ".parquet"})
_BLOCK_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_UNTYPED = ("", "application/octet-stream", "binary/octet-stream", "text/plain")
"""Media types that do not say what a body is: the suffix and the first bytes decide."""

_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/rdf+xml")
_TYPES: dict[str, tuple[str, ...]] = {
    "text/html": (".html",),
    "application/xhtml+xml": (".html",),
    "application/pdf": (".pdf",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (".docx",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": (".pptx",),
    "application/vnd.oasis.opendocument.text": (".odt",),
    "application/vnd.oasis.opendocument.presentation": (".odp",),
    "application/epub+zip": (".epub",),
    "application/rtf": (".rtf",),
    "text/rtf": (".rtf",),
    "message/rfc822": (".eml",),
    "application/x-ipynb+json": (".ipynb",),
    "application/feed+json": (".json",),
    "application/ld+json": (".jsonld", ".json"),
    "application/json": (".json", ".jsonld"),
    "application/jsonl": (".jsonl",),
    "application/x-ndjson": (".jsonl",),
    "application/vnd.apache.parquet": (".parquet",),
    "text/markdown": (".md",),
    "text/x-rst": (".rst",),
    "text/prs.fallenstein.rst": (".rst",),
    "text/asciidoc": (".adoc",),
    "text/x-asciidoc": (".adoc",),
    "text/x-org": (".org",),
    "text/csv": (".csv",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": (".xlsx",),
    "application/vnd.ms-excel.sheet.macroenabled.12": (".xlsm",),
    "text/tab-separated-values": (".tsv",),
}
"""Suffixes by media type, the preferred one first."""


def kind_of(path: Path, fetched: FetchResult, suffixes: Collection[str]) -> str | None:
    """ "feed", "sitemap", or the one of `suffixes` whose reader fits; None if no reader does.

    The content decides whether a body is a feed, a sitemap (also one that is a text) or a page, since servers often
    declare another media type. For everything else the media type counts, and if it says nothing, the suffix of the
    URL and the first bytes.
    """
    with path.open("rb") as file:
        start = file.read(SNIFF_BYTES)
    xml_kind = sniff_xml(start)
    if xml_kind in ("feed", "sitemap"):
        return xml_kind
    if xml_kind is None and fetched.kind in _FEED_TYPES:
        return "feed"
    if xml_kind is None and fetched.kind in _UNTYPED and lists_addresses(start):
        return "sitemap"
    suffix = Path(fetched.url.path).suffix.lower()
    candidates = _TYPES.get(fetched.kind, ())
    if fetched.kind in _UNTYPED:
        sniffed = ".pdf" if start.startswith(b"%PDF-") else ".html" if xml_kind == "html" else ".txt"
        is_text = sniffed == ".txt" and (fetched.kind == "text/plain" or suffix == ".txt")
        candidates = (suffix, sniffed) if is_text or sniffed != ".txt" else (suffix,)
    elif xml_kind == "html":
        candidates = (".html",)
    return next((candidate for candidate in candidates if candidate in suffixes), None)


def lists_addresses(start: bytes) -> bool:
    """Whether a file that begins so is a sitemap that is a text: an address in each line."""
    whole = start if len(start) < SNIFF_BYTES else start[: start.rfind(b"\n") + 1]
    return is_address_list(whole.decode("utf-8", "replace").removeprefix("\ufeff"))


def listing_of(kind: str | None) -> str | None:
    """ "feed", "sitemap" or "rows" for a body that holds or lists many documents, None for a single document."""
    return kind if kind in ("feed", "sitemap") else "rows" if kind in _TABLE_KINDS else None


def gunzip(path: Path, max_bytes: int) -> Path:
    """The file itself, or its content in a new file beside it if it is a gzip file, as many sitemaps are.

    Raises FetchFailed for more than `max_bytes`, or for a damaged file.
    """
    with path.open("rb") as file:
        if file.read(2) != _GZIP_MAGIC:
            return path
        file.seek(0)
        unpacked = path.with_name("unpacked")
        with unpacked.open("wb") as output:
            for block in decompress(_blocks(file), "gzip", max_bytes):
                output.write(block)
    return unpacked


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block
