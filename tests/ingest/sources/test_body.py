"""The body of an HTTP response as a file for a reader: its kind, its packing and its encoding."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.fetcher import FetchResult
from aidre.ingest.fetch.urls import read_url
from aidre.ingest.sources.body import gunzip, kind_of
from aidre.ingest.sources.readers import READERS
from tests.support.ingests import Bench
from tests.support.office import archive
from tests.support.websites import Site, counts, run


def test_rows_and_texts_are_read_by_their_media_type(bench: Bench, site: Site) -> None:
    site.put("/rows", '{"id": "r1", "text": "one"}\n{"id": "r2", "text": "two"}\n', "application/x-ndjson", ETag='"1"')
    site.put("/text", "Wörter".encode("cp1252"), "text/plain; charset=ISO-8859-1")
    site.put("/read.md", "# Title\n\nMarked down.", "text/plain")
    site.put("/untyped.txt", "untyped", "application/octet-stream")
    site.put("/page", b"<html><head><meta charset='latin-1'></head><body><p>W\xc3\xb6rter</p></body></html>")
    site.put("/old", "朱镕基".encode("gbk"), "text/plain; charset=GB2312")
    paths = ["/rows", "/text", "/read.md", "/untyped.txt", "/page", "/old"]
    assert counts(run(bench, *map(site.url, paths))) == (7, 7, 0, 0, 0)
    assert bench.text(site.url("/old#chunk_1")) == "朱镕基"
    assert bench.text(site.url("/text#chunk_1")) == bench.text(site.url("/page#chunk_1")) == "Wörter"
    assert bench.text(site.url("/read.md#chunk_1")).endswith("Marked down.")
    assert counts(run(bench, site.url("/rows"))) == (2, 0, 2, 0, 0)
    assert site.headers[-1]["If-None-Match"] == '"1"'


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/i.png", b"\x89PNG\r\n", "image/png"),
        ("/x", b"<a/>", "application/xml"),
        ("/x", b"\x00\x01", ""),
    ],
)
def test_what_cannot_be_read_is_named(bench: Bench, site: Site, path: str, body: bytes, kind: str) -> None:
    site.put(path, body, kind)
    assert counts(run(bench, site.url(path))) == (0, 0, 0, 0, 1)
    assert "which is not supported" in bench.problems[0] or "unknown encoding zip" in bench.problems[0]


# -- the functions alone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "kind", "content", "found"),
    [
        ("/", "text/html", b"<html>", ".html"),
        ("/a.pdf", "text/html", b"words", ".html"),
        ("/a.pdf", "", b"words", ".pdf"),
        ("/a", "", b"%PDF-1.7", ".pdf"),
        ("/a", "application/octet-stream", b"<!doctype html><html>", ".html"),
        ("/a", "text/plain", b"words", ".txt"),
        ("/a", "", b"words", None),
        ("/a.txt", "", b"words", ".txt"),
        ("/a.md", "text/plain", b"words", ".md"),
        ("/a.exe", "text/plain", b"words", ".txt"),
        ("/a", "application/json", b"{}", ".json"),
        ("/a", "application/json", b"<rss>", "feed"),
        ("/a", "application/feed+json", b"{}", ".json"),
        ("/a", "application/epub+zip", b"PK", ".epub"),
        ("/a", "text/x-rst", b"words", ".rst"),
        ("/a.adoc", "text/plain", b"words", ".adoc"),
        ("/a.zip", "application/zip", b"PK", None),
        ("/a", "application/rss+xml", b"broken", "feed"),
        ("/a", "text/html", b"<urlset>", "sitemap"),
        ("/a", "application/pdf", b"<html>", ".html"),
        ("/a", "image/png", b"words", None),
        ("/pages.txt", "text/plain", b"https://x.org/a\nhttps://x.org/b\n", "sitemap"),
        ("/pages.txt", "text/plain", b"https://x.org/a is a page\n", ".txt"),
    ],
)
def test_the_kind_of_a_body(tmp_path: Path, address: str, kind: str, content: bytes, found: str | None) -> None:
    path = tmp_path / "body"
    path.write_bytes(content)
    fetched = FetchResult(read_url(f"https://example.com{address}"), kind, None)
    assert kind_of(path, fetched, READERS) == found


def test_a_packed_body_is_unpacked_up_to_a_bound(body: Path) -> None:
    body.write_bytes(b"plain")
    assert gunzip(body, 5) == body
    body.write_bytes(gzip.compress(b"x" * 1000))
    unpacked = gunzip(body, 1000)
    assert unpacked != body
    assert unpacked.read_bytes() == b"x" * 1000
    with pytest.raises(FetchFailed, match="page_bytes"):
        gunzip(body, 999)
    body.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(FetchFailed, match="end early"):
        gunzip(body, 1000)


def test_a_json_feed_is_read_from_its_address_and_an_archive_is_not(bench: Bench, site: Site) -> None:
    feed = (
        b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "https://x.org/1", "content_text": "words"}]}'
    )
    site.put("/feed", feed, "application/feed+json")
    assert counts(run(bench, site.url("/feed"))) == (1, 1, 0, 0, 0)
    assert bench.ids() == ["https://x.org/1"]
    site.put("/a.zip", archive({"a.md": "words"}), "application/octet-stream")
    assert run(bench, site.url("/a.zip")).failed == 1
