"""Chaos: random commands over two collections, killed, refused by a full disk, under a clock that jumps; two workers
answer all the while, and are killed too. What is stored and what is answered is held against a model.

The steps follow from the seed alone; the moment at which a process dies within a step does not.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path

from aidre.api.cli import main
from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing
from aidre.engine.maintenance.history import list_generations
from tests.hostile.answers import SECRET, SEEN, History, Readers, documents_in, everything
from tests.hostile.client import ask
from tests.hostile.clocks import Clock, wrong_by
from tests.hostile.injection import Full, fail
from tests.hostile.moves import CLOSED, IDS, OPEN, Kind, Move, planned
from tests.hostile.nursery import Say, started
from tests.hostile.report import Report
from tests.hostile.server import Server, running
from tests.hostile.steps import State, marks_in, text_of
from tests.support.clocks import until

SPACE = "words"
CONFIGURATION = f"""
[[spaces]]
id = "{SPACE}"
dimensions = 32
distance = "cosine"
provider = "aidre"
model = "hashing"
[limits]
rate = "1000000/minute"
chunks_per_day = 1000000000
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["{CLOSED}"]
scopes = ["search"]
[collections.{OPEN}]
spaces = ["{SPACE}"]
[collections.{CLOSED}]
spaces = ["{SPACE}"]
"""
"""Of the server: who may see a collection stands in the store alone."""
PRIVATE = f'{CONFIGURATION}visibility = "private"\n'
JUMPS = (0.0, 3_600.0, -3_600.0, 86_400.0 * 40, -86_400.0 * 400, 700.0)
"""Seconds by which the clock is wrong."""
BACKUPS = 6
"""So many are kept, beside the first one."""
SURE = 16
"""Answers in a row, each on a new connection, after which both workers have answered."""


# -- one command -----------------------------------------------------------------------------------------------------


def command(say: Say, words: Sequence[str], store: Path, offset: float, at: int) -> None:
    """In a child: a command of `aidre`; says its status and its last words."""
    wrong_by(offset)
    if at:
        Full(store, at, fail(errno.ENOSPC)).install()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        status = main.run(list(words))
    say(f"{status} {' '.join(said.getvalue().split())}")


def stored(store: Path, collection: str) -> tuple[int, dict[str, int]]:
    """The newest generation of a collection and its documents, by its columns; 0 where there is none."""
    try:
        snapshot = Store(store).open(collection)
    except CollectionMissing:
        return 0, {}
    texts = (
        part.segment.chunks.bytes("text")[row].decode()
        for part in snapshot.segments
        for row in part.live.rows().tolist()
    )
    found = [SEEN.match(text) for text in texts]
    documents = {match[1]: int(match[2]) for match in found if match is not None}
    assert len(documents) == len(found) == snapshot.documents, "a document is live twice, or is another"
    return snapshot.generation, documents


# -- the model -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Known:
    """What a collection holds, and held in each of its generations."""

    state: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    by_generation: dict[int, dict[str, int]] = field(default_factory=dict)
    history: History = field(default_factory=History)


class Chaos:
    """One run: the store, its server, the model, and what happened."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.store, self.clock = folder, folder / "store", clock
        self.known = {name: Known() for name in IDS}
        self.backups: list[tuple[Path, dict[str, dict[str, int]]]] = []
        self.outcomes: Counter[str] = Counter()
        self.seconds: dict[Kind, float] = {}
        for name, text in (("open", CONFIGURATION), ("private", PRIVATE)):
            (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        (folder / "backups").mkdir()

    # -- commands ------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Both collections, in a backup too of when none of them was private."""
        for name in (OPEN, CLOSED):
            move = Move("ingest", name, "none", tuple(IDS[name][:15]), 1, 0.0, 0, 0.0)
            self._do(move, self._ingest(move, "open"), {name: dict.fromkeys(move.ids, 1)})
        self.step(Move("backup", OPEN, "none", (), 1, 0.0, 0, 0.0))
        move = Move("ingest", CLOSED, "none", (IDS[CLOSED][15],), 1, 0.0, 0, 0.0)
        self._do(move, self._ingest(move, "private"), {CLOSED: {**self.known[CLOSED].state, IDS[CLOSED][15]: 1}})
        assert Store(self.store).open(CLOSED).manifest.visibility == "private"

    def step(self, move: Move) -> None:
        """A step of the store, and what has to hold after it."""
        known = self.known[move.collection]
        live, there = known.state, ["--store", str(self.store), "--collection", move.collection]
        if move.kind in ("ingest", "update"):
            written = {**live, **dict.fromkeys(move.ids, move.version)}
            self._do(move, self._ingest(move, "private"), {move.collection: written})
        elif move.kind in ("delete", "purge"):
            left = {one: version for one, version in live.items() if one not in move.ids}
            purge = ["--purge"] if move.kind == "purge" else []
            self._do(move, ["delete", *move.ids, *purge, *there], {move.collection: left})
        elif move.kind == "compact":
            self._do(move, ["compact", *there], {move.collection: live})
        elif move.kind == "rollback":
            self._roll_back(move, there)
        elif move.kind == "backup":
            self._back_up(move)
        elif move.kind == "restore":
            path, states = self.backups[int(move.draw * len(self.backups))]
            self._do(move, ["restore", str(path), "--replace", "--store", str(self.store)], states)
        else:
            self._do(move, ["verify", "--store", str(self.store)], {})

    def _ingest(self, move: Move, configuration: str) -> list[str]:
        rows = self.folder / f"{move.collection}.jsonl"
        lines = [json.dumps({"id": one, "text": text_of(one, move.version)}) for one in move.ids]
        rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
        there = ["--store", str(self.store), "--collection", move.collection]
        return ["ingest", str(rows), *there, "--config", str(self.folder / f"{configuration}.toml")]

    def _roll_back(self, move: Move, there: Sequence[str]) -> None:
        known = self.known[move.collection]
        kept = [one.generation for one in list_generations(Store(self.store), move.collection) if not one.current]
        able = [number for number in sorted(kept) if number in known.by_generation]
        if not able:
            self.outcomes["rollback: nothing to go back to"] += 1
            return
        number = able[int(move.draw * len(able))]
        self._do(move, ["rollback", str(number), *there], {move.collection: known.by_generation[number]})

    def _back_up(self, move: Move) -> None:
        path = self.folder / "backups" / f"{move.version}.tar"
        done = self._do(move, ["backup", str(path), "--store", str(self.store)], {})
        assert not done or path.exists(), "the backup is not there"
        if path.exists():
            self.backups.append((path, {name: dict(known.state) for name, known in self.known.items()}))
        if len(self.backups) > BACKUPS + 1:
            self.backups.pop(1)[0].unlink()

    def _do(self, move: Move, words: Sequence[str], after: dict[str, dict[str, int]]) -> bool:
        """Run a command that leads to these states, or is interrupted; whether it said that it was done."""
        for name, state in after.items():
            self.known[name].history.add(state)
        status, said = self._run(move, words)
        outcome = "killed" if status is None else "done" if status == 0 else "refused"
        self.outcomes[f"{move.kind} {outcome}"] += 1
        assert status in (None, 0) or move.trouble == "full", f"aidre {' '.join(words[:2])}: {status} {said}"
        assert "Traceback" not in said and "internal" not in said, said
        for name, known in self.known.items():
            before, wanted = known.state, after.get(name, known.state)
            self._found(name, [wanted] if status == 0 else [before, wanted])
        if move.kind == "purge" and status == 0:
            self._check_purged(move.collection)
        return status == 0

    def _run(self, move: Move, words: Sequence[str]) -> tuple[int | None, str]:
        """The status of a command, None if it was killed before its end, and its last words."""
        at = move.at if move.trouble == "full" else 0
        began = time.monotonic()
        with started(command, words, self.store, self.clock.offset, at) as child:
            if move.trouble == "kill":
                child.process.join(move.moment * self.seconds.get(move.kind, 0.2))
                child.kill()
                lines = child.heard()
            else:
                lines = [child.hear()]
                usual = self.seconds.get(move.kind, time.monotonic() - began)
                self.seconds[move.kind] = 0.7 * usual + 0.3 * (time.monotonic() - began)
        status, _, said = lines[-1].partition(" ") if lines else ("", "", "")
        return (int(status) if status else None), said

    def _found(self, name: str, allowed: Sequence[dict[str, int]]) -> None:
        generation, documents = stored(self.store, name)
        known = self.known[name]
        assert documents in allowed, f"{name}, generation {generation}: {_difference(documents, allowed)}"
        assert generation >= known.generation, f"{name} went back from generation {known.generation} to {generation}"
        for number in range(known.generation + 1, generation + 1):
            known.by_generation[number] = documents
        known.state, known.generation = documents, generation

    def _check_purged(self, name: str) -> None:
        own = set(IDS[name])
        left = {one for one in marks_in(self.store) if one[0] in own} - set(self.known[name].state.items())
        assert not left, f"a purge left traces of {sorted(left)[:3]}"

    # -- the server ----------------------------------------------------------------------------------------

    def kill_worker(self, server: Server, readers: Readers, draw: float) -> None:
        readers.may_break = True
        workers = server.workers
        os.kill(workers[int(draw * len(workers))], signal.SIGKILL)
        until(lambda: len(new := _workers(server)) == 2 and new != workers, "the worker is not replaced")
        self.check_served(server)
        readers.may_break = False
        self.outcomes["worker killed"] += 1

    def check_served(self, server: Server) -> None:
        """Returns when both workers answer with the newest state of every collection."""
        for name, known in self.known.items():
            until(partial(_is_served, server, name, known.state), f"{name}: the newest state is not answered")


def _is_served(server: Server, name: str, state: State) -> bool:
    """Whether so many answers in a row have the newest state: then both workers have it."""
    for _ in range(SURE):
        answer = ask(server.port, everything(name))
        if answer.status != 200 or documents_in(answer) != state:
            return False
    return True


def _workers(server: Server) -> list[int]:
    with suppress(OSError):  # one has just ended
        return server.workers
    return []


def _difference(found: State, allowed: Sequence[State]) -> str:
    said = []
    for state in allowed:
        differing = [one for one in sorted({*found, *state}) if found.get(one) != state.get(one)]
        said.append(", ".join(f"{one}: {found.get(one)} instead of {state.get(one)}" for one in differing[:5]))
    return f"{len(found)} documents are in none of the allowed states: {'; or '.join(said)}"


# -- the proof ---------------------------------------------------------------------------------------------------------

OFTEN = 10
"""After so many steps both workers are asked for the newest state."""


def run(report: Report, rounds: int, chance: random.Random) -> None:
    folder = report.place("chaos")
    moves = planned(rounds, chance)
    clock = Clock(folder / "clock")
    chaos = Chaos(folder, clock)
    chaos.prepare()
    with running(chaos.store, folder / "open.toml", 2, clock.variables()) as server:
        histories = {name: known.history for name, known in chaos.known.items()}
        readers = Readers(server.port, histories, random.Random(0))
        with readers.asking():
            for number, move in enumerate(moves, 1):
                try:
                    _live(chaos, server, readers, number, move)
                except Exception as error:
                    raise AssertionError(f"step {number} of {rounds}, {move}: {error}") from error
                if number % 100 == 0:
                    report.say(f"chaos: {number} steps, {_figures(chaos, readers)}")
            chaos.check_served(server)
    report.figure("chaos", f"{rounds:,} steps: {_figures(chaos, readers)}")


def _figures(chaos: Chaos, readers: Readers) -> str:
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(chaos.outcomes.items()))
    answers = ", ".join(f"{status}: {count:,}" for status, count in sorted(readers.statuses.items()))
    generations = ", ".join(f"{name} {known.generation}" for name, known in chaos.known.items())
    return f"{outcomes}; answers {answers}, of no state 0; generations {generations}"


def _live(chaos: Chaos, server: Server, readers: Readers, number: int, move: Move) -> None:
    if move.kind == "worker":
        chaos.kill_worker(server, readers, move.draw)
    elif move.kind == "clock":
        chaos.clock.set(JUMPS[int(move.draw * len(JUMPS))])
        chaos.outcomes["clock set"] += 1
    else:
        chaos.step(move)
    if move.kind == "restore":
        assert Store(chaos.store).open(CLOSED).manifest.visibility == "private", "a restore opened a private collection"
    if number % OFTEN == 0:
        chaos.check_served(server)
    assert not readers.problems, readers.problems[:3]
