"""Whether a server is alive and ready, `api/operations/monitoring.py`."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from aidre.api.operations.monitoring import alive, readiness
from aidre.api.operations.status_messages import Readiness

SOUND = SimpleNamespace(snapshot="a snapshot", problem=None)
STALE = SimpleNamespace(snapshot="an older snapshot", problem="damaged")
LOST = SimpleNamespace(snapshot=None, problem="damaged")


def retrieval(problem: str | None = None, **collections: Any) -> Any:
    return SimpleNamespace(snapshots=SimpleNamespace(collections=collections, problem=problem))


def test_a_process_that_answers_is_alive_whatever_its_store_is() -> None:
    answer = asyncio.run(alive(Request({"type": "http"})))
    assert (answer.status_code, answer.body) == (200, b'{"status":"ok"}')
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (retrieval(), (200, "ready", 0)),
        (retrieval(a=SOUND, b=SOUND), (200, "ready", 0)),
        (retrieval(a=SOUND, b=LOST), (200, "degraded", 1)),
        (retrieval(a=STALE), (200, "degraded", 1)),
        (retrieval(a=LOST, b=LOST), (503, "unavailable", 2)),
        (retrieval("the disk is gone", a=SOUND), (503, "unavailable", 0)),
    ],
    ids=["empty", "sound", "one of two", "older", "none", "no store"],
)
def test_a_server_is_ready_while_any_collection_can_be_served(found: Any, expected: tuple[int, str, int]) -> None:
    status, body = readiness(found)
    assert (status, body.status, body.damaged) == expected


def test_what_the_scrub_has_found_counts_as_damage_once() -> None:
    assert readiness(retrieval(a=SOUND, b=STALE), {"a", "b"}) == (200, Readiness(status="degraded", damaged=2))
    assert readiness(retrieval(a=SOUND), {"gone"}) == (200, Readiness(status="ready", damaged=0))
