"""SIGKILLs of a publisher: at every request, before the bucket has it or before the publisher sees the answer, and at
random moments. After each the bucket opens as the old generation or the new one, and the next publication succeeds.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.bucket import BucketAddress
from aidre.engine.maintenance.fleet.catalog import PublishResult
from aidre.engine.maintenance.publisher import StorePublisher
from aidre.engine.maintenance.replica import Replica
from aidre.engine.maintenance.verify import verify
from tests.hostile.nursery import Child, Say, waiting
from tests.hostile.report import Report
from tests.support.buckets import CREDENTIALS, S3, Place, S3Place, proxy_of
from tests.support.fault_proxy import RESET_BEFORE, Asked, Fault
from tests.support.stores import NAME, ROWS, SPACE, everything, put

LIFE = 10
"""Kills after which a new store is published into a new bucket: also the first publication is killed."""
KINDS = ("before", "after", "moment")
SECONDS = 0.25
"""About how long a publication takes."""


@dataclass(slots=True)
class Counts:
    """What was done so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    old: int = 0
    new: int = 0
    none: int = 0
    purges: int = 0
    requests: int = 0
    points: Counter[str] = field(default_factory=Counter)
    """The next request to be killed at."""

    @property
    def kills(self) -> int:
        return sum(self.kinds.values())


def run(report: Report, rounds: int, chance: random.Random) -> None:
    s3, counts, number = S3(), Counts(), 0
    try:
        with mock.patch.dict(os.environ, CREDENTIALS):
            while counts.kills < rounds:
                life = Life(report.place(f"life{number}"), s3, s3.place(), counts)
                life.live_through(min(LIFE, rounds - counts.kills), chance)
                report.say(f"{counts.kills} kills")
                number += 1
    finally:
        s3.stop()
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.kinds.items()))
    report.figure(
        "publish-kills",
        f"{counts.kills} kills ({kinds}; up to request {counts.requests}); the bucket was readable each time: "
        f"{counts.none} times empty as before, {counts.old} the old generation, {counts.new} the new one; the next "
        f"publication succeeded each time; {counts.purges} purges left no trace",
    )


class Life:
    """One store, one bucket, a replica that follows it, and publishers that are killed."""

    def __init__(self, folder: Path, s3: S3, place: S3Place, counts: Counts) -> None:
        self._folder, self._s3, self._place, self._counts = folder, s3, place, counts
        self._store = folder / "store"
        self._published: list[str] | None = None
        self._doomed: list[str] = []
        self._generation = 0
        self._replica = Replica(place.bucket, folder / "following")
        self._replica.prepare()

    def live_through(self, kills: int, chance: random.Random) -> None:
        done, counts = 0, self._counts
        while done < kills:
            kind = KINDS[counts.kills % len(KINDS)]
            self._write(chance)
            killed = self._kill(kind, counts.points[kind], chance)
            if killed:
                counts.kinds[kind] += 1
                counts.requests = max(counts.requests, counts.points[kind])
                done, counts.points[kind] = done + 1, counts.points[kind] + 1
            else:
                counts.points[kind] = 0
            self._check(killed=killed)

    def _write(self, chance: random.Random) -> None:
        """One commit that adds, and sometimes deletes or purges."""
        self._generation += 1
        stored = everything(Store(self._store).open(NAME)) if self._generation > 1 else []
        doomed = chance.sample(stored, min(len(stored), chance.choice([0, 0, 1, 3])))
        with Store(self._store).writer(NAME, spaces=[SPACE]) as writer:
            put(writer, [f"d{self._generation:04d}"], ROWS[self._generation % 200 :][:1])
            writer.delete(doomed)
            writer.commit()
            if doomed and chance.random() < 0.3:
                writer.purge()
                self._doomed += [f"text of {one}" for one in {*doomed}]
                self._counts.purges += 1
            else:
                writer.finish()

    def _kill(self, kind: str, point: int, chance: random.Random) -> bool:
        """Whether the publisher was killed before its end."""
        children: list[Child] = []

        def kill() -> None:
            children[0].process.kill()

        with (
            proxy_of(self._s3, plan_of(kind, point, kill)) as proxy,
            waiting(_publish, self._store, self._place.through(proxy).address) as child,
        ):
            children.append(child)
            timer = threading.Timer(chance.uniform(0.0, SECONDS), kill)
            child.go()
            if kind == "moment":
                timer.start()
            killed = child.killed_by() is not None
            timer.cancel()
        return killed

    def _check(self, *, killed: bool) -> None:
        """A fresh replica opens the old generation or the new one; then the next publication succeeds."""
        new = everything(Store(self._store).open(NAME))
        found = self._fresh()
        assert found in (self._published, new), f"{found} is neither {self._published} nor {new}"
        assert killed or found == new, "a publisher that was not killed has not published"
        if killed:
            self._counts.none += found is None
            self._counts.old += found is not None and found != new
            self._counts.new += found == new
        if found is not None:
            self._pull()
        [published] = _published(StorePublisher(Store(self._store), self._place.bucket))
        assert published.generation == Store(self._store).current(NAME)
        self._published = new
        assert self._fresh() == new
        self._pull()
        self._check_traces()

    def _fresh(self) -> list[str] | None:
        """What a replica that knows nothing finds; None where nothing was published."""
        cache = self._folder / "fresh"
        shutil.rmtree(cache, ignore_errors=True)
        replica = Replica(self._place.bucket, cache)
        replica.prepare()
        if not any(key.endswith("CURRENT") for key in self._keys()):
            return None
        replica.pull()
        return _found(cache)

    def _keys(self) -> list[str]:
        return [one.key for one in self._place.bucket.list("")]

    def _pull(self) -> None:
        self._replica.pull()
        assert _found(self._replica.cache) in (self._published, everything(Store(self._store).open(NAME)))

    def _check_traces(self) -> None:
        """Nothing of what was purged is in the bucket or in the cache."""
        contents = [*self._place.contents().items()]
        contents += [(path.name, path.read_bytes()) for path in self._replica.cache.rglob("*") if path.is_file()]
        left = [(name, text) for name, content in contents for text in self._doomed if text.encode() in content]
        assert not left, f"a purge left traces: {left[:3]}"


def plan_of(kind: str, point: int, kill: Callable[[], None]) -> Callable[[Asked], Fault | None]:
    def killing(answer: bytes) -> bytes:
        kill()
        return answer

    def plan(asked: Asked) -> Fault | None:
        if kind == "moment" or asked.number != point:
            return None
        if kind == "after":
            return Fault(change=killing, cut=0)
        kill()
        return RESET_BEFORE

    return plan


def _publish(say: Say, store: Path, address: BucketAddress) -> None:
    """In a child."""
    os.environ.update(CREDENTIALS)
    _published(StorePublisher(Store(store), Place(address).bucket))


def _published(publisher: StorePublisher) -> list[PublishResult]:
    return publisher.publish([NAME])


def _found(cache: Path) -> list[str]:
    for report in verify(Store(cache)):
        assert not report.problems, report
    return everything(Store(cache).open(NAME))
