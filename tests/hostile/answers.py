"""What a server answers while its store is written: a state that was acknowledged, or is being written."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.hostile.client import Answer, Connection, posted, request
from tests.hostile.moves import CLOSED, IDS, OPEN
from tests.hostile.steps import State
from tests.support.clocks import WAIT_SECONDS

SECRET = "chaos-chaos-chaos-chaos"
"""Of the key that may read the closed collection."""
SEEN = re.compile(r"(d\d{5}) as of (\d+): ")
"""The id and the version of a document, in its text."""


@dataclass(slots=True)
class History:
    """Every state of a collection that was acknowledged, or was being written."""

    states: set[frozenset[tuple[str, int]]] = field(default_factory=set)
    versions: set[tuple[str, int]] = field(default_factory=set)

    def add(self, state: State) -> None:
        self.states.add(frozenset(state.items()))
        self.versions |= set(state.items())


class Readers:
    """Ask all the while, in a thread: all documents of a collection at once, or one; each answer is a known state."""

    def __init__(self, port: int, histories: dict[str, History], chance: random.Random) -> None:
        self._port, self._histories, self._chance = port, histories, chance
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask_all()), name="readers")
        self.statuses: Counter[int] = Counter()
        self.problems: list[str] = []
        self.may_break = False
        """Whether connections may end now without an answer."""

    @contextmanager
    def asking(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join(WAIT_SECONDS)

    async def _ask_all(self) -> None:
        await asyncio.gather(*(self._ask() for _ in range(2)))

    async def _ask(self) -> None:
        connection = Connection(self._port)
        while not self._over.is_set():
            could_break = self.may_break
            collection = self._chance.choice((OPEN, CLOSED))
            try:
                await self._chance.choice((self._whole, self._whole, self._single, self._refused))(
                    connection, collection, could_break
                )
            except Exception as error:
                self.problems.append(repr(error))
            if self._chance.random() < 0.2:
                connection.close()
            await asyncio.sleep(0.05)
        connection.close()

    async def _answered(self, connection: Connection, content: bytes, could_break: bool, *expected: int) -> Answer:
        answer = await connection.ask(content)
        self.statuses[answer.status] += 1
        if answer.status not in expected and not (answer.status == 0 and (could_break or self.may_break)):
            self.problems.append(f"{content[:200]!r} got {answer.status} {answer.body[:300]!r}")
        return answer

    async def _whole(self, connection: Connection, collection: str, could_break: bool) -> None:
        answer = await self._answered(connection, everything(collection), could_break, 200)
        if answer.status == 200:
            found = frozenset(documents_in(answer).items())
            if found not in self._histories[collection].states:
                self.problems.append(f"{collection}: an answer is of no state: {sorted(found)}")

    async def _single(self, connection: Connection, collection: str, could_break: bool) -> None:
        one = self._chance.choice(IDS[collection])
        content = request("GET", f"/chunks/{one}%23chunk_1?collection={collection}", None, **key_of(collection))
        answer = await self._answered(connection, content, could_break, 200, 404)
        if answer.status == 200:
            found = SEEN.findall(answer.body.decode())
            if not {(name, int(version)) for name, version in found} <= self._histories[collection].versions:
                self.problems.append(f"{collection}: {found} was never written")

    async def _refused(self, connection: Connection, _: str, could_break: bool) -> None:
        """A private collection, asked by nobody in particular."""
        body = {"collection": CLOSED, "query": "rain", "mode": "lexical"}
        await self._answered(connection, posted("/search", body), could_break, 401, 403, 404)


def key_of(collection: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRET}"} if collection == CLOSED else {}


def everything(collection: str) -> bytes:
    """Asks for every document: a word of it stands in all of them."""
    body = {"collection": collection, "query": "rain", "mode": "lexical", "top_k": 100, "return": {"text": True}}
    return posted("/search", body, **key_of(collection))


def documents_in(answer: Answer) -> dict[str, int]:
    found = [SEEN.search(str(result["text"])) for result in answer.json()["results"]]
    return {match[1]: int(match[2]) for match in found if match is not None}
