"""Bodies of requests, by `api/http/request.py`: limits of bytes and of time, digests, media types. Time is virtual."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64encode
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from aidre.api.http.http_errors import BadRequest, PayloadTooLarge, RequestTimeout, UnsupportedMediaType
from aidre.api.http.request import BODY_SECONDS, read_body, read_object
from tests.api.loops import run_virtually

JSON = frozenset({"application/json"})
SHA_256 = b64encode(hashlib.sha256(b"{}").digest()).decode()


class Body:
    """A request whose body comes in pieces, each after a pause of so many seconds."""

    def __init__(self, *pieces: bytes, pause: float = 0.0, whole: bool = False, **headers: str) -> None:
        self.left = list(pieces)
        self.pause = pause
        named = {"content_type": "application/json", **headers}
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
        state = {"whole": True} if whole else {}
        scope = {"type": "http", "method": "POST", "path": "/", "headers": fields, "state": state}
        self.request = Request(scope, self._receive)

    async def _receive(self) -> Message:
        await asyncio.sleep(self.pause)
        if not self.left:
            return {"type": "http.disconnect"}
        piece = self.left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.left)}

    def read(self, limit: int = 100) -> bytes:
        return run_virtually(read_body(self.request, limit))

    def parsed(self) -> dict[str, Any]:
        return run_virtually(read_object(self.request, JSON, 100))


def test_pieces_become_one_object() -> None:
    assert Body(b'{"a', b'": ', b"1}").parsed() == {"a": 1}
    assert Body(b"{}", whole=True).parsed() == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"a"', b"5", b"\xff{}"])
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequest):
        Body(content).parsed()


def test_a_body_as_large_as_the_limit_is_read_and_no_larger_one() -> None:
    assert Body(b"x" * 60, b"x" * 40).read() == b"x" * 100
    body = Body(b"x" * 60, b"x" * 41, b"x")
    with pytest.raises(PayloadTooLarge):
        body.read()
    assert body.left == [b"x"], "the rest is not read"


@pytest.mark.parametrize("declared", ["101", "9" * 5_000])
def test_a_declared_length_beyond_the_limit_is_refused_before_anything_is_read(declared: str) -> None:
    body = Body(b"x", content_length=declared)
    with pytest.raises(PayloadTooLarge):
        body.read()
    assert body.left == [b"x"]


@pytest.mark.parametrize("declared", ["100", "many", "", "-5", "٢٠٠"])
def test_what_is_no_larger_length_is_left_to_the_count(declared: str) -> None:
    assert Body(b"x", content_length=declared).read() == b"x"


def test_all_pieces_together_must_come_in_time() -> None:
    assert Body(b"a", b"b", pause=BODY_SECONDS * 0.45).read() == b"ab"
    with pytest.raises(RequestTimeout) as caught:
        Body(b"a", b"b", b"c", pause=BODY_SECONDS * 0.45).read()
    assert (caught.value.status, caught.value.headers) == (408, {"Connection": "close"})
    assert Body(b"a", b"b", b"c", pause=BODY_SECONDS, whole=True).read() == b"abc", "the connection has it all"


def test_who_cancels_for_another_reason_is_obeyed() -> None:
    async def main() -> None:
        reading = asyncio.create_task(read_body(Body(b"a", pause=10.0).request, 100))
        await asyncio.sleep(1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    run_virtually(main())


def test_who_leaves_in_the_middle_gets_no_answer() -> None:
    body = Body()
    with pytest.raises(ClientDisconnect):
        body.read()


@pytest.mark.parametrize(
    "digest", [f"sha-256=:{SHA_256}:", f"md5=:AAAA:, sha-256=:{SHA_256.rstrip('=')}:", "md5=:AAAA:", "nonsense"]
)
def test_a_digest_that_fits_or_proves_nothing_is_taken(digest: str) -> None:
    assert Body(b"{}", content_digest=digest).read() == b"{}"


@pytest.mark.parametrize("digest", ["sha-256=:AAAA:", f"sha-256=:{SHA_256}:, sha-512=:{SHA_256}:", "sha-512=::"])
def test_a_digest_of_another_body_is_refused(digest: str) -> None:
    with pytest.raises(BadRequest, match="Content-Digest"):
        Body(b"{}", content_digest=digest).read()


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_json_in_utf_8_is_read(kind: str) -> None:
    assert Body(b"{}", content_type=kind).parsed() == {}


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json; charset=latin-1", "application/jsonx"])
def test_other_media_types_are_refused_with_those_that_are_read(kind: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        Body(b"{}", content_type=kind).parsed()
    assert caught.value.headers == {"Accept": "application/json"}


def test_a_coded_body_is_refused() -> None:
    assert Body(b"{}", content_encoding="Identity").parsed() == {}
    with pytest.raises(UnsupportedMediaType) as caught:
        Body(b"{}", content_encoding="gzip").parsed()
    assert caught.value.headers == {"Accept-Encoding": "identity"}
