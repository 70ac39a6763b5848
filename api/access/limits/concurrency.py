"""The concurrency limit of a process: how many requests are in progress, and how long each may take.

A request occupies its slot while it is worked on, not while it waits for its client, so slow clients block nobody:

    a request that                  occupies    is ended by
    waits for the rest of its body  no          the connection (`body_seconds`), or the reader of the body
    works on an answer              yes         the deadline, counted from the end of its body
    waits for a reader (`tell`)     no          the connection (`writing_seconds`)
    works on a stream it has begun  yes         its protocol
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Send

from aidre.api.http import DeadlineExceeded, Overloaded

RETRY_SECONDS = 1
"""Retry-After of a rejected request."""
CHECKS_PER_DEADLINE = 20
"""Checks for overdue requests within one deadline; one timer for all requests costs less than one each."""


class ConcurrencyLimit:
    """At most `most` requests at a time, each for `seconds` after its arrival or after the end of its body."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self.count = 0
        self.ticks = 0
        self._slots: set[Slot] = set()
        self._checking = False

    def enter(self, receive: Receive, *, waits: bool = True) -> Slot:
        """A slot, to be left when the request ends; raises Overloaded. `waits`: whether a body is still expected."""
        if self.count >= self.most:
            raise Overloaded(RETRY_SECONDS)
        slot = Slot(self, receive, waits)
        self.count += 1
        self._slots.add(slot)
        if not self._checking:
            self._check()
        return slot

    def leave(self, slot: Slot) -> None:
        """Release a slot for good; further calls do nothing."""
        slot.leave()
        self._slots.discard(slot)

    def overdue(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"this took longer than {self.seconds:g} seconds: ask for less, or try again later")

    def _check(self) -> None:
        self.ticks += 1
        for slot in self._slots:
            if slot.occupied and not slot.begun and self.ticks - slot.since > CHECKS_PER_DEADLINE:
                slot.cancel()
        self._checking = bool(self._slots)
        if self._checking:
            asyncio.get_running_loop().call_later(self.seconds / CHECKS_PER_DEADLINE, self._check)


class Slot:
    """A request in progress, and its ASGI `receive`. While it waits for its body the slot is free, and Overloaded is
    raised if the limit is exceeded when it is taken again. Create it in the task that answers the request."""

    __slots__ = ("_body_ended", "_left", "_limit", "_receive", "_task", "begun", "cancelled", "occupied", "since")

    def __init__(self, limit: ConcurrencyLimit, receive: Receive, waits: bool) -> None:
        self._limit = limit
        self._receive = receive
        self._task = asyncio.current_task()
        self._body_ended = not waits
        self._left = False
        self.since = limit.ticks
        self.occupied = True
        self.begun = False
        """Whether the answer has begun."""
        self.cancelled = False

    async def __call__(self) -> Message:
        if self._body_ended:  # waits for the client to disconnect, while the work continues
            return await self._receive()
        self._occupy(False)
        try:
            message = await self._receive()
        finally:
            self._occupy(True)
        limit = self._limit
        if limit.count > limit.most:
            raise Overloaded(RETRY_SECONDS)
        self._body_ended = not message.get("more_body", False)
        self.since = limit.ticks
        return message

    async def tell(self, send: Send, message: Message) -> None:
        """Send one part of a streamed answer; the slot is free while the reader takes it."""
        self._occupy(False)
        try:
            await send(message)
        finally:
            self._occupy(True)

    def leave(self) -> None:
        self._occupy(False)
        self._left = True  # a wait that ends later must not occupy it again

    def _occupy(self, occupied: bool) -> None:
        """The only place that changes the count, so that repeated calls count once."""
        if occupied != self.occupied and not self._left:
            self.occupied = occupied
            self._limit.count += 1 if occupied else -1

    def cancel(self) -> None:
        if self._task is not None and not self.cancelled:
            self.cancelled = True
            self._task.cancel()

    def is_over(self) -> bool:
        """Whether the deadline cancelled the task, and nothing else did."""
        return self.cancelled and self._task is not None and self._task.uncancel() == 0
