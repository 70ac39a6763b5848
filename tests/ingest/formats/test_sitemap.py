"""Sitemaps: the addresses that one lists, and what no sitemap may do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.sitemap import MAX_ADDRESSES, is_settled, parse, read_sitemap

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def test_a_sitemap_lists_addresses_with_their_dates() -> None:
    found = read_sitemap(
        parse(
            f"""<?xml version="1.0" encoding="UTF-8"?><urlset {NAMESPACE} xmlns:image="urn:i">
            <url><loc> https://example.com/a?x=1&amp;y=2
            </loc><lastmod>2026-01-01</lastmod><image:image><image:loc>https://example.com/i.png</image:loc></image:image></url>
            <url><lastmod/><loc><![CDATA[/b]]></loc></url><url/><loc>/outside</loc></urlset>""".encode(),
            {},
        )
    )
    assert not found.is_index
    assert found.addresses == (("https://example.com/a?x=1&y=2", "2026-01-01"), ("/b", None))


def test_an_index_lists_sitemaps() -> None:
    found = read_sitemap(
        parse(b"<s:sitemapindex xmlns:s='u'><s:sitemap><s:loc>/a</s:loc></s:sitemap></s:sitemapindex>", {})
    )
    assert (found.is_index, found.addresses) == (True, (("/a", None),))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'<!DOCTYPE u [<!ENTITY a "b">]><urlset><url><loc>&a;</loc></url></urlset>', "declares entities"),
        (b'<!DOCTYPE u [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset>&a;</urlset>', "declares entities"),
        (b"<urlset>" + b"<url>" * 1_000_000, "open inside each other"),
        (b"<urlset>" + b"<url/>" * (MAX_ADDRESSES + 1) + b"</urlset>", "more than 50000 addresses"),
        (b"<urlset><url>", "malformed XML"),
        (b"<rss/>", "is not a sitemap"),
        (b"", "malformed XML"),
    ],
)
def test_what_is_no_sitemap_or_a_hostile_one_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidDocument, match=reason):
        parse(content, {})


@pytest.mark.parametrize("answer", [None, [], {}, {"addresses": 1}, {"addresses": [1]}, {"addresses": [["a", 1]]}])
def test_an_answer_of_another_shape_is_refused(answer: object) -> None:
    with pytest.raises(InvalidDocument):
        read_sitemap(answer)


@pytest.mark.parametrize(
    ("date", "settled"),
    [
        ("2026-08-01", True),
        ("2026-08-02", False),
        ("2026-08-03", False),
        ("2026-08-03T11:59:58Z", True),
        ("2026-08-03T13:59:58+02:00", True),
        ("2026-08-03T12:00:00Z", False),
        ("2027-01-01", False),
        ("2026-08", False),
        ("yesterday", False),
    ],
)
def test_a_date_of_change_is_settled_when_it_is_over_everywhere(date: str, settled: bool) -> None:
    assert is_settled(date, datetime(2026, 8, 3, 12, tzinfo=UTC)) is settled


@pytest.mark.parametrize(
    ("broken", "addresses"),
    [
        ("<url><loc>/b?x=1&y=2</loc></url>", ["/a", "/b?x=1&y=2", "/c"]),
        ("<url><loc>/b?x=1&amp;y=2&z=3</loc></url>", ["/a", "/b?x=1&y=2&z=3", "/c"]),
        ("<url><loc>/b&eacute;</loc><lastmod>2026-01-01</lastmod></url>", ["/a", "/bé", "/c"]),
        ("<url><loc><![CDATA[/b&c]]></loc><title>A < B</title></url>", ["/a", "/b&c", "/c"]),
        ("<url><loc>/b</loc>", ["/a", "/b", "/c"]),
        ("<url><loc>/b</url>", ["/a", "/c"]),
        ("<url>\x01<loc>/b</loc></url>", ["/a", "/b", "/c"]),
    ],
)
def test_a_broken_entry_does_not_cost_the_others(broken: str, addresses: list[str]) -> None:
    content = f"<urlset {NAMESPACE}><url><loc>/a</loc></url>{broken}<url><loc>/c</loc></url></urlset>"
    found = read_sitemap(parse(content.encode(), {}))
    assert [address for address, _ in found.addresses] == addresses
    assert found.is_whole and found.fault is not None and found.fault.startswith("malformed XML at line 1")


def test_a_sitemap_that_ends_early_is_known_not_to_be_whole() -> None:
    found = read_sitemap(parse(f"<urlset {NAMESPACE}><url><loc>/a</loc></url><url><loc>/b".encode(), {}))
    assert (found.addresses, found.is_whole) == ((("/a", None),), False)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_with_an_address_in_each_line_is_a_sitemap(codec: str) -> None:
    found = read_sitemap(parse("https://example.com/a\r\n\r\n  https://example.com/b?x=1&y=2\n".encode(codec), {}))
    assert found.addresses == (("https://example.com/a", None), ("https://example.com/b?x=1&y=2", None))


def test_a_sitemap_in_an_encoding_of_several_bytes_is_read() -> None:
    content = '<?xml version="1.0" encoding="gb2312"?><urlset><url><loc>/水门</loc></url></urlset>'.encode("gb2312")
    assert read_sitemap(parse(content, {})).addresses == (("/水门", None),)
