"""The name of a private collection and one that does not exist are told apart by time no better than by a coin.

Pairs of names are asked for in turns, in a random order; who guesses takes the one with the greater median for the
private one. The same guess, between two names that do not exist, says how good the coin of this machine is.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from statistics import median

from starlette.applications import Starlette
from starlette.types import Message

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine import open_source
from tests.hostile.report import Report
from tests.support.clients import a_document, fill

PAIRS = 50
"""Of a sample."""
SAMPLES = 5
"""A coin guesses more than 60 % of one sample in every sixteenth run; of so many together in one of a thousand."""
MOST_RIGHT = 0.60
NAMES = 10
PATHS: Sequence[Callable[[str], str]] = (
    lambda name: f"/collections/{name}",
    lambda name: f"/collections/{name}/browse/d1",
)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """`rounds` requests for each name of a pair, on each path."""
    store = report.place("store")
    hidden = [f"hidden{number:02}" for number in range(NAMES)]
    missing = [f"absent{number:02}" for number in range(2 * NAMES)]
    for name in (*hidden, "shown"):
        fill(store, name, [a_document("d1", f"alpha of {name}")])
    private = "".join(f'[collections.{name}]\nvisibility = "private"\n' for name in hidden)
    settings = parse_settings(f'[limits]\nrate = "none"\n{private}')
    application = create_app(open_source(store), settings)
    rates = asyncio.run(_guess(application, hidden, missing, rounds, chance))
    report.figure(
        "timing",
        f"{PAIRS * SAMPLES} pairs of a private and a missing name, {rounds} requests each: guessed right "
        + "; ".join(f"{told:.0%} (two missing names {coin:.0%}) of {path}" for path, told, coin in rates),
    )
    assert all(max(told, 1 - told) <= MOST_RIGHT for _, told, _ in rates), rates


async def _guess(
    application: Starlette, hidden: Sequence[str], missing: Sequence[str], rounds: int, chance: random.Random
) -> list[tuple[str, float, float]]:
    """For each path, how often the private one of a pair is the slower one, and the first of two that are missing."""
    rates = []
    async with application.router.lifespan_context(application):
        for path in PATHS:
            for name in (*hidden, *missing):
                assert (await _ask(application, path(name)))[0] == 404, name
            told = await _right(application, path, hidden, missing, rounds, chance)
            coin = await _right(application, path, missing[:NAMES], missing[NAMES:], rounds, chance)
            rates.append((path("NAME"), told, coin))
    return rates


async def _right(
    application: Starlette,
    path: Callable[[str], str],
    ones: Sequence[str],
    others: Sequence[str],
    times: int,
    chance: random.Random,
) -> float:
    """The share of pairs of which the first has the greater median."""
    right = 0
    for _ in range(PAIRS * SAMPLES):
        pair = path(chance.choice(ones)), path(chance.choice(others))
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(times):
            for number in chance.sample((0, 1), 2):
                took[number].append((await _ask(application, pair[number]))[1])
        right += median(took[0]) > median(took[1])
    return right / (PAIRS * SAMPLES)


async def _ask(application: Starlette, path: str) -> tuple[int, float]:
    """The status of an answer, and the seconds that it took; without a client, whose own time would hide it."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8000")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    began = time.perf_counter()
    await application(scope, receive, send)
    return statuses[0], time.perf_counter() - began
