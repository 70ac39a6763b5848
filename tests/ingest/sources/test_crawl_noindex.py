"""Pages that ask not to be indexed, by a meta element or by X-Robots-Tag: a crawl leaves them out, a mirror deletes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.ingests import Bench
from tests.support.websites import Site, counts, feed, page, run, sitemap

LONG_AGO = "2026-01-01T00:00:00Z"


def tagged(text: str, content: str = "noindex", name: str = "robots") -> str:
    return page(text).replace("<head>", f"<head><meta name='{name}' content='{content}'>")


@pytest.mark.parametrize(
    ("body", "tag"),
    [
        (tagged("two"), None),
        (tagged("two", "NOFOLLOW, NoIndex", "Robots"), None),
        (tagged("two", "none"), None),
        (tagged("two", "noindex", "AIDRE"), None),
        (page("two"), "noindex"),
        (page("two"), "otherbot: noarchive, aidre: noindex"),
        (page("two"), "unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT"),
    ],
)
def test_a_page_that_asks_not_to_be_indexed_is_left_out_and_named(
    bench: Bench, site: Site, body: str, tag: str | None
) -> None:
    site.put("/s.xml", sitemap(("/a", None), ("/b", None)), "text/xml")
    site.put("/a", page("one"))
    site.put("/b", body, **({} if tag is None else {"X-Robots-Tag": tag}))
    summary = run(bench, site.url("/s.xml"))
    assert (counts(summary), summary.left_out, summary.exit_status) == ((1, 1, 0, 0, 0), 1, 0)
    assert bench.ids() == [site.url("/a")]
    assert summary.drafts[0].startswith(f"{site.url('/b')} (")
    assert run(bench, site.url("/s.xml"), include_drafts=True).new == 1
    summary = run(bench, site.url("/s.xml"))
    assert (summary.left_out, summary.stored_drafts) == (1, (site.url("/b"),))
    assert run(bench, site.url("/s.xml"), mirror=True).deleted == 1
    assert bench.ids() == [site.url("/a")]


@pytest.mark.parametrize(
    ("body", "tag"),
    [
        (tagged("two", "index, follow"), None),
        (tagged("two", "noindex", "googlebot"), None),
        (tagged("two", "noindex", "description"), None),
        (page("two"), "googlebot: noindex"),
        (page("two"), "all"),
    ],
)
def test_what_is_for_other_robots_is_not_for_this_one(bench: Bench, site: Site, body: str, tag: str | None) -> None:
    site.put("/b", body, **({} if tag is None else {"X-Robots-Tag": tag}))
    assert counts(run(bench, site.url("/b"))) == (1, 1, 0, 0, 0)


def test_a_page_that_is_named_is_left_out_and_the_cure_is_named(bench: Bench, site: Site) -> None:
    site.put("/b", tagged("two"))
    summary = run(bench, site.url("/b"))
    assert (summary.left_out, summary.exit_status) == (1, 0)
    assert "--include-drafts" in bench.notices[0]


def test_a_list_that_is_not_indexed_brings_its_documents(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="1"), "application/rss+xml", X_Robots_Tag="noindex")
    site.put("/s.xml", sitemap(("/a", None)), "text/xml", X_Robots_Tag="noindex, follow")
    site.put("/a", page("one"))
    assert run(bench, site.url("/f"), site.url("/s.xml")).new == 2


def test_other_kinds_of_pages_have_the_header_alone(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a.txt", None), ("/b.txt", None)), "text/xml")
    site.put("/a.txt", "one", "text/plain")
    site.put("/b.txt", "two", "text/plain", X_Robots_Tag="noindex")
    assert (run(bench, site.url("/s.xml")).left_out, bench.ids()) == (1, [site.url("/a.txt")])


def test_a_page_that_has_not_changed_but_is_withdrawn_is_noticed(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", None), ("/b", None)), "text/xml")
    site.put("/a", page("one"))
    site.put("/b", page("two"), ETag='"b"')
    assert run(bench, site.url("/s.xml")).new == 2
    site.put("/b", page("two"), ETag='"b"', X_Robots_Tag="noindex")
    assert run(bench, site.url("/s.xml")).stored_drafts == (site.url("/b"),)
    assert run(bench, site.url("/s.xml"), mirror=True).deleted == 1


def test_a_sitemap_with_a_page_that_was_left_out_is_sent_again(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", LONG_AGO), ("/b", LONG_AGO)), "text/xml", ETag='"s"')
    site.put("/a", page("one"))
    site.put("/b", tagged("two"))
    run(bench, site.url("/s.xml"))
    site.put("/b", page("two"))
    assert counts(run(bench, site.url("/s.xml"))) == (2, 1, 1, 0, 0)


@pytest.mark.parametrize("way", ["meta", "header", "front matter"])
def test_a_page_that_expires_is_asked_for_again_though_it_has_not_changed(bench: Bench, site: Site, way: str) -> None:
    date = "25 Jun 2026 15:00:00 GMT"
    kind, header, body = "text/html", {}, page("two")
    if way == "meta":
        body = tagged("two", f"unavailable_after: {date}")
    elif way == "header":
        header = {"X-Robots-Tag": f"unavailable_after: {date}"}
    else:
        kind, body = "text/markdown", "---\nexpiryDate: 2026-06-25T15:00:00Z\n---\ntwo"
    site.put("/b", body, kind, ETag='"b"', **header)
    address = site.url("/b")
    if way != "front matter":
        site.put("/s.xml", sitemap(("/b", LONG_AGO)), "text/xml", ETag='"s"')
        address = site.url("/s.xml")
    assert run(bench, address).new == 1
    assert run(bench, address).unchanged == 1
    bench.now = datetime(2026, 6, 25, 15, tzinfo=UTC)
    summary = run(bench, address)
    assert (summary.unchanged, summary.stored_drafts) == (0, (site.url("/b"),))


def test_a_run_that_takes_drafts_and_one_that_does_not_read_the_same_pages(bench: Bench, site: Site) -> None:
    """A conditional request with the state of the other run would leave a page unread."""
    site.put("/s.xml", sitemap(("/b", LONG_AGO)), "text/xml", ETag='"s"')
    site.put("/b", tagged("two"), ETag='"b"')
    assert run(bench, site.url("/s.xml"), include_drafts=True).new == 1
    assert run(bench, site.url("/s.xml")).left_out == 1
    assert run(bench, site.url("/s.xml"), mirror=True, force=True).deleted == 1
    assert run(bench, site.url("/s.xml"), include_drafts=True).new == 1
