"""Servers that ask for time: how long they are waited for, and what is left for the next run."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch import fetcher
from aidre.ingest.fetch.fetcher import (
    MAX_TOTAL_WAIT_SECONDS,
    MAX_WAIT_SECONDS,
    Fetcher,
    RetryBudget,
    retry_after,
)
from aidre.ingest.fetch.urls import read_url
from tests.support.clocks import Clock
from tests.support.ingests import Bench
from tests.support.websites import ALLOWED, Site, counts, page, run, send, sitemap

NOW = datetime(2026, 4, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a run waits, which it does not; meanwhile no time passes."""
    waits: list[float] = []
    monkeypatch.setattr(fetcher, "monotonic", Clock(0.0))
    monkeypatch.setattr("aidre.ingest.pipeline.ingest.Fetcher", partial(Fetcher, pause=waits.append))
    return waits


def busy(site: Site, path: str, times: int, status: int = 503, after: str = "7") -> None:
    """A page that asks for time so often, and then is there."""
    left = [times]

    def answer(request: BaseHTTPRequestHandler) -> None:
        left[0] -= 1
        if left[0] < 0:
            site.put(path, page("one"))
            site.pages[path](request)
        else:
            send(request, status, b"", {"Retry-After": after})

    site.pages[path] = answer


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 5 ", 5.0),
        ("0", 1.0),
        ("Wed, 01 Apr 2026 12:00:30 GMT", 30.0),
        ("Wednesday, 01-Apr-26 12:00:30 GMT", 30.0),
        ("Wed Apr  1 12:00:30 2026", 30.0),
        ("Wed, 01 Apr 2026 11:00:00 GMT", 1.0),
        ("999999999", 999_999_999.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("\u0663", None),
        ("9" * 5000, None),
        ("Wed, 99 Apr 2026 12:00:30 GMT", None),
    ],
)
def test_the_time_that_is_asked_for_is_read_by_number_and_by_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


def test_patience_ends_with_an_address_with_one_long_wait_and_with_a_source() -> None:
    patience = RetryBudget()
    assert patience.allows(1, 0)
    assert patience.allows(1, 1)
    assert not patience.allows(1, 2)
    assert not patience.allows(MAX_WAIT_SECONDS + 1, 0)
    granted = 2.0
    while patience.allows(MAX_WAIT_SECONDS, 0):
        granted += MAX_WAIT_SECONDS
    assert MAX_TOTAL_WAIT_SECONDS - MAX_WAIT_SECONDS < granted <= MAX_TOTAL_WAIT_SECONDS


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("times", [1, 2])
def test_a_server_that_asks_for_time_is_waited_for(
    bench: Bench, site: Site, waits: list[float], status: int, times: int
) -> None:
    busy(site, "/p", times, status)
    assert counts(run(bench, site.url("/p"))) == (1, 1, 0, 0, 0)
    assert waits == [7.0] * times


def test_a_server_that_asks_again_and_again_is_named_and_what_is_stored_stays(
    bench: Bench, site: Site, waits: list[float]
) -> None:
    site.put("/p", page("one"))
    run(bench, site.url("/p"))
    busy(site, "/p", 3)
    summary = run(bench, site.url("/p"), mirror=True, force=True)
    assert (counts(summary), waits) == ((0, 0, 0, 0, 1), [7.0, 7.0])
    assert bench.problems == [f"{site.url('/p')}: answered 503 Service Unavailable with Retry-After 7 s"]
    assert bench.ids() == [site.url("/p")]
    assert counts(run(bench, site.url("/p"))) == (1, 0, 1, 0, 0)


@pytest.mark.parametrize("status", [404, 500, 502])
def test_only_who_is_overworked_is_waited_for(site: Site, tmp_path: Path, status: int) -> None:
    site.fail("/p", status, Retry_After="1")
    waits: list[float] = []
    with pytest.raises(FetchFailed) as caught:
        Fetcher(ALLOWED, pause=waits.append).get(read_url(site.url("/p")), tmp_path / "body")
    assert (waits, "retry_after" in caught.value.details) == ([], False)


def test_a_host_that_asks_for_more_time_than_there_is_is_left_alone_until_the_next_run(
    bench: Bench, site: Site, waits: list[float]
) -> None:
    site.put("/s.xml", sitemap(*((f"/{n}", None) for n in range(6))), "text/xml")
    for n in range(6):
        site.put(f"/{n}", page(str(n)))
    site.fail("/2", 429, Retry_After="3600")
    summary = run(bench, site.url("/s.xml"))
    assert (counts(summary), waits) == ((2, 2, 0, 0, 2), [])
    assert bench.problems == [
        f"{site.url('/2')}: answered 429 Too Many Requests with Retry-After 3600 s",
        f"{site.url('/s.xml')}: 127.0.0.1:{site.port} asks for a pause, 3 other pages were not requested",
    ]
    assert site.asked[-1] == "/2"
    site.put("/2", page("2"))
    assert counts(run(bench, site.url("/s.xml"), mirror=True)) == (6, 4, 2, 0, 0)


def test_of_an_index_no_further_sitemap_is_asked_of_a_host_that_asks_for_time(
    bench: Bench, site: Site, waits: list[float]
) -> None:
    index = "".join(f"<sitemap><loc>/s{n}.xml</loc></sitemap>" for n in range(4))
    site.put("/s.xml", f"<sitemapindex>{index}</sitemapindex>", "text/xml")
    site.fail("/s0.xml", 503, Retry_After="3600")
    assert run(bench, site.url("/s.xml")).failed == 4
    assert site.asked == ["/s.xml", "/s0.xml"]
    assert bench.problems[-1].endswith("/s3.xml: not requested: its host asks for a pause")


def test_robots_txt_is_waited_for_too(bench: Bench, site: Site, waits: list[float]) -> None:
    site.put("/s.xml", sitemap(("/p", None)), "text/xml")
    site.put("/p", page("one"))
    asked = [0]

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked[0] += 1
        status = 503 if asked[0] == 1 else 404
        send(request, status, b"", {"Retry-After": "2"})

    site.pages["/robots.txt"] = answer
    rules = replace(ALLOWED, robots=True)
    assert counts(run(bench, site.url("/s.xml"), rules=rules)) == (1, 1, 0, 0, 0)
    assert waits == [2.0]


def test_a_run_that_ends_breaks_off_the_wait(site: Site, tmp_path: Path) -> None:
    site.fail("/p", 503, Retry_After="60")
    fetcher = Fetcher(ALLOWED)
    threading.Timer(0.1, fetcher.stop).start()
    with pytest.raises(FetchFailed, match="the run ends"):
        fetcher.get(read_url(site.url("/p")), tmp_path / "body")
