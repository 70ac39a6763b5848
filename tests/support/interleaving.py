"""A model of one bucket and the hosts that use it: their real code, in an order that a test decides, killed anywhere.

Each host is a thread. It stops before every request to the bucket and before every file that it replaces, until it is
its turn; so a run is a sequence of turns, which a seed or an enumeration chooses. A host that is killed loses its
thread before a request, or after it and before the answer, and begins again with nothing but its folder.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from aidre.engine.maintenance.bucket import Bucket, StoredObject
from aidre.engine.maintenance.publication import Publication, decode_record
from tests.support.clocks import WAIT_SECONDS

Turn: TypeAlias = tuple[int, Literal["", "before", "after"]]
"""The place of the host among those that wait, and when it is killed."""
Choose: TypeAlias = Callable[[Sequence["Host"]], Turn]


class Killed(BaseException):
    """The end of a host's process."""


@dataclass(eq=False)
class Host:
    """One process after the other on one machine: `life` is what it does, begun again after a kill."""

    name: str
    life: Callable[[], None]
    lives: int = 3
    steps: int = 0
    kills: int = 0
    is_waiting: bool = False
    is_done: bool = False
    kill: str = ""
    failure: BaseException | None = None


class World:
    """Hosts that take turns."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._hosts: dict[threading.Thread, Host] = {}
        self._turn = threading.Condition()
        self.order: list[str] = []

    @property
    def host(self) -> Host | None:
        """Of the running thread."""
        return self._hosts.get(threading.current_thread())

    def run(self, *hosts: Host) -> None:
        """Until all are done. Raises what a host raised that nobody expected."""
        for host in hosts:
            thread = threading.Thread(target=self._live, args=(host,), name=host.name, daemon=True)
            self._hosts[thread] = host
        for thread in list(self._hosts):
            thread.start()
        while self._take_turn(hosts):
            pass
        for host in hosts:
            if host.failure is not None:
                raise host.failure

    def _take_turn(self, hosts: Sequence[Host]) -> bool:
        with self._turn:
            assert self._turn.wait_for(lambda: all(one.is_waiting or one.is_done for one in hosts), WAIT_SECONDS)
            waiting = [one for one in hosts if one.is_waiting]
            if not waiting:
                return False
            place, kill = self._choose(waiting)
            host = waiting[place]
            host.is_waiting, host.kill = False, kill if host.lives > 1 else ""
            self._turn.notify_all()
        return True

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within this context the host makes no steps: what it does there is proved elsewhere."""
        thread = threading.current_thread()
        host = self._hosts.pop(thread)
        try:
            yield
        finally:
            self._hosts[thread] = host

    def step(self, what: str) -> str:
        """Wait for a turn; returns "after" where the host is killed after what it does next."""
        host = self.host
        if host is None:
            return ""
        with self._turn:
            host.is_waiting = True
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: not host.is_waiting, WAIT_SECONDS)
        host.steps += 1
        self.order.append(f"{host.name} {what} {host.kill}".rstrip())
        if host.kill == "before":
            raise Killed
        return host.kill

    def _live(self, host: Host) -> None:
        try:
            while host.lives:
                try:
                    host.life()
                    break
                except Killed:
                    host.kills += 1
                    host.lives -= 1
        except BaseException as failure:
            host.failure = failure
        finally:
            with self._turn:
                host.is_done = True
                self._turn.notify_all()


def by_chance(chance: random.Random, kills: float) -> Choose:
    """Any host next, killed with a probability."""

    def choose(waiting: Sequence[Host]) -> Turn:
        kill: Any = chance.choice(["before", "after"]) if chance.random() < kills else ""
        return chance.randrange(len(waiting)), kill

    return choose


