"""Requests as they are written, and what is kept of the answers, `aidre_conformance/exchange.py`."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from aidre_conformance import Exchange, Failed, Sender
from conftest import Answering
from tests.support.clocks import WAIT_SECONDS

Serve = Callable[[Answering], AbstractContextManager[str]]


@pytest.fixture
def sender() -> Iterator[Sender]:
    made = Sender(timeout=WAIT_SECONDS)
    yield made
    made.close()


def one(sender: Sender, method: str, url: str, **options: Any) -> Exchange:
    [exchange] = sender.send(method, url, **options)
    return exchange


def test_the_target_and_the_fields_are_sent_as_they_are_written(serve: Serve, sender: Sender) -> None:
    def echo(scope: dict[str, Any], body: bytes) -> tuple[int, dict[str, str], bytes]:
        names = [name for name, _ in scope["headers"]]
        return 200, {}, scope["raw_path"] + b"?" + scope["query_string"] + b" " + b",".join(names) + b" " + body

    with serve(echo) as url:
        answer = one(sender, "POST", f"{url}/a%2Fb%23/../c?x=%20", fields=[("X-A", "  1 ")], body=b"\xff")
    assert answer.body.startswith(b"/a%2Fb%23/../c?x=%20 ")
    assert b"accept-encoding" not in answer.body
    assert answer.body.endswith(b" \xff")


def test_no_redirect_is_followed(serve: Serve, sender: Sender) -> None:
    with serve(lambda scope, body: (307, {"location": "/other"}, b"")) as url:
        assert one(sender, "GET", url).status == 307


def test_the_kit_waits_as_long_as_it_is_asked_to(serve: Serve, sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sender.sleep = waited.append
    answers = [(429, {"retry-after": "7"}, b""), (503, {"retry-after": "2"}, b""), (200, {}, b"{}")]
    with serve(lambda scope, body: answers[len(waited)]) as url:
        exchanges = list(sender.send("GET", url))
    assert [exchange.status for exchange in exchanges] == [429, 503, 200]
    assert waited == [7.0, 2.0]


@pytest.mark.parametrize("value", ["3600", "soon", "", "-1"])
def test_the_kit_does_not_wait_for_an_hour_nor_for_what_is_no_number(serve: Serve, sender: Sender, value: str) -> None:
    sender.sleep = lambda seconds: pytest.fail("it waited")
    with serve(lambda scope, body: (429, {"retry-after": value}, b"")) as url:
        assert one(sender, "GET", url).status == 429


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Sends these bytes whatever it is asked, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_all() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve_all, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(WAIT_SECONDS)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b"HTTP/1.1 999999 x\r\n\r\n"],
    ids=["nothing", "no http", "cut", "status"],
)
def test_what_is_no_http_is_a_problem_and_no_exception(sender: Sender, answer: bytes) -> None:
    with raw_server(answer) as url:
        exchange = one(sender, "GET", url)
    assert exchange.status == 0
    assert exchange.problem


def test_a_server_that_says_nothing_is_given_up(sender: Sender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sender.timeout = 0.2
        exchange = one(sender, "GET", url)
    assert exchange.problem is not None
    assert "within 0.2 s" in exchange.problem


def _exchange(body: bytes, **fields: str) -> Exchange:
    return Exchange("GET", "http://x/y?z", (), b"", 200, tuple(fields.items()), body, 0.1)


def test_a_body_is_decoded_as_it_says_or_fails() -> None:
    packed = gzip.compress(b'{"a": 1}')
    assert _exchange(packed, **{"Content-Encoding": "gzip"}).object == {"a": 1}
    for body, encoding in ((b"x", "gzip"), (b"{}", "br")):
        with pytest.raises(Failed, match=r"GET /y\?z answered 200"):
            _ = _exchange(body, **{"Content-Encoding": encoding}).object


@pytest.mark.parametrize("body", [b"[]", b"7", b"", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_what_is_no_json_object_fails_by_name(body: bytes) -> None:
    with pytest.raises(Failed, match=r"GET /y\?z answered 200: the body is not (a )?JSON"):
        _ = _exchange(body).object
