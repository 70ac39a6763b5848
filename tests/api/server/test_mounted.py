"""Whose words an error has that reached no endpoint: those of the protocol that owns the path."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http import ErrorRenderer
from aidre.api.server.mounted import ErrorResponses, Mounted
from aidre.engine.errors import AidreError


def says(word: str) -> ErrorRenderer:
    return lambda request, error: Response(f"{word}: {error}")


def request_for(path: str) -> Request:
    return Request({"type": "http", "method": "GET", "path": path, "headers": []})


ONE = Mounted(error_renderers={"ask": says("one"), "/.well-known/one.json": says("one at a path")})
TWO = Mounted(
    error_renderers={"aip": says("two")},
    reject=lambda request, error: Response("two refuses") if request.url.path == "/aip/retrieve" else None,
)
RESPONSES = ErrorResponses([ONE, TWO], says("nobody"))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/ask", "one: away"),
        ("/ask/more", "one: away"),
        ("/asked", "nobody: away"),
        ("/.well-known/one.json", "one at a path: away"),
        ("/.well-known/two.json", "nobody: away"),
        ("/aip/x", "two: away"),
        ("/", "nobody: away"),
    ],
)
def test_an_error_is_told_in_the_words_of_the_path(path: str, words: str) -> None:
    assert RESPONSES.render(request_for(path), AidreError("away")).body == words.encode()


def test_who_is_not_admitted_is_refused_by_the_protocol_that_wants_to() -> None:
    refusals = [RESPONSES.reject(request_for(path), AidreError("away")) for path in ("/aip/retrieve", "/aip/x", "/x")]
    bodies = [one.body for one in refusals if isinstance(one, Response)]
    assert bodies == [b"two refuses", b"two: away", b"nobody: away"]
