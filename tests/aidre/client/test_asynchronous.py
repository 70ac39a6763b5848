"""The asynchronous client: the same operations, with the same outcomes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import aidre
import aidre.client as rooms
from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from tests.aidre.client.conftest import DOCUMENTS, connected
from tests.aidre.client.test_intake import INTAKES
from tests.aidre.client.test_search import FAULTS
from tests.support.clients import AGENTS
from tests.support.fault_proxy import Failing, Fault, FaultyServer, faulty


def asked(url: str, work: Callable[[aidre.AsyncClient], Awaitable[Any]], waits: list[float] | None = None) -> Any:
    """What comes of some work with a client that notes its waits."""
    noted: list[float] = [] if waits is None else waits

    async def note(seconds: float) -> None:
        noted.append(seconds)

    async def main() -> Any:
        async with aidre.connect_async(url) as client:
            client._transport._sleep = note
            return await work(client)

    return asyncio.run(main())


def test_the_two_clients_have_the_same_verbs() -> None:
    pairs = [
        (rooms.Client, rooms.AsyncClient),
        (rooms.RemoteCollection, rooms.AsyncRemoteCollection),
        (rooms.Nlweb, rooms.AsyncNlweb),
        (rooms.Intent, rooms.AsyncIntent),
        (rooms.Intake, rooms.AsyncIntake),
        (rooms.Changes, rooms.AsyncChanges),
    ]
    for blocking, awaited in pairs:
        verbs = {name for name in dir(blocking) if not name.startswith("_")}
        assert verbs == {name for name in dir(awaited) if not name.startswith("_")}
        for name in verbs:
            ours, theirs = getattr(blocking, name), getattr(awaited, name)
            if inspect.isfunction(ours):
                assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
    assert list(inspect.signature(aidre.connect).parameters) == list(inspect.signature(aidre.connect_async).parameters)


def test_search_pages_chunks_and_changes_are_those_of_the_blocking_client(proxy: FaultyServer) -> None:
    async def work(client: aidre.AsyncClient) -> Any:
        docs = client.collection("docs")
        pages = [[hit.id for hit in page] async for page in docs.pages("alpha", size=40)]
        feed = docs.changes(limit=50)
        return (
            await client.collections(),
            (await docs.info()).document_count,
            await docs.search("alpha word 7", k=3),
            list(await docs.search_many([f"alpha word {n}" for n in range(12)], k=2)),
            pages,
            (await docs.chunk("a b/7#chunk_1")).text,
            [change.id async for change in feed],
            feed.token,
            [page.token async for page in docs.changes(limit=50).pages()],
        )

    with connected(proxy.url) as client:
        docs = client.collection("docs")
        feed = docs.changes(limit=50)
        expected = (
            client.collections(),
            docs.info.document_count,
            docs.search("alpha word 7", k=3),
            list(docs.search_many([f"alpha word {n}" for n in range(12)], k=2)),
            [[hit.id for hit in page] for page in docs.pages("alpha", size=40)],
            docs.chunk("a b/7#chunk_1").text,
            [change.id for change in feed],
            feed.token,
            [page.token for page in docs.changes(limit=50).pages()],
        )
    assert asked(proxy.url, work) == expected
    assert len(expected[6]) == DOCUMENTS


def test_nothing_is_lost_or_doubled_under_refusals_and_resets(proxy: FaultyServer) -> None:
    async def work(client: aidre.AsyncClient) -> list[str]:
        return [hit.id async for page in client.collection("docs").pages("alpha", size=40) for hit in page]

    calm, waits = asked(proxy.url, work), list[float]()
    proxy.plan = Failing(FAULTS, "/search")
    assert asked(proxy.url, work, waits) == calm
    assert [wait for wait in waits if wait > 5] == [7.0, 11.0] * 4


def test_streams_and_promises(proxy: FaultyServer) -> None:
    async def work(client: aidre.AsyncClient) -> Any:
        kinds = [event.kind async for event in client.nlweb.stream("alpha word 7", k=2)]
        promised = (await client.nlweb.ask("alpha word 7", k=2, respond_async=True)).promise
        assert promised is not None
        answer = await client.nlweb.wait(promised)
        assert (await client.nlweb.look(promised)).items == answer.items
        await client.nlweb.cancel(promised)
        return kinds, len(answer.items)

    assert asked(proxy.url, work) == (["start", "item", "item", "complete"], 2)

    async def broken(client: aidre.AsyncClient) -> None:
        _ = [event async for event in client.nlweb.stream("alpha word 7", k=5)]

    proxy.plan = lambda one: Fault(cut=900) if one.target == "/ask" else None
    with pytest.raises(aidre.RequestFailed) as caught:
        asked(proxy.url, broken)
    assert caught.value.details["error"] == "interrupted"


def test_intent_and_intake(store: Path) -> None:
    agents = AGENTS.partition("[[intakes]]")[0]
    with faulty(store, agents + INTAKES) as (proxy, _):

        async def work(client: aidre.AsyncClient) -> Any:
            intent = client.intent("platform", "test-secret-0123456789abcdef")
            found = await intent.retrieve("alpha word 7", "of.docs")
            assert await intent.cite(found, found.citations[0])
            assert (await intent.declaration()).editorial_domains == ["of.docs"]
            agent = client.intake("agent-1")
            answer = await agent.submit("find", {"query": "alpha word 7"})
            bound = await agent.bind(answer, {"email": "a@b.example"}, user_agrees=True)
            return bool(found.passages), bound.status, len((await agent.manifest()).intakes)

        assert asked(proxy.url, work) == (True, "bound", 3)


def test_a_closed_client_says_so(proxy: FaultyServer) -> None:
    async def work() -> None:
        client = aidre.connect_async(proxy.url)
        await client.close()
        with pytest.raises(aidre.Closed):
            await client.discovery()

    asyncio.run(work())


def test_an_application_of_the_same_process_is_asked_without_a_port(store: Path) -> None:
    app = create_app(Store(store), parse_settings('[server]\nbase_url = "http://127.0.0.1:8000"\n'))

    async def work() -> int:
        transport = httpx.ASGITransport(app)
        async with aidre.connect_async("http://127.0.0.1:8000", transport=transport) as client:
            found = len(await client.collection("docs").search("alpha", k=7))
        await app.state.nlweb.promises.close()
        return found

    try:
        assert asyncio.run(work()) == 7
    finally:
        app.state.retrieval.close()
