"""Receipts of Agentic Intent and binds of Agent Intake: what was acknowledged stands there once, whatever died.

Two workers share the files, as those of a server do, and both are killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from aidre.api.http.http_errors import NotFound
from aidre.api.protocols.intake.bind_key import BindKey
from aidre.api.protocols.intake.offer_ledger import OfferLedger as Binds, StoredBind, StoredOffer
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, PassageCandidate, RecordedExchange, read_events
from aidre.api.protocols.intent.intent_messages import CitationEvent
from aidre.api.protocols.intent.receipts import Nonce, Receipts
from aidre.api.protocols.intent.signed_envelope import AuthenticationFailed
from tests.hostile.nursery import Child, Say, asked, started
from tests.hostile.report import Report

KEY = "platform"
URL = "https://example.com/d"
SETTLED_ROWS = 16
"""New chunks are settled many times in a second."""
NOW = 1_800_000_000.0
"""Always: no nonce is over, however slow the machine is."""
LOG = ".log"


@lru_cache(maxsize=1)
def bind_key() -> BindKey:
    """Made once: it is slow to make, as it should be."""
    return BindKey("k" * 32)


def receipts_in(store: Path) -> Receipts:
    """Receipts that settle new chunks often."""
    ledger_module.SETTLE_ROWS = SETTLED_ROWS
    return Receipts(store / LOG, clock=lambda: NOW)


def access(name: str) -> dict[str, Any]:
    return {"event_id": f"access {name}", "event_type": "access", "request_id": name}


def citation(name: str) -> CitationEvent:
    event = {"event_id": f"citation {name}", "event_type": "citation", "request_id": name}
    return CitationEvent(f"citation {name}", name, URL, (f"{name}#chunk_1",), "chat", event)


def a_bind(name: str, key: BindKey) -> StoredBind:
    answer, data = orjson.dumps({"bound": name}), name.encode()
    return StoredBind(name, "session", "i", 1.0, answer, key.id, key.digest(data), key.seal(data, name), 2.0**33)


def an_offer(name: str) -> StoredOffer:
    return StoredOffer(name, "session", "i", ("email",), 2.0**33, 5.0)


async def retrieve(receipts: Receipts, name: str) -> None:
    """The receipt of one answer; its nonce is spent with it."""
    candidate = PassageCandidate(f"{name}#chunk_1", name, b"digest", 10, 2, URL)
    exchange = RecordedExchange.of(KEY, name, f"session {name}")
    nonce = Nonce.of(KEY, f"access {name}")
    await receipts.reserve(nonce, exchange, [candidate], (5, 100), lambda _: access(name))


async def cite(receipts: Receipts, name: str, nonce: str = "citation") -> str:
    return await receipts.record_citation(Nonce.of(KEY, f"{nonce} {name}"), KEY, citation(name))


def work(say: Say, store: Path, label: str) -> None:
    """Answer, be cited, offer and bind without end; each is said when it is on disk."""
    asyncio.run(_work(say, store, label))


async def _work(say: Say, store: Path, label: str) -> None:
    key = bind_key()
    receipts = receipts_in(store)
    await receipts.open()
    with closing(Binds(store / LOG)) as binds:
        for number in range(100_000):
            await _turn(say, receipts, binds, key, f"{label}.{number}")


async def _turn(say: Say, receipts: Receipts, binds: Binds, key: BindKey, name: str) -> None:
    await retrieve(receipts, name)
    say(f"access {name}")
    assert await cite(receipts, name) == "kept"
    say(f"citation {name}")
    assert binds.add_offer(an_offer(name), b"me", 1 << 40, 0.0)
    say(f"offer {name}")
    assert binds.add_bind(a_bind(name, key), deliver=True).offer == name
    say(f"bind {name}")


def answer(say: Say, store: Path, names: Sequence[str], is_killed: bool) -> None:
    """One answer of each name; then an orderly end, or none."""

    async def turns() -> None:
        receipts = receipts_in(store)
        for name in names:
            await retrieve(receipts, name)
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        receipts.close()

    asyncio.run(turns())
    say("done")


def one_turn(store: Path, name: str) -> None:
    """One of everything, done again where it was interrupted; an orderly end."""
    one_event(store, name)
    one_bind(store, name)


def one_event(store: Path, name: str) -> None:
    """An answer with its receipt, and a citation of it: as a platform does, which asks anew where it was not told."""

    async def turn() -> None:
        receipts = receipts_in(store)
        try:
            await receipts.open()
            with suppress(AuthenticationFailed):
                await retrieve(receipts, name)
            try:
                await cite(receipts, name)
            except AuthenticationFailed:
                await cite(receipts, name, f"again {secrets.token_hex(8)}")
            except NotFound:
                await retrieve(receipts, f"{name} again")
                await cite(receipts, f"{name} again")
        finally:
            receipts.close()

    asyncio.run(turn())


def is_cited(store: Path, name: str) -> bool:
    """Whether it came to the citation that `one_event` sends."""
    return not {f"citation {name}", f"citation {name} again"}.isdisjoint(_events(store))


def one_bind(store: Path, name: str) -> None:
    """An offer, and its bind."""
    with closing(Binds(store / LOG)) as binds:
        if binds.offer(name) is None:
            assert binds.add_offer(an_offer(name), b"me", 1 << 40, 0.0)
        assert binds.add_bind(a_bind(name, bind_key()), deliver=True).offer == name


@dataclass(slots=True)
class Kept:
    """What a ledger and a log are known to hold, by what was said: names by kind, the latest last."""

    said: dict[str, dict[str, None]] = field(
        default_factory=lambda: {"access": {}, "citation": {}, "offer": {}, "bind": {}}
    )

    def hear(self, lines: list[str]) -> int:
        for line in lines:
            kind, _, name = line.partition(" ")
            if kind in self.said:
                self.said[kind][name] = None
        return len(lines)


def check(store: Path, kept: Kept) -> dict[str, int]:
    """Open, as the next worker does, and compare; then what was said is tried once more: nothing is done twice."""
    return asyncio.run(_check(store, kept))


async def _check(store: Path, kept: Kept) -> dict[str, int]:
    before = _events(store)
    receipts = receipts_in(store)
    await receipts.open()
    events = _events(store)
    assert before == events, "what is read without the ledger's owner differs from what its owner finds"
    assert len(events) == len(set(events)), "an event stands in the log twice"
    for kind in ("access", "citation"):
        lost = {f"{kind} {name}" for name in kept.said[kind]} - set(events)
        assert not lost, f"{len(lost)} acknowledged events are gone: {sorted(lost)[:3]}"
    for name in list(kept.said["access"])[-3:]:
        await _refused(retrieve(receipts, name))
        again = await cite(receipts, name, f"again {secrets.token_hex(8)}")
        assert again == ("same" if f"citation {name}" in events else "kept")
    for name in list(kept.said["citation"])[-3:]:
        await _refused(cite(receipts, name))
    receipts.close()
    return {"events": len(events), **_check_binds(store, kept)}


async def _refused(again: Any) -> None:
    """A nonce that was spent before the kill is spent after it."""
    try:
        await again
    except AuthenticationFailed:
        return
    raise AssertionError("a nonce was spent twice")


def _events(store: Path) -> list[str]:
    return sorted(str(event["event_id"]) for event in read_events(store / LOG / LEDGER_FILE))


def _check_binds(store: Path, kept: Kept) -> dict[str, int]:
    key = bind_key()
    with closing(Binds(store / LOG)) as binds:
        assert binds._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = {bind.offer: bind for bind in binds.binds()}
        assert found.keys() >= kept.said["bind"].keys(), "acknowledged binds are gone"
        for name in kept.said["offer"]:
            assert binds.offer(name) == an_offer(name), f"the acknowledged offer {name} is gone"
        for name, bind in found.items():
            assert bind.answer == orjson.dumps({"bound": name})
            assert bind.sealed is not None and key.open(bind.sealed, name) == name.encode()
        for name in list(kept.said["offer"])[-3:]:
            first = binds.add_bind(a_bind(name, key), deliver=True)
            assert name not in found or first == found[name], f"{name} was bound twice"
    return {"binds": len(found)}


def run(report: Report, rounds: int, chance: random.Random) -> None:
    store = report.place("receipts")
    (store / LOG).mkdir()
    kept, kills, found, folders = Kept(), 0, {}, 0
    while kills < rounds:
        workers = min(rounds - kills, chance.choice((1, 2)))
        with ExitStack() as running:
            children: list[Child] = []
            for number in range(workers):
                children.append(running.enter_context(started(work, store, f"{folders}.{kills}.{number}")))
            for child in children:
                kept.hear(child.kill_after(chance.randint(0, 60), chance))
        try:
            found = asked(check, store, kept)
        except AssertionError as error:
            raise AssertionError(f"receipts, kill {kills}: {error}") from error
        if (kills + workers) // 50 > kills // 50:
            report.say(f"receipts: {kills + workers} kills, {found}")
        kills += workers
        if found["events"] > 6_000:  # another store, so that a check stays cheap
            report_so_far(report, kept, kills)
            folders += 1
            store, kept = report.place(f"receipts-{folders}"), Kept()
            (store / LOG).mkdir()
    report.figure("kills, receipts and binds", _figures(kept, kills, found))


def report_so_far(report: Report, kept: Kept, kills: int) -> None:
    report.say(_figures(kept, kills, {}))


def _figures(kept: Kept, kills: int, found: dict[str, int]) -> str:
    said = ", ".join(f"{kind} {len(names):,}" for kind, names in kept.said.items())
    return f"{kills} kills of one worker or two, acknowledged {said}, lost 0, twice 0"
