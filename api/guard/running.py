"""The requests that are being answered in this process: how many at once, and how long each may take.

A place is held while a request is worked on, not while it waits for its client. So whoever is slow keeps nobody out:

    what a request does             holds a place   what ends it if it takes long
    waits for the rest of its body  no              the connection (`body_seconds`), or who reads the body
    works on an answer              yes             the deadline, counted from when its body was whole
    waits for a reader (`tell`)     no              the connection (`writing_seconds`)
    works on a stream it has begun  yes             its protocol
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Send

from aidre.api.refusals import Overdue, Overloaded

RETRY_SECONDS = 1
LOOKS = 20
"""How often within one deadline it is looked whose is over: one timer for all costs less than one for each."""


class Running:
    """At most `most` requests at once, each for `seconds` after it came, or after its body did."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self.count = 0
        self.looks = 0
        self._places: set[Place] = set()
        self._looking = False

    def enter(self, receive: Receive, *, waits: bool = True) -> Place:
        """A place, to be left when the request is over; raises Overloaded. `waits`: for a body that is worked on."""
        if self.count >= self.most:
            raise Overloaded(RETRY_SECONDS)
        place = Place(self, receive, waits)
        self.count += 1
        self._places.add(place)
        if not self._looking:
            self._look()
        return place

    def leave(self, place: Place) -> None:
        """Gives a place back for good; once is enough."""
        place.leave()
        self._places.discard(place)

    def overdue(self) -> Overdue:
        return Overdue(f"this took longer than {self.seconds:g} seconds: ask for less, or try again later")

    def _look(self) -> None:
        self.looks += 1
        for place in self._places:
            if place.works and not place.begun and self.looks - place.since > LOOKS:
                place.give_up()
        self._looking = bool(self._places)
        if self._looking:
            asyncio.get_running_loop().call_later(self.seconds / LOOKS, self._look)


class Place:
    """One request that is being answered, and what it receives: until its body is whole, the place is free while it
    waits, and Overloaded is raised where it was taken meanwhile. Make it in the task that answers."""

    __slots__ = ("_left", "_receive", "_running", "_task", "_whole", "begun", "given_up", "since", "works")

    def __init__(self, running: Running, receive: Receive, waits: bool) -> None:
        self._running = running
        self._receive = receive
        self._task = asyncio.current_task()
        self._whole = not waits  # a body that nobody reads is not waited for, whatever was declared
        self._left = False
        self.since = running.looks
        self.works = True
        self.begun = False
        """Whether its answer has."""
        self.given_up = False

    async def __call__(self) -> Message:
        if self._whole:  # now it waits for the client to go away, and the work goes on
            return await self._receive()
        self._holds(False)
        try:
            message = await self._receive()
        finally:
            self._holds(True)
        running = self._running
        if running.count > running.most:
            raise Overloaded(RETRY_SECONDS)
        self._whole = not message.get("more_body", False)
        self.since = running.looks
        return message

    async def tell(self, send: Send, message: Message) -> None:
        """Sends a part of an answer that goes on; the place is free while the reader takes it."""
        self._holds(False)
        try:
            await send(message)
        finally:
            self._holds(True)

    def leave(self) -> None:
        self._holds(False)
        self._left = True  # whatever still waits takes it no more

    def _holds(self, works: bool) -> None:
        """The only way to the count: what is said twice counts once."""
        if works != self.works and not self._left:
            self.works = works
            self._running.count += 1 if works else -1

    def give_up(self) -> None:
        if self._task is not None and not self.given_up:
            self.given_up = True
            self._task.cancel()

    def is_over(self) -> bool:
        """Whether it was the deadline that cancelled the task, and nothing else did."""
        return self.given_up and self._task is not None and self._task.uncancel() == 0
