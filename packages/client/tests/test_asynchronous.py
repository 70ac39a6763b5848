"""The asynchronous client: the same operations, with the same outcomes."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import aidre_client
from tests.support.fault_proxy import Failing, Fault, FaultyServer
from tests.support.remote import DOCUMENTS, FAULTS, awaited, connected


def test_the_two_clients_have_the_same_verbs() -> None:
    pairs = [
        (aidre_client.Client, aidre_client.AsyncClient),
        (aidre_client.RemoteCollection, aidre_client.AsyncRemoteCollection),
        (aidre_client.Nlweb, aidre_client.AsyncNlweb),
        (aidre_client.Intent, aidre_client.AsyncIntent),
        (aidre_client.Intake, aidre_client.AsyncIntake),
        (aidre_client.Changes, aidre_client.AsyncChanges),
    ]
    for blocking, other in pairs:
        verbs = {name for name in dir(blocking) if not name.startswith("_")}
        assert verbs == {name for name in dir(other) if not name.startswith("_")}
        for name in verbs:
            ours, theirs = getattr(blocking, name), getattr(other, name)
            if inspect.isfunction(ours):
                assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
    assert list(inspect.signature(aidre_client.connect).parameters) == list(
        inspect.signature(aidre_client.connect_async).parameters
    )


def test_search_pages_chunks_and_changes_are_those_of_the_blocking_client(proxy: FaultyServer) -> None:
    async def work(client: aidre_client.AsyncClient) -> Any:
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
    assert awaited(proxy.url, work) == expected
    assert len(expected[6]) == DOCUMENTS


def test_nothing_is_lost_or_doubled_under_refusals_and_resets(proxy: FaultyServer) -> None:
    async def work(client: aidre_client.AsyncClient) -> list[str]:
        return [hit.id async for page in client.collection("docs").pages("alpha", size=40) for hit in page]

    calm, waits = awaited(proxy.url, work), list[float]()
    proxy.plan = Failing(FAULTS, "/search")
    assert awaited(proxy.url, work, waits) == calm
    assert [wait for wait in waits if wait > 5] == [7.0, 11.0] * 4


def test_streams_and_promises(proxy: FaultyServer) -> None:
    async def work(client: aidre_client.AsyncClient) -> Any:
        kinds = [event.kind async for event in client.nlweb.stream("alpha word 7", k=2)]
        promised = (await client.nlweb.ask("alpha word 7", k=2, respond_async=True)).promise
        assert promised is not None
        answer = await client.nlweb.wait(promised)
        assert (await client.nlweb.look(promised)).items == answer.items
        await client.nlweb.cancel(promised)
        return kinds, len(answer.items)

    assert awaited(proxy.url, work) == (["start", "item", "item", "complete"], 2)

    async def broken(client: aidre_client.AsyncClient) -> None:
        _ = [event async for event in client.nlweb.stream("alpha word 7", k=5)]

    proxy.plan = lambda one: Fault(cut=900) if one.target == "/ask" else None
    with pytest.raises(aidre_client.RequestFailed) as caught:
        awaited(proxy.url, broken)
    assert caught.value.details["error"] == "interrupted"


def test_a_closed_client_says_so(proxy: FaultyServer) -> None:
    async def work() -> None:
        client = aidre_client.connect_async(proxy.url)
        await client.close()
        with pytest.raises(aidre_client.Closed):
            await client.discovery()

    asyncio.run(work())