def in_turn(*parts: tuple[str, int, str]) -> Choose:
    """Each named host for so many steps, the last of which may be killed; then those that are left, in order."""
    left: list[list[Any]] = [[name, steps, kill] for name, steps, kill in parts]

    def choose(waiting: Sequence[Host]) -> Turn:
        while left:
            place = next((place for place, host in enumerate(waiting) if host.name == left[0][0]), None)
            if place is None or left[0][1] == 0:
                left.pop(0)
                continue
            left[0][1] -= 1
            kill: Any = left[0][2] if left[0][1] == 0 else ""
            return place, kill
        return 0, ""

    return choose


@dataclass
class Objects:
    """What a bucket has, and the publications that it ever had, with the host of each."""

    stored: dict[str, tuple[bytes, str, datetime]] = field(default_factory=dict)
    history: list[tuple[str, str, Publication]] = field(default_factory=list)
    number: int = 0


class MemoryBucket(Bucket):
    """A bucket whose every request is a step of its host."""

    def __init__(self, objects: Objects, world: World) -> None:  # no super: there is no address
        self.url = "s3://model/of/tests"
        self._objects, self._world = objects, world

    def _done(self, kill: str) -> None:
        if kill:
            raise Killed

    def get(self, key: str, *, unless: str | None = None) -> tuple[bytes, str] | None:
        self._done(self._world.step(f"get {key}"))
        found = self._objects.stored.get(key)
        return None if found is None or found[1] == unless else found[:2]

    def download(self, key: str, target: IO[bytes]) -> bool:
        self._done(self._world.step(f"get {key}"))
        found = self._objects.stored.get(key)
        if found is not None:
            target.write(found[0])
        return found is not None

    def put_new(self, key: str, content: bytes | Path) -> bool:
        kill = self._world.step(f"put new {key}")
        is_new = key not in self._objects.stored
        if is_new:
            self._store(key, content)
        self._done(kill)
        return is_new

    def put(self, key: str, content: bytes | Path) -> None:
        kill = self._world.step(f"put {key}")
        self._store(key, content)
        self._done(kill)

    def swap(self, key: str, content: bytes, etag: str | None) -> bool:
        kill = self._world.step(f"swap {key}")
        found = self._objects.stored.get(key)
        is_swapped = (None if found is None else found[1]) == etag
        if is_swapped:
            self._store(key, content)
        self._done(kill)
        return is_swapped

    def size(self, key: str) -> int | None:
        self._done(self._world.step(f"head {key}"))
        found = self._objects.stored.get(key)
        return None if found is None else len(found[0])

    def list(self, prefix: str, *, beginning: str = "") -> Iterator[StoredObject]:
        self._done(self._world.step(f"list {prefix}"))
        folder = f"{prefix}/" if prefix else ""
        for key, (content, _, modified) in sorted(self._objects.stored.items()):
            if key.startswith(folder) and key.startswith(beginning):
                yield StoredObject(key, len(content), modified)

    def folders(self) -> frozenset[str]:
        self._done(self._world.step("list the folders"))
        return frozenset(key.partition("/")[0] for key in self._objects.stored if "/" in key)

    def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return  # no request
        kill = self._world.step(f"delete {len(keys)}")
        for key in keys:
            self._objects.stored.pop(key, None)
        self._done(kill)

    def _store(self, key: str, content: bytes | Path) -> None:
        whole = content if isinstance(content, bytes) else content.read_bytes()
        self._objects.number += 1
        self._objects.stored[key] = whole, f'"{self._objects.number}"', datetime.now(UTC)
        collection, _, name = key.partition("/")
        if name == "CURRENT":
            host = self._world.host
            publication = decode_record(whole, Publication, self, key)
            self._objects.history.append((collection, "" if host is None else host.name, publication))


class Inline(Executor):
    """A pool whose work is done by the thread that asks for it: a host is one thread."""

    def __init__(self, max_workers: int = 1, thread_name_prefix: str = "") -> None:
        """The parameters of a pool of threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future

    def map(self, fn: Callable[..., Any], *iterables: Any, **how: Any) -> Iterator[Any]:
        return map(fn, *iterables)
