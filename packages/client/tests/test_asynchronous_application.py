"""The asynchronous client beside the engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

import aidre_client
from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from tests.support.clients import AGENTS
from tests.support.fault_proxy import faulty
from tests.support.remote import INTAKES, awaited


def test_intent_and_intake(store: Path) -> None:
    agents = AGENTS.partition("[[intakes]]")[0]
    with faulty(store, agents + INTAKES) as (proxy, _):

        async def work(client: aidre_client.AsyncClient) -> Any:
            intent = client.intent("platform", "test-secret-0123456789abcdef")
            found = await intent.retrieve("alpha word 7", "of.docs")
            assert await intent.cite(found, found.citations[0])
            assert (await intent.declaration()).editorial_domains == ["of.docs"]
            agent = client.intake("agent-1")
            answer = await agent.submit("find", {"query": "alpha word 7"})
            bound = await agent.bind(answer, {"email": "a@b.example"}, user_agrees=True)
            return bool(found.passages), bound.status, len((await agent.manifest()).intakes)

        assert awaited(proxy.url, work) == (True, "bound", 3)


def test_an_application_of_the_same_process_is_asked_without_a_port(store: Path) -> None:
    app = create_app(Store(store), parse_settings('[server]\nbase_url = "http://127.0.0.1:8000"\n'))

    async def work() -> int:
        transport = httpx.ASGITransport(app)
        async with aidre_client.connect_async("http://127.0.0.1:8000", transport=transport) as client:
            found = len(await client.collection("docs").search("alpha", k=7))
        await app.state.nlweb.promises.close()
        return found

    try:
        assert asyncio.run(work()) == 7
    finally:
        app.state.retrieval.close()
