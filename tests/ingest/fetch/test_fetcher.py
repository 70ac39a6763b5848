"""One guarded GET: how far redirects lead, how long it takes, how much it may be, and what it is asked with next."""

from __future__ import annotations

import gzip
import socket
import time
import tracemalloc
import zlib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch import fetcher as module
from aidre.ingest.fetch.fetcher import Fetcher, FetchResult, FetchRules
from aidre.ingest.fetch.urls import read_url
from tests.support.clocks import Clock
from tests.support.websites import ALLOWED, Site, gzip_bomb, raw, send


def got(url: str, into: Path, rules: FetchRules = ALLOWED, state: dict[str, str] | None = None) -> FetchResult:
    fetched = Fetcher(rules).get(read_url(url), into, state=state)
    assert fetched is not None
    return fetched


def refused(url: str, into: Path, rules: FetchRules = ALLOWED) -> str:
    with pytest.raises(FetchFailed) as caught:
        Fetcher(rules).get(read_url(url), into)
    assert "\n" not in caught.value.message
    return caught.value.message


# -- redirects ---------------------------------------------------------------------------------------------------


def test_five_redirects_are_followed_and_six_are_not(site: Site, body: Path) -> None:
    for n in range(6):
        site.redirect(f"/{n}", f"/{n + 1}")
    site.put("/6", "arrived")
    assert str(got(site.url("/1"), body).url) == site.url("/6")
    assert refused(site.url("/0"), body) == f"more than 5 redirects, the last one to {site.url('/6')}"


@pytest.mark.parametrize("path", ["/", "/#part"])
def test_a_circle_of_redirects_is_named(site: Site, body: Path, path: str) -> None:
    site.redirect("/", "/b")
    site.redirect("/b", path)
    assert refused(site.url("/"), body) == f"its redirects form a loop at {site.url('/')}"
    assert site.asked == ["/", "/b"]


def test_an_endless_redirect_ends(site: Site, body: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        site.pages[request.path + "x"] = answer
        send(request, 302, b"", {"Location": request.path + "x"})

    site.pages["/"] = answer
    assert "more than 5 redirects" in refused(site.url("/"), body)
    assert len(site.asked) == 6


@pytest.mark.parametrize(
    "to", ["", "javascript:alert(1)", "ftp://example.com/", "http://u:p@example.com/", "http://[", " "]
)
def test_a_redirect_to_what_is_no_url_is_refused(site: Site, body: Path, to: str) -> None:
    site.redirect("/", to)
    refused(site.url("/"), body)
    assert len(site.asked) == 1


def test_a_location_in_utf8_is_understood(site: Site, body: Path) -> None:
    site.redirect("/", "/stra\u00dfe".encode().decode("latin-1"))
    site.put("/stra%C3%9Fe", "arrived")
    assert got(site.url("/"), body).bytes == 7


# -- bodies ------------------------------------------------------------------------------------------------------


def chunked(*pieces: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello " * 1000, mtime=0)),
        ("x-gzip", gzip.compress(b"hello " * 400, mtime=0) + gzip.compress(b"hello " * 600, mtime=0) + b"\0" * 8),
        ("deflate", zlib.compress(b"hello " * 1000)),
        ("DEFLATE", zlib.compress(b"hello " * 1000, wbits=-15)),
        ("identity", b"hello " * 1000),
    ],
    ids=["gzip", "x-gzip", "deflate", "raw deflate", "identity"],
)
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_is_inflated_however_it_is_framed(encoding: str, packed: bytes, framing: str, body: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n" % encoding.encode()
    if framing == "length":
        answer = head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed
    elif framing == "close":
        answer = head + b"\r\n" + packed
    else:
        pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
        answer = head + chunked(*pieces).partition(b"\r\n")[2]
    with raw(answer) as url:
        assert got(url, body).bytes == 6000
    assert body.read_bytes() == b"hello " * 1000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "ends early"),
        (chunked(b"abc")[:-5], "ends early"),
        (chunked(b"abcdef")[:-9], "ends early"),
        (chunked(b"abc").replace(b"3\r\n", b"-3\r\n"), "ends early"),
        (chunked(b"abc").replace(b"3\r\n", b"zz\r\n"), "ends early"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"abc" * 99, mtime=0)[:-9], "end early"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nno gzip at all", "damaged"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nabc", "encoded as br"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\nabc", "encoded as gzip, gzip"),
        (b"", "not HTTP"),
        (b"220 ftp.example.com ready\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "not HTTP"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "without a Location"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", "answered 304"),
        (b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\na", "answered 206"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000, "not HTTP"),
    ],
)
def test_an_answer_that_is_broken_or_cut_off_is_a_failure(answer: bytes, reason: str, body: Path) -> None:
    with raw(answer) as url:
        assert reason in refused(url, body)


