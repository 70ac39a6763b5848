"""SIGKILLs of a promotion: at every request, before the bucket has it or after, while the former home node publishes;
and the model of promotions (`tests/support/promotions.py`) with other seeds.

Whatever was reached, the promotion is run again and becomes the home node; then the former one is refused, and replicas
have what was published before the takeover and after it.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from unittest import mock

from aidre.engine.errors import PublishConflict
from aidre.engine.maintenance.bucket import BucketAddress
from aidre.engine.maintenance.promotion import promote
from aidre.engine.maintenance.replica import replicated_url
from tests.hostile.nursery import Child, Say, waiting
from tests.hostile.publishing import plan_of
from tests.hostile.report import Report
from tests.support.buckets import CREDENTIALS, S3, Place, S3Place, proxy_of
from tests.support.interleaving import by_chance
from tests.support.promotions import FIRST, SECOND, Promotions, Template, commit
from tests.support.replicas import found
from tests.support.stores import NAME

LAST = 14
"""A promotion of one collection makes about so many requests."""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    killed, kinds = 0, Counter[str]()
    s3 = S3()
    try:
        with mock.patch.dict(os.environ, CREDENTIALS):
            for number in range(rounds):
                kind = ("before", "after")[number % 2]
                point = 1 + number // 2 % LAST
                if _round(report.place(f"promotion{number}"), s3, s3.place(), kind, point):
                    killed, kinds[kind] = killed + 1, kinds[kind] + 1
    finally:
        s3.stop()
    shown = ", ".join(f"{count} {kind} a request" for kind, count in sorted(kinds.items()))
    report.figure(
        "promotion-kills",
        f"{rounds} promotions, {killed} killed ({shown}); each was repeated, and refused the former home node",
    )
    _model(report, rounds, chance)


def _round(folder: Path, s3: S3, place: S3Place, kind: str, point: int) -> bool:
    """Whether the promotion was killed before its end."""
    home, cache = folder / "home", folder / "cache"
    commit(home, NAME, "begun")
    place.publish(home)
    place.replica(cache)
    published = ["begun"]
    commit(home, NAME, "more")
    with _Promoting(s3, place, cache, kind, point) as child:
        child.go()
        with suppress(PublishConflict):
            place.publish(home)  # meanwhile, or too late
            published = ["begun", "more"]
        killed = child.killed_by() is not None
    if replicated_url(cache) is not None:
        assert killed, "a promotion that ended has left a replica"
        promote(place.bucket, cache)
    _check(folder, place, home, cache, published)
    return killed


class _Promoting:
    """A child that promotes, behind a proxy at which it is killed."""

    def __init__(self, s3: S3, place: S3Place, cache: Path, kind: str, point: int) -> None:
        self._children: list[Child] = []
        self._proxy = proxy_of(s3, plan_of(kind, point, self._kill))
        self._place, self._cache = place, cache

    def _kill(self) -> None:
        self._children[0].process.kill()

    def __enter__(self) -> Child:
        proxy = self._proxy.__enter__()
        self._waiting = waiting(_promote, self._cache, self._place.through(proxy).address)
        child = self._waiting.__enter__()
        self._children.append(child)
        return child

    def __exit__(self, *error: object) -> None:
        self._waiting.__exit__(None, None, None)
        self._proxy.__exit__(None, None, None)


def _promote(say: Say, cache: Path, address: BucketAddress) -> None:
    """In a child."""
    os.environ.update(CREDENTIALS)
    promote(Place(address).bucket, cache)


def _check(folder: Path, place: S3Place, home: Path, cache: Path, published: list[str]) -> None:
    """One history, continued by the new home node alone."""
    commit(home, NAME, "lost")
    try:
        place.publish(home)
    except PublishConflict as conflict:
        assert "belongs to term" in str(conflict), conflict
    else:
        raise AssertionError("the former home node was not refused")
    commit(cache, NAME, "new")
    place.publish(cache)
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    place.replica(folder / "fresh")
    assert set(published) | {"new"} <= set(found(folder / "fresh")) <= {"begun", "more", "new"}


def _model(report: Report, rounds: int, chance: random.Random) -> None:
    folder = report.place("model")
    template = Template(folder / "template")
    kills = steps = 0
    for number in range(rounds):
        run_of = Promotions(template, folder / f"run{number}", by_chance(chance, 0.03))
        last = run_of.promoter(SECOND, 2) if number % 2 else run_of.follower(SECOND)
        kills += run_of.run(run_of.home(3), run_of.promoter(FIRST, 2), last)
        steps += len(run_of.world.order)
        shutil.rmtree(folder / f"run{number}")
    report.figure("promotion-model", f"{rounds} orders of {steps} steps, {kills} kills: one history in each")
