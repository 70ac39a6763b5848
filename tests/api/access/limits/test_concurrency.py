"""How many requests are answered at once, and how long each may take, `api/access/limits/concurrency.py`: places, the
deadline, who is never refused. All waiting is in virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from aidre.api.access.limits.concurrency import CHECKS_PER_DEADLINE
from aidre.api.http.http_errors import Overloaded
from tests.api.frames import PLACES, Door, hear_all, refused, turns, whole, working
from tests.api.loops import run_virtually

FREE = ("/healthz", "/readyz", "/metrics", "/.well-known/ai-discovery")


def test_one_more_than_there_are_places_is_told_to_come_back() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def work(scope: Scope, receive: Receive) -> None:
            await hear_all(receive)
            await go.wait()

        door = Door(working(work))
        under_way = [asyncio.create_task(door.ask()) for _ in range(PLACES)]
        await turns()
        assert door.taken == PLACES
        told: list[Message] = []

        async def hear(message: Message) -> None:
            told.append(message)

        assert await door.ask(send=hear) == 503
        assert (b"retry-after", b"1") in told[0]["headers"]
        go.set()
        assert await asyncio.gather(*under_way) == [200] * PLACES
        assert door.taken == 0
        assert await door.ask() == 200

    run_virtually(main())


@pytest.mark.parametrize("path", FREE)
def test_what_says_how_the_server_is_answers_when_all_places_are_taken(path: str) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def work(scope: Scope, receive: Receive) -> None:
            if scope["path"] == "/search":
                await go.wait()

        door = Door(working(work))
        under_way = [asyncio.create_task(door.ask()) for _ in range(PLACES)]
        await turns()
        assert (await door.ask(), await door.ask(path)) == (503, 200)
        go.set()
        await asyncio.gather(*under_way)

    run_virtually(main())


def test_a_body_that_is_still_to_come_holds_no_place() -> None:
    async def main() -> None:
        coming = asyncio.Event()

        async def slowly() -> Message:
            await coming.wait()
            return await whole()

        door = Door(working(lambda scope, receive: hear_all(receive)))
        slow = [asyncio.create_task(door.ask(receive=slowly)) for _ in range(10)]
        await turns()
        assert door.taken == 0
        assert await door.ask() == 200
        coming.set()
        assert set(await asyncio.gather(*slow)) == {200}
        assert door.taken == 0

    run_virtually(main())


def test_bodies_that_come_when_the_places_are_taken_are_refused() -> None:
    async def main() -> None:
        coming, go = asyncio.Event(), asyncio.Event()

        async def slowly() -> Message:
            await coming.wait()
            return await whole()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = Response("done")
            try:
                await hear_all(receive)
                await go.wait()
            except Overloaded as error:  # as an endpoint says it in the envelope of its protocol
                response = refused(Request(scope), error)
            await response(scope, receive, send)

        door = Door(app)
        slow = [asyncio.create_task(door.ask(receive=slowly)) for _ in range(5)]
        await turns()
        coming.set()
        await turns()
        go.set()
        assert sorted(await asyncio.gather(*slow)) == [200] * PLACES + [503] * (5 - PLACES)
        assert door.taken == 0

    run_virtually(main())


def test_to_wait_for_a_client_to_leave_is_to_work() -> None:
    async def main() -> None:
        go = asyncio.Event()
        coming: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            if coming:
                return coming.pop()
            await go.wait()
            return {"type": "http.disconnect"}

        async def work(scope: Scope, receive: Receive) -> None:
            await hear_all(receive)
            await receive()

        door = Door(working(work))
        asking = asyncio.create_task(door.ask(receive=receive))
        await turns()
        assert door.taken == 1
        go.set()
        assert await asking == 200

    run_virtually(main())


def test_a_body_that_nobody_reads_frees_no_place() -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def never() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        door = Door(working(lambda scope, receive: hear_all(receive)))
        asking = [asyncio.create_task(door.ask("/ask", never, method="GET")) for _ in range(PLACES)]
        await turns()
        assert door.taken == PLACES
        assert await door.ask("/ask", method="GET") == 503
        gone.set()
        await asyncio.gather(*asking)
        assert door.taken == 0

    run_virtually(main())


def test_a_reader_that_takes_a_stream_slowly_holds_no_place() -> None:
    async def main() -> None:
        go, works = asyncio.Event(), asyncio.Event()

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await works.wait()
            await send({"type": "http.response.body", "body": b"b"})

        async def slowly(message: Message) -> None:
            if message.get("body") == b"a":
                await go.wait()

        door = Door(stream)
        asking = asyncio.create_task(door.ask(send=slowly))
        await turns()
        assert door.taken == 0
        go.set()
        await turns()
        assert door.taken == 1  # its protocol works on what comes next
        works.set()
        assert await asking == 200
        assert door.taken == 0

    run_virtually(main())


def test_what_does_not_begin_in_time_is_given_up() -> None:
    async def main() -> None:
        given_up = False

        async def work(scope: Scope, receive: Receive) -> None:
            nonlocal given_up
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up = True
                raise

        door = Door(working(work), deadline=20.0)
        assert await door.ask() == 503
        assert given_up
        assert 20.0 <= asyncio.get_running_loop().time() <= 20.0 + 2 * 20.0 / CHECKS_PER_DEADLINE
        assert door.taken == 0

    run_virtually(main())


def test_the_deadline_begins_when_the_body_has_come() -> None:
    async def main() -> None:
        async def slowly() -> Message:
            await asyncio.sleep(300)
            return await whole()

        async def work(scope: Scope, receive: Receive) -> None:
            await hear_all(receive)
            await asyncio.sleep(15)

        assert await Door(working(work), deadline=20.0).ask(receive=slowly) == 200

    run_virtually(main())


def test_a_stream_that_has_begun_has_no_deadline() -> None:
    async def main() -> None:
        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(300)
            await send({"type": "http.response.body", "body": b"end"})

        assert await Door(stream, deadline=20.0).ask() == 200

    run_virtually(main())


def test_who_cancels_for_another_reason_is_obeyed() -> None:
    async def main() -> None:
        async def work(scope: Scope, receive: Receive) -> None:
            await asyncio.Event().wait()

        door = Door(working(work))
        asking = asyncio.create_task(door.ask())
        await turns()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert door.taken == 0

    run_virtually(main())


def test_nothing_looks_at_the_clock_while_nothing_runs() -> None:
    async def main() -> None:
        door = Door(working(lambda scope, receive: hear_all(receive)), deadline=0.02)
        await door.ask()
        await asyncio.sleep(0.1)
        assert not door.guard.running._checking
        await door.ask()
        assert door.guard.running._checking

    run_virtually(main())


def test_who_stops_waiting_for_a_body_holds_one_place_as_before() -> None:
    async def main() -> None:
        counts = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            waiting = asyncio.ensure_future(receive())
            await turns()
            counts.append(door.taken)
            waiting.cancel()
            await turns()
            counts.append(door.taken)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await send({"type": "http.response.body", "body": b"b"})
            counts.append(door.taken)

        async def never() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        door = Door(app)
        assert await door.ask(receive=never) == 200
        assert counts == [0, 1, 1]
        assert door.taken == 0

    run_virtually(main())


def test_who_waits_for_a_body_when_its_request_is_over_takes_no_place() -> None:
    async def main() -> None:
        waiting = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            waiting.append(asyncio.ensure_future(receive()))
            await turns()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"b"})

        async def never() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        door = Door(app)
        await door.ask(receive=never)
        waiting[0].cancel()
        await turns()
        assert door.taken == 0

    run_virtually(main())


@pytest.mark.parametrize("seed", range(5))
def test_however_requests_end_no_place_is_lost(seed: int) -> None:
    """Slow bodies, slow readers, streams, failures, cancellations and deadlines, all at once."""
    chance = random.Random(seed)

    def pause() -> float:
        return chance.choice([0.0, 0.0, 0.001, 0.01, 0.08])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(Overloaded):
            await hear_all(receive)
        await asyncio.sleep(pause())
        if chance.random() < 0.1:
            raise ValueError
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(chance.randrange(3)):
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await asyncio.sleep(pause())
        await send({"type": "http.response.body", "body": b"b"})

    async def one(door: Door) -> None:
        parts = [chance.random() < 0.5 for _ in range(chance.randrange(4))]

        async def slowly() -> Message:
            await asyncio.sleep(pause())
            return {"type": "http.request", "body": b"", "more_body": bool(parts and parts.pop())}

        async def taking(message: Message) -> None:
            await asyncio.sleep(pause())

        await door.ask(receive=slowly, send=taking)

    async def main() -> None:
        door = Door(app, deadline=0.05)
        door.guard.running.most = 20
        tasks = []
        for _ in range(200):
            tasks.append(asyncio.create_task(one(door)))
            if chance.random() < 0.2:
                asyncio.get_running_loop().call_later(pause(), chance.choice(tasks).cancel)
            await asyncio.sleep(0 if chance.random() < 0.7 else pause())
            assert door.taken >= 0
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (door.taken, door.guard.running._slots) == (0, set())

    logging.getLogger("aidre").setLevel(logging.CRITICAL)
    try:
        run_virtually(main())
    finally:
        logging.getLogger("aidre").setLevel(logging.NOTSET)
