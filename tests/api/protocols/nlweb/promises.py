"""What the tests of promises share: work that waits, the workers of a server, and what callers are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.protocols.nlweb.nlweb_envelope import NlwebFailure, PromiseResponse
from aidre.api.protocols.nlweb.promises import PromiseProgress, Promises
from tests.support.clocks import WAIT_SECONDS


@dataclass
class Gate:
    """Work that waits until it is let through, and tells what became of it."""

    value: str = "done"
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    progress: PromiseProgress | None = None

    async def __call__(self, progress: PromiseProgress) -> str:
        self.progress = progress
        self.began.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.value


def rendered(value: str) -> bytes:
    return json.dumps({"value": value}).encode()


@asynccontextmanager
async def worker(folder: Path | None, **options: Any) -> AsyncIterator[Promises]:
    """One process of a server."""
    promises = Promises([] if folder is None else [folder], **{"timeout": 2 * WAIT_SECONDS, **options})
    try:
        yield promises
    finally:
        await promises.close()


async def promised(
    promises: Promises, work: Callable[[PromiseProgress], Awaitable[str]], caller: Caller = ANONYMOUS
) -> str:
    """The token of a promise that is given at once."""
    found = await promises.run_or_promise(caller, work, rendered, 0.0)
    assert isinstance(found, PromiseResponse)
    return found.promise.token


async def settled(promises: Promises, token: str, caller: Caller = ANONYMOUS) -> bytes:
    """The document that a promise comes to."""
    async with asyncio.timeout(WAIT_SECONDS):
        while isinstance(known := await promises.checkin(caller, token), PromiseResponse):
            await asyncio.sleep(0.01)
    return known


def kept(folder: Path) -> bytes:
    """What a promise of work that is done at once comes to, in a worker of its own."""

    async def run() -> bytes:
        async with worker(folder) as promises:
            gate = Gate()
            gate.opened.set()
            return await settled(promises, await promised(promises, gate))

    return asyncio.run(run())


async def failed(promises: Promises, token: str, caller: Caller = ANONYMOUS) -> NlwebFailure:
    with pytest.raises(NlwebFailure) as caught:
        await settled(promises, token, caller)
    return caught.value


async def cancelled(promises: Promises, token: str, caller: Caller = ANONYMOUS) -> str:
    with pytest.raises(NlwebFailure) as caught:
        await promises.cancel(caller, token)
    return caught.value.failure_code
