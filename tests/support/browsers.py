"""A real browser: a page that a test serves, and what the page tells of its requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

from tests.support.clocks import WAIT_SECONDS
from tests.support.programs import CHROMIUM, needs, path_of

BROWSER = path_of(*CHROMIUM)
needs_browser = needs(*CHROMIUM)


@contextmanager
def _serving(page: str) -> Iterator[tuple[int, Queue[Any]]]:
    """The port of the page, and what is posted to it."""
    told: Queue[Any] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(page.encode())

        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self._send(b"")

        def _send(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as pages:
        serving = threading.Thread(target=pages.serve_forever)
        serving.start()
        try:
            yield pages.server_address[1], told
        finally:
            pages.shutdown()
            serving.join()


def told_by_page(page: str, profile: Path, host: str = "127.0.0.1", options: Sequence[str] = ()) -> Any:
    """What a page posts to /told as JSON, after a browser opened it at a host."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--remote-debugging-port=0", *options]
    with _serving(page) as (port, told):
        command = [str(BROWSER), *flags, f"--user-data-dir={profile}", f"http://{host}:{port}/"]
        silent = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=silent, stderr=silent, start_new_session=True) as browser:
            try:
                return told.get(timeout=WAIT_SECONDS)
            finally:
                os.killpg(browser.pid, signal.SIGTERM)  # the program may be a script around the browser itself
