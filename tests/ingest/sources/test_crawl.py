"""Sitemaps as sources: which pages are fetched, which are left alone, and what is never deleted."""

from __future__ import annotations

import gzip
import tracemalloc
from dataclasses import replace

import pytest

from aidre.ingest.fetch.fetcher import FetchRules
from tests.support.ingests import Bench
from tests.support.websites import ALLOWED, Site, counts, gzip_bomb, page, published, run, sitemap

LONG_AGO, RECENTLY = "2026-01-01T00:00:00Z", "2026-02-01"


def test_a_sitemap_brings_its_pages_and_skips_those_that_did_not_change(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", LONG_AGO), (site.url("/b"), None)), "application/xml")
    site.put("/a", page("one"))
    site.put("/b", page("two"), ETag='"b"')
    assert counts(run(bench, site.url("/s.xml"))) == (2, 2, 0, 0, 0)
    site.asked.clear()
    assert counts(run(bench, site.url("/s.xml"), mirror=True)) == (2, 0, 2, 0, 0)
    assert site.asked == ["/s.xml", "/b"]
    assert site.headers[-1]["If-None-Match"] == '"b"'
    site.put("/s.xml", sitemap(("/a", RECENTLY), ("/b", None)), "application/xml")
    site.put("/a", page("one more"))
    assert counts(run(bench, site.url("/s.xml"))) == (2, 1, 1, 0, 0)


def test_a_date_of_change_is_not_trusted_while_it_lasts(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", "2999-01-01"), ("/b", "soon")), "text/xml")
    site.put("/a", page("one"))
    site.put("/b", page("two"))
    run(bench, site.url("/s.xml"))
    site.put("/a", page("changed on the same day"))
    assert counts(run(bench, site.url("/s.xml"))) == (2, 1, 1, 0, 0)


def test_a_sitemap_that_has_not_changed_is_not_sent_again_unless_it_is_mirrored(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", LONG_AGO), ("/b", LONG_AGO)), "application/xml", ETag='"s"')
    site.put("/a", page("one"))
    site.put("/b", page("two"))
    run(bench, site.url("/s.xml"))
    site.asked.clear()
    assert counts(run(bench, site.url("/s.xml"))) == (2, 0, 2, 0, 0)
    assert (site.asked, site.headers[-1]["If-None-Match"]) == (["/s.xml"], '"s"')
    assert counts(run(bench, site.url("/s.xml"), mirror=True)) == (2, 0, 2, 0, 0)
    assert "If-None-Match" not in site.headers[-1]


def test_a_sitemap_with_a_page_that_failed_is_sent_again(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/a", LONG_AGO), ("/b", LONG_AGO)), "application/xml", ETag='"s"')
    site.put("/a", page("one"))
    run(bench, site.url("/s.xml"))
    assert bench.problems == [f"{site.url('/b')}: answered 404 Not Found"]
    site.put("/b", page("two"))
    assert counts(run(bench, site.url("/s.xml"))) == (2, 1, 1, 0, 0)


def test_mirroring_a_sitemap_deletes_what_it_no_longer_lists_and_nothing_that_failed(bench: Bench, site: Site) -> None:
    for name in "abcd":
        site.put(f"/{name}", page(name))
    site.put("/s.xml", sitemap(*((f"/{name}", None) for name in "abcd")), "application/xml")
    run(bench, site.url("/s.xml"))
    site.put("/s.xml", sitemap(*((f"/{name}", None) for name in "bcd")), "application/xml")
    site.fail("/b", 410)
    site.put("/c", b"", "image/png")
    assert counts(run(bench, site.url("/s.xml"), mirror=True)) == (1, 0, 1, 1, 2)
    assert bench.ids() == [site.url(f"/{name}") for name in "bcd"]
    site.put("/s.xml", sitemap(("/b", None)), "application/xml")
    site.put("/b", page("b"))
    summary = run(bench, site.url("/s.xml"), mirror=True)
    assert summary.refused is not None and "2 of the 3 documents" in summary.refused
    assert run(bench, site.url("/s.xml"), mirror=True, force=True).deleted == 2


@pytest.mark.parametrize("answer", ["down", "a page", "words", "broken", "a loop"])
def test_a_sitemap_that_is_down_deletes_nothing(bench: Bench, site: Site, answer: str) -> None:
    site.put("/s.xml", sitemap(("/a", None), ("/none", None)), "application/xml")
    site.put("/a", page("one"))
    run(bench, site.url("/s.xml"))
    if answer == "down":
        site.fail("/s.xml", 500)
    elif answer == "a page":
        site.put("/s.xml", page("We are at work."))
    elif answer == "words":
        site.put("/s.xml", "maintenance", "text/plain")
    elif answer == "broken":
        site.put("/s.xml", sitemap(("/b", None))[:-9], "application/xml")
    else:
        site.redirect("/s.xml", "/s.xml")
    failed = run(bench, site.url("/s.xml"), mirror=True, force=True).failed
    assert failed == (2 if answer == "broken" else 1)  # the address that it still lists is requested
    assert bench.ids() == [site.url("/a")]


def test_an_index_brings_the_pages_of_its_sitemaps_also_packed_ones(bench: Bench, site: Site) -> None:
    index = (
        "<sitemapindex><sitemap><loc>/one.xml</loc></sitemap><sitemap><loc>/two.xml.gz</loc></sitemap></sitemapindex>"
    )
    site.put("/index.xml", index, "text/xml", ETag='"i"')
    site.put("/one.xml", sitemap(("/a", LONG_AGO), ("/b", LONG_AGO)), "text/xml")
    site.put("/two.xml.gz", gzip.compress(sitemap(("/b", None), ("/c", LONG_AGO)).encode()), "application/x-gzip")
    for name in "abc":
        site.put(f"/{name}", page(name))
    assert counts(run(bench, site.url("/index.xml"))) == (3, 3, 0, 0, 0)
    site.fail("/two.xml.gz", 503)
    site.put("/one.xml", sitemap(("/b", LONG_AGO)), "text/xml")
    assert counts(run(bench, site.url("/index.xml"), mirror=True, force=True)) == (1, 0, 1, 0, 1)
    assert len(bench.ids()) == 3


def test_an_index_of_itself_ends(bench: Bench, site: Site) -> None:
    links = "".join(f"<sitemap><loc>/i{n}.xml</loc></sitemap>" for n in range(3))
    for n in range(3):
        site.put(f"/i{n}.xml", f"<sitemapindex>{links}</sitemapindex>", "text/xml")
    assert run(bench, site.url("/i0.xml")).failed == 1
    assert "indexes of indexes" in bench.problems[0]


def test_pages_of_other_sites_are_left_out(bench: Bench, site: Site) -> None:
    listed = [("/a", None), ("http://localhost/b", None), ("/away", None), ("http://[::1", None)]
    site.put("/s.xml", sitemap(*listed), "text/xml")
    site.put("/a", page("one"))
    site.redirect("/away", f"http://localhost:{site.port}/a")
    assert counts(run(bench, site.url("/s.xml"))) == (1, 1, 0, 0, 2)
    assert "another site" in bench.problems[0] and "not a URL" in bench.problems[1]
    assert any("1 addresses skipped (on another site 1)" in notice for notice in bench.notices)


def test_robots_txt_closes_pages_and_a_page_that_is_named_stays_open(bench: Bench, site: Site) -> None:
    rules = replace(ALLOWED, robots=True)
    site.put("/robots.txt", "User-agent: *\nDisallow: /closed/\n", "text/plain")
    site.put("/s.xml", sitemap(("/open", None), ("/closed/a", None)), "text/xml")
    for path in ("/open", "/closed/a"):
        site.put(path, page(path))
    assert counts(run(bench, site.url("/s.xml"), rules=rules)) == (1, 1, 0, 0, 0)
    assert "closed by robots.txt 1" in bench.notices[-1]
    assert site.asked.count("/robots.txt") == 1
    assert counts(run(bench, site.url("/closed/a"), rules=rules)) == (1, 1, 0, 0, 0)
    site.fail("/robots.txt", 500)
    assert run(bench, site.url("/s.xml"), rules=rules).failed == 2
    site.fail("/robots.txt", 404)
    assert counts(run(bench, site.url("/s.xml"), rules=rules)) == (2, 0, 2, 0, 0)


def test_a_host_that_fails_again_and_again_is_left_alone(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(*((f"/{n}", None) for n in range(20))), "text/xml")
    for n in range(20):
        site.fail(f"/{n}", 404 if n < 10 else 503)
    assert run(bench, site.url("/s.xml")).failed == 10 + 5 + 1
    assert "failed to deliver 5 pages in a row, 5 other pages were not requested" in bench.problems[-1]
    assert "/15" not in site.asked


def test_limits_of_pages_and_bytes_end_a_sitemap_and_delete_nothing(bench: Bench, site: Site) -> None:
    for n in range(6):
        site.put(f"/{n}", page(str(n)))
    site.put("/s.xml", sitemap(*((f"/{n}", None) for n in range(6))), "text/xml")
    run(bench, site.url("/s.xml"))
    limited = replace(ALLOWED, pages=2)
    summary = run(bench, site.url("/s.xml"), rules=limited, mirror=True, force=True)
    assert (counts(summary), len(bench.problems)) == ((2, 0, 2, 0, 1), 1)
    assert "more than 2 pages" in bench.problems[0]
    limited = replace(ALLOWED, total_bytes=500)
    summary = run(bench, site.url("/s.xml"), rules=limited, mirror=True, force=True)
    assert summary.deleted == 0 and "total_bytes allows" in bench.problems[0]


def test_a_sitemap_on_disk_brings_pages_when_it_is_named_not_with_its_folder(bench: Bench, site: Site) -> None:
    path = bench.write("sitemap.xml", sitemap((site.url("/a"), None), ("/relative", None)))
    bench.write("note.md", "A note.")
    bench.write("other.xml", "<project/>")
    site.put("/a", page("one"))
    assert counts(run(bench)) == (1, 1, 0, 0, 0)
    assert any("2 files of other kinds skipped (.xml 2)" in notice for notice in bench.notices)
    assert counts(run(bench, str(path), mirror=True)) == (1, 1, 0, 0, 1)
    assert bench.ids() == ["docs/note.md", site.url("/a")]


def test_what_a_sitemap_lists_is_read_as_pages_alone(bench: Bench, site: Site) -> None:
    site.put("/s.xml", sitemap(("/rows", None), ("/notes", None), ("/a.txt", None)), "text/xml")
    site.put("/rows", '{"id": "r1", "text": "one"}', "application/x-ndjson")
    site.put("/notes", "# Title", "text/markdown")
    site.put("/a.txt", "A text.", "text/plain")
    assert counts(run(bench, site.url("/s.xml"))) == (1, 1, 0, 0, 0)
    assert "application/x-ndjson 1, text/markdown 1" in bench.notices[-1]


@pytest.mark.slow
def test_hostile_answers_are_named_one_by_one_and_take_no_memory(bench: Bench, site: Site) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    laughs = f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]>'
    hostile = {
        "/laughs": ((laughs + "<rss version='2.0'><channel>&e9;</channel></rss>").encode(), "application/rss+xml"),
        "/list-laughs": (f"{laughs}<urlset>&e9;</urlset>".encode(), "application/xml"),
        "/deep-feed": (b"<rss>" + b"<a>" * 300_000, "application/rss+xml"),
        "/deep-list": (b"<urlset>" + b"<a>" * 300_000, "application/xml"),
        "/deep-page": (b"<div>" * 60_000, "text/html"),
        "/endless-list": (b"<urlset>" + b"<url><loc>/</loc></url>" * 60_000 + b"</urlset>", "application/xml"),
        "/no.pdf": (b"%PDF-1.7\n" + b"\xff\x00" * 100_000, "application/pdf"),
    }
    for path, (body, kind) in hostile.items():
        site.zip(path, body, kind)
    site.put("/bomb", gzip_bomb(256 << 20), "text/html", Content_Encoding="gzip")
    site.put("/feed-bomb", gzip_bomb(256 << 20, b"<rss>"), "application/rss+xml", Content_Encoding="gzip")
    site.put("/packed.xml.gz", gzip_bomb(256 << 20, b"<urlset>"), "application/gzip")
    site.redirect("/loop", "/loop")
    site.put("/good", page("one"))
    paths = [*hostile, "/bomb", "/feed-bomb", "/packed.xml.gz", "/loop"]
    del hostile
    run(bench, site.url("/good"))
    tracemalloc.start()
    try:
        summary = run(bench, *map(site.url, paths), site.url("/good"), mirror=True, force=True)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert counts(summary) == (1, 0, 1, 0, len(paths))
    assert [problem.split(": ")[0] for problem in bench.problems] == list(map(site.url, paths))


def test_sixty_hostile_addresses_of_a_list_are_named_one_by_one(bench: Bench, site: Site) -> None:
    private = [f"http://{host}/{n}" for n in range(8) for host in ("10.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254")]
    unread = [f"http://{host}/{n}" for n in range(9) for host in ("127.1", "0x7f000001", "user@127.0.0.1", "a b")]
    path = bench.write("sitemap.xml", sitemap(*((url, None) for url in [*private, *unread])))
    summary = run(bench, str(path), rules=FetchRules(robots=False))
    assert (len(private) + len(unread), counts(summary)) == (60, (0, 0, 0, 0, 60))
    assert sum(": refused: " in problem for problem in bench.problems) == len(private)


def test_one_host_that_is_down_does_not_keep_the_others_from_being_read(bench: Bench, site: Site) -> None:
    with published() as other:
        gone = [(other.url(f"/{n}"), None) for n in range(7)]
    site.put("/a", page("one"))
    path = bench.write("sitemap.xml", sitemap(*gone, (site.url("/a"), None)))
    assert counts(run(bench, str(path))) == (1, 1, 0, 0, 5 + 1)
    assert "2 other pages were not requested" in bench.problems[-1]


def test_a_sitemap_with_a_broken_entry_brings_the_others_and_deletes_nothing(bench: Bench, site: Site) -> None:
    site.put("/a", page("one"))
    site.put("/b?x=1&y=2", page("two"))
    site.put("/c", page("three"))
    site.put("/s.xml", sitemap(("/a", None), ("/b?x=1&amp;y=2", None), ("/c", None)), "application/xml")
    run(bench, site.url("/s.xml"))
    site.put("/s.xml", sitemap(("/a", None), ("/b?x=1&y=2", None)), "application/xml")
    assert counts(run(bench, site.url("/s.xml"), mirror=True)) == (2, 0, 2, 0, 0)
    assert any("malformed XML at line 1" in notice for notice in bench.notices)
    assert bench.ids() == [site.url(path) for path in ("/a", "/b?x=1&y=2", "/c")]


def test_a_text_with_an_address_in_each_line_is_a_sitemap(bench: Bench, site: Site) -> None:
    site.put("/a", page("one"))
    site.put("/b", page("two"))
    site.put("/pages.txt", f"{site.url('/a')}\n{site.url('/b')}\n".encode(), "text/plain")
    assert counts(run(bench, site.url("/pages.txt"))) == (2, 2, 0, 0, 0)
    path = bench.write("pages.txt", f"{site.url('/a')}\n{site.url('/b')}\n")
    assert counts(run(bench, str(path))) == (2, 0, 2, 0, 0)


@pytest.mark.parametrize("order", ["old first", "new first", "new not listed"])
def test_a_redirect_to_a_page_is_no_second_document(bench: Bench, site: Site, order: str) -> None:
    site.put("/new", page("one"), ETag='"n"')
    site.redirect("/old", "/new")
    site.redirect("/older", "/new")
    listed = {"old first": ("/old", "/new"), "new first": ("/new", "/old")}.get(order, ("/old", "/older"))
    site.put("/s.xml", sitemap(*((path, None) for path in listed)), "application/xml")
    for _ in range(2):
        assert run(bench, site.url("/s.xml"), mirror=True).documents == 1
        assert bench.ids() == [site.url("/old" if order == "new not listed" else "/new")]


@pytest.mark.parametrize("listed", [("/a", "/a?from=news"), ("/a?from=news", "/a"), ("/a?from=news", "/a?from=mail")])
def test_a_second_address_of_a_canonical_page_is_no_second_document(
    bench: Bench, site: Site, listed: tuple[str, str]
) -> None:
    for path in ("/a", "/a?from=news", "/a?from=mail"):
        site.put(path, page("one", head=f'<link rel=canonical href="{site.url("/a")}">'), ETag='"n"')
    site.put("/s.xml", sitemap(*((path, None) for path in listed)), "application/xml")
    for _ in range(3):
        assert run(bench, site.url("/s.xml"), mirror=True).documents == 1
        assert bench.ids() == [site.url(listed[0])]


def test_pages_that_call_the_first_page_canonical_by_mistake_are_all_kept(bench: Bench, site: Site) -> None:
    for name, words in (("/", "Welcome to the mill."), ("/a", "The old bridge."), ("/b", "How flour is made by hand.")):
        site.put(name, page(words, head=f'<link rel=canonical href="{site.url("/")}">'))
    site.put("/s.xml", sitemap(("/", None), ("/a", None), ("/b", None)), "application/xml")
    assert run(bench, site.url("/s.xml")).documents == 3
