"""Promises of a store that cannot be written, which its workers share in a folder of the server."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clients import a_document, fill
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.processes import running

CONNECTIONS = 8
PROMISES = 200


@pytest.mark.process
@pytest.mark.slow
def test_no_promise_of_a_store_that_cannot_be_written_is_unknown_to_another_worker(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "docs", [a_document(f"d{number}", f"alpha {number}") for number in range(5)])
    (store / ".log").write_text("in the way", encoding="utf-8")
    with running(store, workers=2) as server, ExitStack() as stack:
        # Connections of their own: the workers share the port.
        clients = [
            stack.enter_context(httpx.Client(base_url=server.url, timeout=WAIT_SECONDS)) for _ in range(CONNECTIONS)
        ]

        def outcome(number: int) -> str:
            """What a promise of one connection comes to on three others."""
            asked = {"query": {"text": "alpha"}, "prefer": {"respond-async": True}}
            token = clients[number % CONNECTIONS].post("/ask", json=asked).json()["promise"]["token"]
            kinds: list[str] = []

            def is_settled(other: httpx.Client) -> bool:
                body: dict[str, Any] = {"promise_token": token, "action": "checkin"}
                answer = other.post("/await", json=body).json()
                kinds.append(answer.get("error", {}).get("code", answer["_meta"]["response_type"]))
                return kinds[-1] != "promise"

            for distance in (1, 2, 5):
                until(partial(is_settled, clients[(number + distance) % CONNECTIONS]))
            return ",".join(sorted(set(kinds) - {"promise"}))

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            outcomes = Counter(pool.map(outcome, range(PROMISES)))
    assert outcomes == {"answer": PROMISES}
