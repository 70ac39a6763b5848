"""The body of an HTTP response as a file for a reader: its kind, its packing and its encoding."""

from __future__ import annotations

import pytest

from tests.support.ingests import Bench
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
        ("/x", b"words", "text/html; charset=zip"),
    ],
)
def test_what_cannot_be_read_is_named(bench: Bench, site: Site, path: str, body: bytes, kind: str) -> None:
    site.put(path, body, kind)
    assert counts(run(bench, site.url(path))) == (0, 0, 0, 0, 1)
    assert "no kind of document" in bench.problems[0] or "unknown encoding zip" in bench.problems[0]