def test_a_body_that_is_too_large_is_refused_also_by_what_it_inflates_to(site: Site, body: Path) -> None:
    rules = replace(ALLOWED, page_bytes=100_000)
    site.put("/fits", b"x" * 100_000)
    site.put("/over", b"x" * 100_001)
    site.zip("/packed", b"x" * 100_001, "text/plain")
    assert got(site.url("/fits"), body, rules).bytes == 100_000
    for path in ("/over", "/packed"):
        assert refused(site.url(path), body, rules) == "is larger than [sources] page_bytes allows"


def test_bytes_on_the_wire_are_counted_too(body: Path) -> None:
    endless = gzip.compress(b"", mtime=0) * 1000

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        while True:
            connection.sendall(endless)

    with raw(answer) as url:
        assert "more bytes" in refused(url, body, replace(ALLOWED, page_bytes=1000))


def test_a_gzip_bomb_takes_no_memory(site: Site, body: Path) -> None:
    site.put("/bomb", gzip_bomb(10 << 30), "text/html", Content_Encoding="gzip")
    tracemalloc.start()
    try:
        assert "page_bytes" in refused(site.url("/bomb"), body)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


# -- time --------------------------------------------------------------------------------------------------------


def trickle(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X")
        time.sleep(0.02)


def silence(connection: socket.socket) -> None:
    connection.recv(1)


@pytest.mark.slow
def test_a_server_that_trickles_is_given_up_after_the_whole_time(body: Path) -> None:
    with raw(trickle) as url:
        assert refused(url, body, replace(ALLOWED, timeout=0.3)) == "not done after 0.3 seconds"


def test_a_server_that_is_silent_is_given_up_after_the_time_of_a_read(body: Path) -> None:
    with raw(silence) as url:
        assert refused(url, body, replace(ALLOWED, read_timeout=0.1)) == "no answer in time"


def test_a_fetch_is_broken_off_from_another_thread(body: Path) -> None:
    fetcher = Fetcher(ALLOWED)

    def stop(connection: socket.socket) -> None:
        fetcher.stop()
        connection.recv(1)

    with raw(stop) as url:
        for _ in range(2):
            with pytest.raises(FetchFailed):
                fetcher.get(read_url(url), body)


def test_there_is_a_pause_between_two_requests(site: Site, body: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(module, "monotonic", clock)
    pauses: list[float] = []
    site.put("/", "hello")
    fetcher = Fetcher(replace(ALLOWED, delay=2.0), pause=pauses.append)
    for seconds in (0.0, 0.5, 3.0):
        clock.now += seconds
        fetcher.get(read_url(site.url()), body)
    assert pauses == [1.5]
    clock.now += 0.25
    fetcher.get(read_url(site.url()), body)
    assert pauses == [1.5, 1.75]


# -- what the next request is made with ---------------------------------------------------------------------------


def test_validators_come_back_and_make_the_next_request_conditional(site: Site, body: Path) -> None:
    site.put(
        "/", "hello", 'Text/HTML; Charset="ISO-8859-1"', ETag='W/"1"', Last_Modified="Sat, 01 Aug 2026 10:00:00 GMT"
    )
    fetched = got(site.url(), body)
    assert (fetched.kind, fetched.charset, fetched.bytes) == ("text/html", "iso-8859-1", 5)
    assert fetched.state == {
        "etag": 'W/"1"',
        "last_modified": "Sat, 01 Aug 2026 10:00:00 GMT",
        "url": site.url(),
    }
    assert Fetcher(ALLOWED).get(read_url(site.url()), body, state=fetched.state) is None
    other = {**fetched.state, "url": site.url("/other")}
    assert Fetcher(ALLOWED).get(read_url(site.url()), body, state=other) is not None


@pytest.mark.parametrize("etag", ['"a\u00e9"', '"' + "x" * 600 + '"', ""])
def test_a_validator_that_cannot_be_sent_back_is_not_kept(site: Site, body: Path, etag: str) -> None:
    site.put("/", "hello", ETag=etag)
    assert got(site.url(), body).state == {}
