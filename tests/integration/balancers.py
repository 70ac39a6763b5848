"""For tests: the load balancer of docs/compose, by nginx itself, before servers that say who they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests import ROOT
from tests.integration.proxies import nginx_folders, started
from tests.support.programs import needed

COMPOSE = ROOT / "docs" / "compose"


class Named(ThreadingHTTPServer):
    """Answers every request with its name, and what it got as X-Original-URI."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.asked = 0
        self.breaks = False
        """Ends every connection without an answer."""


class _Handler(BaseHTTPRequestHandler):
    server: Named

    def _answer(self) -> None:
        self.server.asked += 1
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.breaks:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("x-server", self.server.name)
        self.send_header("x-asked-for", self.headers.get("x-original-uri", ""))
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_HEAD = _answer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def named(names: Sequence[str]) -> Iterator[list[Named]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(Named(name)) for name in names]
        for server in servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
        yield servers


def settings(home: int, replicas: Sequence[int], folder: Path) -> str:
    """docs/compose/nginx.conf with these ports on loopback in place of the names, listening on a socket in `folder`."""
    text = (COMPOSE / "nginx.conf").read_text("utf-8")
    servers = "\n".join(f"server 127.0.0.1:{port} max_fails=2 fail_timeout=5s;" for port in replicas)
    for shown, used in (
        ("server home:8080;", f"server 127.0.0.1:{home};"),
        ("server replica:8080 max_fails=2 fail_timeout=5s;", servers),
        ("listen 8080;", f"listen unix:{folder}/socket;"),
        ("events {}", f"daemon off; worker_processes 1; pid {folder}/pid; error_log stderr;\nevents {{}}"),
    ):
        assert text.count(shown) == 1, shown
        text = text.replace(shown, used)
    return text.replace("access_log off;", f"access_log off;\n{nginx_folders(folder)}")


@contextmanager
def balanced(home: int, replicas: Sequence[int], folder: Path) -> Iterator[httpx.Client]:
    """A client of the load balancer; skips the test where nginx is not installed."""
    program = needed("nginx")
    configuration = folder / "nginx.conf"
    configuration.write_text(settings(home, replicas, folder), "utf-8")
    with started([program, "-p", str(folder), "-c", str(configuration)], folder) as client:
        yield client
