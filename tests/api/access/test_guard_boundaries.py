"""Where the guard draws lines: slots of the concurrency limit, accounts of callers, and what is a credential."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from aidre.api.access.credentials import MAX_CREDENTIAL_BYTES, bearer_of
from aidre.api.access.guard import Guard
from aidre.api.config.settings import parse_settings
from aidre.api.http.http_errors import Unauthorized

BEYOND = '[server]\nbase_url = "https://ai.example.com"\n'


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("the body never comes")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/.well-known/aidre.json"])
def test_routes_that_answer_at_the_limit_take_no_slot(path: str) -> None:
    async def enter() -> None:
        guard = Guard(parse_settings(BEYOND))
        assert guard.enter(path, "GET", never) is None
        assert guard.running.count == 0
        await guard.close()

    asyncio.run(enter())


@pytest.mark.parametrize(("method", "waiting"), [("POST", 0), ("GET", 1), ("DELETE", 1)])
def test_a_request_leaves_its_slot_only_while_its_body_comes(method: str, waiting: int) -> None:
    async def enter() -> None:
        guard = Guard(parse_settings(BEYOND))
        slot = guard.enter("/search", method, never)
        assert slot is not None and guard.running.count == 1
        receiving = asyncio.create_task(slot())
        await asyncio.sleep(0)
        assert guard.running.count == waiting
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        assert guard.running.count == 1
        guard.running.leave(slot)
        assert guard.running.count == 0
        await guard.close()

    asyncio.run(enter())


@pytest.mark.parametrize("limits", ["", "[limits]\nchunks_per_day = 5\n"])
def test_the_account_of_an_anonymous_caller_is_its_address(limits: str) -> None:
    async def admit() -> str:
        guard = Guard(parse_settings(BEYOND + limits))
        scope = {"path": "/search", "headers": [], "client": ("203.0.113.7", 1), "state": {}}
        assert isinstance(guard.admit(scope), list)
        await guard.close()
        found: str = scope["state"]["caller"].account  # type: ignore[index]
        return found

    assert asyncio.run(admit()) == "address 203.0.113.7"


LONGEST = b"x" * MAX_CREDENTIAL_BYTES


@pytest.mark.parametrize("credential", [b"x", LONGEST])
def test_a_credential_is_what_follows_bearer(credential: bytes) -> None:
    fields = [(b"host", b"ai.example.com"), (b"authorization", b"Bearer " + credential), (b"accept", b"*/*")]
    assert bearer_of(fields) == credential
    assert bearer_of([field for field in fields if field[0] != b"authorization"]) is None


@pytest.mark.parametrize(
    "value", [b"", b"Bearer", b"Bearer ", b"Bearer   ", b"Basic eDp5", b"Bearer " + LONGEST + b"x"]
)
def test_anything_but_one_bearer_credential_is_refused(value: bytes) -> None:
    with pytest.raises(Unauthorized):
        bearer_of([(b"authorization", value)])
    with pytest.raises(Unauthorized):
        bearer_of([(b"authorization", b"Bearer x"), (b"authorization", b"Bearer x")])
