"""Pages and feeds as sources: what they become, run after run, and what happens when they are down."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.fetch.fetcher import FetchRules
from tests.support.ingests import Bench
from tests.support.shell import Shell
from tests.support.websites import Site, counts, feed, item, page, published, run


def test_a_page_becomes_a_document_under_its_address(bench: Bench, site: Site) -> None:
    site.put("/a/tea.html?x=1", page("Green tea.", "Tea"))
    assert counts(run(bench, site.url("/a/tea.html?x=1#top"))) == (1, 1, 0, 0, 0)
    assert bench.ids() == [site.url("/a/tea.html?x=1")]
    chunk = bench.store.open("c").get(site.url("/a/tea.html?x=1") + "#chunk_1")
    assert chunk is not None
    assert (chunk.text, chunk.url, chunk.title) == ("Green tea.", site.url("/a/tea.html?x=1"), "Tea")
    assert bench.metadata(chunk.id)["language"] == "en"


@pytest.mark.parametrize(
    ("header", "value", "sent"),
    [
        ("ETag", '"v1"', "If-None-Match"),
        ("ETag", 'W/"v1"', "If-None-Match"),
        ("Last_Modified", "Sat, 01 Aug 2026 10:00:00 GMT", "If-Modified-Since"),
    ],
)
def test_a_page_that_has_not_changed_is_not_sent_again(
    bench: Bench, site: Site, header: str, value: str, sent: str
) -> None:
    site.put("/p", page("one"), **{header: value})
    run(bench, site.url("/p"))
    assert sent not in site.headers[-1]
    assert counts(run(bench, site.url("/p"), mirror=True)) == (1, 0, 1, 0, 0)
    assert site.headers[-1][sent] == value
    assert bench.commits == []
    site.put("/p", page("two"), **{header: value + "+"})
    assert counts(run(bench, site.url("/p"))) == (1, 1, 0, 0, 0)
    assert bench.text(site.url("/p") + "#chunk_1") == "two"


def test_a_page_is_sent_again_when_it_has_to_be_cut_anew_or_is_no_longer_stored(bench: Bench, site: Site) -> None:
    site.put("/p", page("one"), ETag='"v1"')
    run(bench, site.url("/p"))
    run(bench, site.url("/p"), chunk_tokens=100)
    assert "If-None-Match" not in site.headers[-1]
    assert counts(run(bench, site.url("/p"), chunk_tokens=100)) == (1, 0, 1, 0, 0)
    with bench.store.writer("c", spaces=bench.spaces) as writer:
        writer.delete([site.url("/p")])
        writer.commit()
    assert counts(run(bench, site.url("/p"), chunk_tokens=100)) == (1, 1, 0, 0, 0)


def test_validators_go_only_to_the_address_that_gave_them(bench: Bench, site: Site) -> None:
    site.redirect("/p", "/q")
    site.put("/q", page("one"), ETag='"v1"')
    run(bench, site.url("/p"))
    run(bench, site.url("/p"))
    assert site.asked == ["/p", "/q", "/p", "/q"]
    assert ["If-None-Match" in headers for headers in site.headers] == [False, False, False, True]
    site.put("/r", page("another"), ETag='"v1"')
    site.redirect("/p", "/r")
    assert counts(run(bench, site.url("/p"))) == (1, 1, 0, 0, 0)


def test_a_redirected_page_keeps_its_id_and_has_the_address_where_it_was_found(bench: Bench, site: Site) -> None:
    site.redirect("/old", "new/")
    site.put("/new/", page("moved"))
    run(bench, site.url("/old"))
    chunk = bench.store.open("c").get(site.url("/old") + "#chunk_1")
    assert chunk is not None and chunk.url == site.url("/new/")


def test_the_entries_of_a_feed_are_documents(bench: Bench, site: Site) -> None:
    body = "&lt;p&gt;Tea &amp;amp; water.&lt;/p&gt;&lt;script&gt;bad()&lt;/script&gt;&lt;p&gt;Hot.&lt;/p&gt;"
    site.put("/feed.xml", feed(e1=body, e2="two"), "application/rss+xml")
    assert counts(run(bench, site.url("/feed.xml"))) == (2, 2, 0, 0, 0)
    assert bench.ids() == ["urn:tea:1", "urn:tea:2"]
    chunk = bench.store.open("c").get("urn:tea:1#chunk_1")
    assert chunk is not None
    assert (chunk.text, chunk.title, chunk.url) == ("Tea & water.\n\nHot.", "Entry 1", site.url("/news/1"))
    assert chunk.updated_at == "2026-08-01T10:00:00Z"
    assert bench.metadata("urn:tea:1#chunk_1") | {"feed": "News of tea", "language": "en"} == bench.metadata(
        "urn:tea:1#chunk_1"
    )


def test_a_feed_that_has_not_changed_is_not_sent_again(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="one", e2="two"), "application/rss+xml", ETag='"v1"')
    run(bench, site.url("/f"), commit_every=1)
    assert counts(run(bench, site.url("/f"), mirror=True)) == (2, 0, 2, 0, 0)
    assert site.headers[-1]["If-None-Match"] == '"v1"'
    assert bench.commits == []
    site.put("/f", feed(e1="one", e2="2"), "application/rss+xml", ETag='"v2"')
    assert counts(run(bench, site.url("/f"))) == (2, 1, 1, 0, 0)
    assert counts(run(bench, site.url("/f"))) == (2, 0, 2, 0, 0)
    assert site.headers[-1]["If-None-Match"] == '"v2"'


def test_new_validators_alone_make_no_generation(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="one"), "application/rss+xml", ETag='"v1"')
    run(bench, site.url("/f"))
    site.put("/f", feed(e1="one"), "application/rss+xml", ETag='"v2"')
    assert counts(run(bench, site.url("/f"))) == (1, 0, 1, 0, 0)
    assert bench.commits == []


def test_a_feed_with_a_faulty_entry_is_read_and_named_again(bench: Bench, site: Site) -> None:
    wrong = f"<item><guid>urn:{'x' * 2000}</guid><description>w</description></item>"
    site.put("/f", feed(item(1, "one") + wrong), "application/rss+xml", ETag='"v1"')
    for _ in range(2):
        summary = run(bench, site.url("/f"))
        assert (summary.failed, summary.exit_status) == (1, 1)
        assert bench.problems[0].startswith(site.url("/f") + ":entry 2: id has 2004 characters")
    assert bench.ids() == ["urn:tea:1"]


def test_entries_that_left_a_feed_stay_unless_it_is_mirrored(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="1", e2="2", e3="3"), "application/rss+xml")
    run(bench, site.url("/f"))
    site.put("/f", feed(e2="2", e3="3", e4="4"), "application/rss+xml")
    assert counts(run(bench, site.url("/f"))) == (3, 1, 2, 0, 0)
    assert len(bench.ids()) == 4
    assert counts(run(bench, site.url("/f"), mirror=True)) == (3, 0, 3, 1, 0)
    assert bench.ids() == ["urn:tea:2", "urn:tea:3", "urn:tea:4"]


@pytest.mark.parametrize("status", [401, 404, 410, 418, 429, 500, 503, 204, 206, 304, 399, 999])
def test_a_feed_or_page_that_is_down_deletes_nothing_and_is_named(bench: Bench, site: Site, status: int) -> None:
    site.put("/f", feed(e1="1", e2="2"), "application/rss+xml")
    site.put("/p", page("one"))
    run(bench, site.url("/f"), site.url("/p"))
    site.fail("/f", status)
    site.fail("/p", status)
    summary = run(bench, site.url("/f"), site.url("/p"), mirror=True, force=True)
    assert (counts(summary), summary.exit_status) == ((0, 0, 0, 0, 2), 1)
    assert [problem.split(": ")[0] for problem in bench.problems] == [site.url("/f"), site.url("/p")]
    assert all(f"answered {status}" in problem for problem in bench.problems)
    assert len(bench.ids()) == 3


def test_a_host_that_is_gone_is_named_and_the_next_source_is_read(bench: Bench, site: Site) -> None:
    with published() as other:
        gone = other.url("/f")
    site.put("/p", page("one"))
    assert counts(run(bench, gone, site.url("/p"))) == (1, 1, 0, 0, 1)
    assert bench.problems == [f"{gone}: the connection failed: Connection refused"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            '<!DOCTYPE rss [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]><rss version="2.0"><channel>&b;</channel></rss>',
            "declares entities of its own",
        ),
        (
            '<rss version="2.0"><!-- x --></rss><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
            "malformed XML",
        ),
        (f'<rss version="2.0">{"<a>" * 300}', "more than 256 elements"),
        ('<rss version="2.0"><channel><title>none</title></channel></rss>', None),
        ("<feed>", "malformed XML at line 1: no element found"),
    ],
)
def test_a_hostile_feed_is_named_and_the_next_source_is_read(
    bench: Bench, site: Site, body: str, reason: str | None
) -> None:
    site.put("/f", body, "application/rss+xml")
    site.put("/p", page("one"))
    summary = run(bench, site.url("/f"), site.url("/p"))
    assert counts(summary) == (1, 1, 0, 0, 0 if reason is None else 1)
    assert reason is None or reason in bench.problems[0]


def test_private_addresses_are_refused_unless_the_operator_allows_them(bench: Bench, site: Site) -> None:
    site.put("/p", page("one"))
    summary = run(bench, site.url("/p"), rules=FetchRules())
    assert (counts(summary), site.asked) == ((0, 0, 0, 0, 1), [])
    assert "127.0.0.1 is loopback; [sources] allow_private_addresses" in bench.problems[0]


def test_what_is_no_url_is_named_and_the_next_source_is_read(bench: Bench, site: Site) -> None:
    site.put("/p", page("one"))
    wrong = ["http://0x7f.1/", "ftp://example.com/", "file:///etc/passwd", "http://user:secret@example.com/"]
    assert counts(run(bench, *wrong, site.url("/p"))) == (1, 1, 0, 0, 4)
    assert "secret" not in "".join(bench.problems)


def test_a_dry_run_fetches_and_writes_nothing(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="1", e2="2"), "application/rss+xml", ETag='"v1"')
    summary = run(bench, site.url("/f"), dry_run=True)
    assert (summary.documents, summary.new, bench.store.path.exists()) == (2, 2, False)
    run(bench, site.url("/f"))
    generation = bench.store.current("c")
    site.put("/f", feed(e1="1", e2="2", e3="3"), "application/rss+xml", ETag='"v2"')
    assert run(bench, site.url("/f"), dry_run=True).new == 1
    assert bench.store.current("c") == generation
    assert run(bench, site.url("/f")).new == 1


def test_two_addresses_share_a_name_only_on_one_site(bench: Bench, site: Site) -> None:
    site.put("/a", feed(e1="1"), "application/rss+xml")
    site.put("/b", feed(e2="2"), "application/rss+xml")
    assert run(bench, site.url("/a"), site.url("/b"), source="news").new == 2
    site.fail("/a", 500)
    site.put("/b", feed(e3="3"), "application/rss+xml")
    summary = run(bench, site.url("/a"), site.url("/b"), source="news", mirror=True, force=True)
    assert counts(summary) == (1, 1, 0, 0, 1)
    assert bench.ids() == ["urn:tea:1", "urn:tea:2", "urn:tea:3"]


def test_a_feed_that_answers_with_a_page_deletes_nothing_and_is_named(bench: Bench, site: Site) -> None:
    site.put("/f", feed(e1="one", e2="two"), "application/rss+xml")
    run(bench, site.url("/f"))
    site.put("/f", page("We are at work."))
    assert counts(run(bench, site.url("/f"), mirror=True, force=True)) == (0, 0, 0, 0, 1)
    assert "was a list (feed) and is text/html now" in bench.problems[0]
    assert bench.ids() == ["urn:tea:1", "urn:tea:2"]


def test_a_feed_that_breaks_off_deletes_nothing(bench: Bench, site: Site) -> None:
    whole = feed(e1="one", e2="two", e3="three")
    site.put("/f", whole, "application/rss+xml")
    run(bench, site.url("/f"))
    site.put("/f", whole[: whole.index('<guid isPermaLink="false">urn:tea:3')], "application/rss+xml")
    assert run(bench, site.url("/f"), mirror=True, force=True).deleted == 0
    assert {"urn:tea:1", "urn:tea:2", "urn:tea:3"} <= set(bench.ids())


@pytest.mark.parametrize("name", ["news.rss", "news.atom", "news.xml"])
def test_feeds_on_disk_are_read_with_their_folder(bench: Bench, name: str) -> None:
    bench.write(name, feed(e1="one", e2="two"))
    assert counts(run(bench)) == (2, 2, 0, 0, 0)
    bench.write(name, feed(e1="one"))
    assert counts(run(bench, mirror=True)) == (1, 0, 1, 1, 0)
    assert counts(run(bench, str(bench.docs / name))) == (1, 0, 1, 0, 0)


def test_the_command_takes_addresses_beside_paths(
    tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, capsys)
    site.put("/tea.html", page("Oolong is half oxidised."))
    status, events, err = shell.ingest(shell.source, site.url("/tea.html"))
    assert (status, events[-1]["documents"], events[-1]["failed"]) == (1, 3, 1)
    assert f"{site.url('/tea.html')}: refused: 127.0.0.1 is loopback; [sources] allow_private_addresses" in err
    with shell.config.open("a", encoding="utf-8") as config:
        config.write("\n[sources]\nallow_private_addresses = true\nuser_agent = 'tester'\n")
    status, events, err = shell.ingest(shell.source, site.url("/tea.html"))
    assert (status, events[-1]["documents"], events[-1]["updated"]) == (0, 4, 1)
    assert site.headers[-1]["User-Agent"] == "tester"
    (hit,) = shell.json("search", "oolong oxidised", "-k", "1")
    assert hit["source"]["url"] == site.url("/tea.html")
