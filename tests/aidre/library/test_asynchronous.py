"""The library for asynchronous programs, `aidre/library/asynchronous.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aidre
from aidre.library.asynchronous import SCANNED
from tests.aidre.library.conftest import SMALL, letters
from tests.support.clocks import WAIT_SECONDS


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_the_verbs_are_those_of_the_library(tmp_path: Path) -> None:
    async def story() -> None:
        async with aidre.open_async(tmp_path / "store") as db:
            docs = db.collection("docs", space=SMALL, embed=letters)
            assert await docs.count() == 0
            number = SCANNED + 10
            ids = await docs.add([{"id": f"d{row}", "text": f"text a{row}", "row": row} for row in range(number)])
            assert len(ids) == number
            assert await db.collections() == ["docs"]
            generation = await docs.generation()

            assert (await docs.search("text a7", k=1, mode="lexical"))[0].document_id == "d7"
            assert len((await docs.search_many(np.ones((2, 3)), k=3)).to_arrow()) == 6
            assert await docs.count({"row": {"lt": 5}}) == 5
            assert (await docs.facets("row"))["row"].documents == number
            assert [one.id async for one in docs.scan({"row": {"lt": 3}})] == ["d0", "d1", "d2"]
            assert len([one async for one in docs.scan(fields=["row"])]) == number
            [found, missing] = await docs.get(["d1", "x"], vectors=True)
            assert found is not None
            assert found.vectors is not None
            assert missing is None

            assert await docs.patch({"d0": {"row": 1_000}}) == 1
            assert await docs.delete(["d1"]) == 1
            assert await docs.delete(filter={"row": {"lt": 5}}) == 3
            assert await docs.count() == number - 4
            assert await (await docs.at(generation)).count() == number
            await db.backup(tmp_path / "backup.tar")
            await db.drop("docs")
            assert await db.collections() == []
        with pytest.raises(aidre.Closed):
            await docs.count()

    run(story())


def test_a_folder_is_ingested(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A\n\na note\n")

    async def story() -> None:
        docs = aidre.open_async(tmp_path / "store").collection("docs", space=SMALL, embed=letters)
        assert (await docs.ingest(tmp_path / "notes")).updated == 1

    run(story())


def test_the_event_loop_stays_free_and_searches_run_at_once(tmp_path: Path) -> None:
    waiting = []

    async def story() -> None:
        started, may_end = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(texts: list[str]) -> Any:
            loop.call_soon_threadsafe(started.set)
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(WAIT_SECONDS)
            return letters(texts)

        docs = aidre.open_async(tmp_path / "store").collection("docs", space=SMALL, embed=slow)
        write = asyncio.create_task(docs.add("a text"))
        await asyncio.wait_for(started.wait(), WAIT_SECONDS)
        waiting.append(await docs.count())  # while the write waits for its vectors
        may_end.set()
        await asyncio.wait_for(write, WAIT_SECONDS)
        assert await docs.count() == 1

    run(story())
    assert waiting == [0]


def test_no_verb_is_forgotten() -> None:
    kept = {"reader", "writer"}  # of `collection`, the one for threads
    verbs = {name for name in dir(aidre.Collection) if not name.startswith("_")} - kept
    assert verbs - set(dir(aidre.AsyncCollection)) == set()


def test_a_word_of_another_library_is_answered_by_ours(tmp_path: Path) -> None:
    async def story() -> None:
        docs: Any = aidre.open_async(tmp_path / "store").collection("docs")
        with pytest.raises(aidre.InvalidInput, match="here it is k="):
            await docs.search("soup", n_results=3)
        with pytest.raises(AttributeError, match="here it is search"):
            await docs.query("soup")

    run(story())
