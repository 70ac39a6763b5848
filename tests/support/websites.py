"""Web sites on loopback: one whose answers can be changed, one that sends any bytes, one with TLS; what they publish.

A run over some addresses of a site is `run`.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from aidre.ingest.fetch.fetcher import FetchRules
from aidre.ingest.pipeline.run_events import Summary
from tests.support.ingests import Bench

Answer: TypeAlias = "Callable[[BaseHTTPRequestHandler], None]"


@dataclass
class Site:
    """`pages` maps paths to answers; a path without one is 404. `asked` are the paths in the order they came."""

    port: int
    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, body: str | bytes, kind: str = "text/html; charset=utf-8", **headers: str) -> None:
        """A body, with ETag and Last-Modified answered by 304 where the request is conditional."""
        content = body.encode() if isinstance(body, str) else body
        named = {"Content-Type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}

        def answer(request: BaseHTTPRequestHandler) -> None:
            asked = request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since")
            known = headers.get("ETag"), headers.get("Last_Modified")
            matches = any(one is not None and one == other for one, other in zip(asked, known, strict=True))
            send(request, 304 if matches else 200, b"" if matches else content, named)

        self.pages[path] = answer

    def zip(self, path: str, body: bytes, kind: str) -> None:
        self.put(path, gzip.compress(body), kind, Content_Encoding="gzip")

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.pages[path] = lambda request: send(request, status, b"", {"Location": to})

    def fail(self, path: str, status: int, **headers: str) -> None:
        named = {"Content-Type": "text/html"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = lambda request: send(request, status, b"<p>no", named)


def send(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


def gzip_bomb(size: int, start: bytes = b"") -> bytes:
    """Zeros after `start` as gzip, a thousandth of their size; made in no time, since all blocks are the same."""
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 24)
    packed = packer.compress(start) + packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return packed + repeated * (size // len(block) - 1)


@contextmanager
def published() -> Iterator[Site]:
    site = Site(0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            site.headers.append(dict(self.headers))
            answer = site.pages.get(self.path)
            try:
                if answer is None:
                    send(self, 404, b"", {})
                else:
                    answer(self)
            except OSError:
                pass  # the client has had enough

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with published() as site:
        yield site


@contextmanager
def raw(answer: bytes | Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that sends these bytes to whoever connects, whatever is asked, or does with the socket what it likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        if callable(answer):
                            answer(connection)
                        else:
                            connection.sendall(answer)
                            connection.shutdown(socket.SHUT_WR)
                            connection.recv(1)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            done.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


# Of nobody: for "tea.example", signed by itself, with its key.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgaQI9wFD7/PZUhcYx
q3H3YDaQZiOYdx+up0Elq1syi5GhRANCAAQUg7agld75qpb7VAZPypDm1Fbd5VLz
5EqA2tIw6JVwH1ukV7bgO8M/SLbcZt//MnjHdCjOx2EgXnZH4VMoB/9v
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUcq0aw1qVC+vZV7Kw1zMTtWBg5FkwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLdGVhLmV4YW1wbGUwIBcNMjYxMTIyMDUxMzM0WhgPMjEyNjEw
MjkwNTEzMzRaMBYxFDASBgNVBAMMC3RlYS5leGFtcGxlMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEFIO2oJXe+aqW+1QGT8qQ5tRW3eVS8+RKgNrSMOiVcB9bpFe2
4DvDP0i23Gbf/zJ4x3QozsdhIF52R+FTKAf/b6NrMGkwHQYDVR0OBBYEFOKdaLll
brsKAolSZ77FfV8fmdW3MB8GA1UdIwQYMBaAFOKdaLllbrsKAolSZ77FfV8fmdW3
MA8GA1UdEwEB/wQFMAMBAf8wFgYDVR0RBA8wDYILdGVhLmV4YW1wbGUwCgYIKoZI
zj0EAwIDSAAwRQIgOGlYL9mggsfoGCnJUqoZ0xHj21jlNMbwnS5/21LRiJYCIQCT
m9EJ3HCnzrg+B81m9wa1V8Kuw0xQufUyIGlDuztQcQ==
-----END CERTIFICATE-----
"""


@contextmanager
def encrypted(folder: Path, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") -> Iterator[int]:
    """A server with that certificate, which ends TLS without saying so; its port."""
    pem = folder / "tea.pem"
    pem.write_text(CERTIFICATE, encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as tls:
                        tls.recv(65536)
                        tls.sendall(answer)
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


ALLOWED = FetchRules(allow_private_addresses=True, timeout=120, connect_timeout=120, read_timeout=120, robots=False)
"""Rules of a fetch from loopback; no machine is so busy that it needs more time."""


FEED = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>News of tea</title><link>/</link><language>en</language>{}</channel></rss>"""


ITEM = """<item><guid isPermaLink="false">urn:tea:{0}</guid><title>Entry {0}</title><link>/news/{0}</link>
<pubDate>Sat, 0{0} Aug 2026 10:00:00 GMT</pubDate><description>{1}</description></item>"""


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """Where the body of an answer is written."""
    return tmp_path / "body"


def item(number: int | str, text: str) -> str:
    return ITEM.format(number, text)


def feed(*items: str, **texts: str) -> str:
    """A feed of items, or of those with the texts `e1`, `e2` and so on."""
    return FEED.format("".join([*items, *(item(name[1:], text) for name, text in texts.items())]))


def page(text: str, title: str = "A page", head: str = "") -> str:
    return f"<!doctype html><html lang='en'><head><title>{title}</title>{head}</head><body><p>{text}</p></body></html>"


def sitemap(*entries: tuple[str, str | None]) -> str:
    urls = "".join(f"<url><loc>{loc}</loc>{f'<lastmod>{d}</lastmod>' if d else ''}</url>" for loc, d in entries)
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'


def run(bench: Bench, *addresses: str, rules: FetchRules = ALLOWED, **options: Any) -> Summary:
    return bench.run(*addresses, fetching=rules, **options)


def counts(summary: Summary) -> tuple[int, int, int, int, int]:
    return summary.documents, summary.updated, summary.unchanged, summary.deleted, summary.failed
