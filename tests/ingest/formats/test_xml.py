"""Untrusted XML: the kind of a file by its root element, and elements as events."""

from __future__ import annotations

import pytest

from aidre.ingest.formats.xml import sniff_xml


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"<rss>", "feed"),
        (b"\xef\xbb\xbf  <?xml version='1.0'?>\n<!-- <urlset> --><!DOCTYPE rss><RDF:rdf >", "feed"),
        ('<?xml version="1.0" encoding="utf-16"?><feed xmlns="x">'.encode("utf-16"), "feed"),
        (b"<a:urlset\n>", "sitemap"),
        (b"<sitemapindex/>", "sitemap"),
        (b"<!doctype html><HTML>", "html"),
        (b"<?xml <rss>", None),
        (b"<!--" * 5000, None),
        (b"<!-->" * 1600, None),
        (b"<rssx>", None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_the_root_tells_what_a_file_is(start: bytes, kind: str | None) -> None:
    assert sniff_xml(start) == kind
