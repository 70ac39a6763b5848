"""One full cycle of a store in stages, each with the states before and after it: what faults are put into.

Commands run as a person's would, in this process: ingest, update, delete, merge, compact, purge; then a receipt of
Agentic Intent and a bind of Agent Intake. A stage can be done again, and then leaves nothing that it does not need.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from aidre.api.cli import console, main
from aidre.engine.collection import commit, generations, writer
from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError
from aidre.engine.search import calibration
from aidre.engine.search.cost import MIN_SCANNED_ROWS
from aidre.engine.storage import manifest
from aidre.engine.storage.changelog import changelog_path
from aidre.engine.storage.format import CURRENT, DELETES, LOCK, MANIFESTS, SEGMENTS, manifest_name
from aidre.engine.storage.manifest import Manifest
from aidre.ingest.pipeline import last_read
from tests.hostile import receipts
from tests.hostile.examination import look
from tests.hostile.nursery import Say, asked
from tests.hostile.receipts import LOG, Kept
from tests.hostile.report import Report
from tests.hostile.steps import Shape, State, Step, after, record_of, vectors_of, write_all
from tests.support.stores import NAME

SHAPE = Shape(400, 16, 0)
IDS = SHAPE.ids()
START = (Step("put", tuple(IDS[:380]), 1), Step("put", tuple(IDS[:9]), 2), Step("delete", tuple(IDS[9:12])))
CYCLE = {
    "ingest": Step("put", tuple(IDS[380:]), 3),
    "update": Step("put", tuple(IDS[12:290]), 4),
    "delete": Step("delete", tuple(IDS[20:26])),
    "merge": Step("merge"),
    "compact": Step("compact"),
    "purge": Step("purge"),
}
"""The update is of so many rows that their segment gets an index, and that a merge is due."""
COMMANDS = ("ingest", "update", "delete", "compact", "purge")
RECEIPTS = ("event", "bind")
STAGES = (*CYCLE, *RECEIPTS)

ROWS = "rows.jsonl"
_TEMPORARY = re.compile(r"\.[0-9]+\.tmp$")
TRIAL = "trial"
_SILENT = os.open(os.devnull, os.O_WRONLY)
"""Opened with this module, by the parent of those that are hurt: no call of theirs is one of ours."""


def index_small() -> None:
    """Indexes for collections that are too small to need one: every file there is, at little cost."""
    vars(calibration)["scan_can_pay"] = lambda rows, row_bytes: rows >= MIN_SCANNED_ROWS
    os.dup2(_SILENT, 2)  # FAISS says how few rows it learns from


@dataclass(frozen=True, slots=True)
class Stage:
    """A store as it is before a stage, in a folder of its own, and the documents before and after."""

    name: str
    folder: Path
    before: State
    after: State

    @property
    def store(self) -> Path:
        """Where the stage is tried; `fresh` puts it there."""
        return self.folder / TRIAL

    @property
    def allowed(self) -> list[State]:
        return [self.before, self.after]

    def fresh(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(self.folder / "start", self.store)


def make(folder: Path) -> list[Stage]:
    """The stages of a cycle, each begun where the one before it ended."""
    index_small()
    made: list[Stage] = []
    store, state = folder / "made", after({}, START)
    write_all(store, SHAPE, START)
    (store / LOG).mkdir()
    receipts.one_turn(store, "before")
    for name in STAGES:
        steps = [CYCLE[name]] if name in CYCLE else []
        stage = Stage(name, folder / name, state, after(state, steps))
        shutil.copytree(store, stage.folder / "start")
        if steps and steps[0].kind == "put":
            _write_rows(stage.folder / ROWS, steps[0])
        stage.fresh()
        assert attempt(stage) == "done", name
        shutil.rmtree(store)
        stage.store.rename(store)
        state = stage.after
        made.append(stage)
    return made


def cycle(report: Report) -> list[Stage]:
    return asked(make, report.place("cycle"))


def _write_rows(path: Path, step: Step) -> None:
    rows = vectors_of(SHAPE, [(one, step.version) for one in step.ids])
    with path.open("wb") as file:
        for one, vector in zip(step.ids, rows.tolist(), strict=True):
            document = record_of(one, step.version).document
            vectors = {SHAPE.space.id: vector}
            members = {"id": one, "text": document.text, "metadata": document.metadata, "vectors": vectors}
            file.write(orjson.dumps(members) + b"\n")


# -- doing one -----------------------------------------------------------------------------------------------------


def attempt(stage: Stage) -> str:
    """Do a stage: "done", or "refused" and why by an error that is meant for this; AssertionError for any other end.

    Whoever has the store open sees what it saw all the while, and can open it again afterwards.
    """
    try:
        with _reader(stage):
            if stage.name in COMMANDS:
                return _command(stage)
            if stage.name == "event":
                receipts.one_event(stage.store, "now")
            elif stage.name == "bind":
                receipts.one_bind(stage.store, "now")
            else:
                write_all(stage.store, SHAPE, [CYCLE[stage.name]])
            return "done"
    except AidreError as error:
        assert "\n" not in str(error)
        return f"refused: {type(error).__name__}: {error}"


@contextmanager
def _reader(stage: Stage) -> Iterator[None]:
    """A reader that opened the store before goes on answering, and so does one that opens it after."""
    snapshot = Store(stage.store).open(NAME)
    some = sorted(stage.before)[:: len(stage.before) // 7]
    seen = [snapshot.get(f"{one}#chunk_1") for one in some]
    texts = [chunk.text if chunk else None for chunk in seen]
    yield
    later = [snapshot.get(f"{one}#chunk_1") for one in some]
    assert [chunk.text if chunk else None for chunk in later] == texts, "an open generation changed"
    again = Store(stage.store).open(NAME)
    assert again.documents in {len(stage.before), len(stage.after)}


def _command(stage: Stage) -> str:
    out, err = io.StringIO(), io.StringIO()
    causes: list[BaseException | None] = []
    print_message = console.print_message

    def saying(message: str) -> None:
        causes.append(sys.exc_info()[1])
        print_message(message)

    vars(console)["print_message"] = saying
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main.run([*words_of(stage), "--json"])
    finally:
        vars(console)["print_message"] = print_message
    said = err.getvalue()
    if status == 0:
        for line in out.getvalue().splitlines():
            json.loads(line)
        return "done"
    assert status in (1, 2), f"status {status}: {said}"
    *warnings, last = said.splitlines()
    assert last.startswith("aidre: "), f"not one line: {said!r}"
    assert all("what is stored stays" in warning for warning in warnings), said
    assert "Traceback" not in said and "defect" not in said, said
    assert all(isinstance(cause, AidreError) for cause in causes), f"{causes[-1]!r} is not an error of aidre"
    return f"refused: {type(causes[-1]).__name__}: {last}"


def words_of(stage: Stage) -> list[str]:
    store = ["--store", str(stage.store)]
    if stage.name in ("ingest", "update"):
        return ["ingest", str(stage.folder / ROWS), "--collection", NAME, *store]
    if stage.name == "delete":
        return ["delete", *CYCLE["delete"].ids, *store]
    if stage.name == "purge":
        return ["delete", "nothing", "--purge", *store]
    return [stage.name, *store]


def run(say: Say, stage: Stage) -> None:
    """Do a stage in a child, and say how it ended. The same end leaves the same bytes."""
    index_small()
    _without_chance(stage.name)
    try:
        outcome = attempt(stage)
    except BaseException as error:
        outcome = f"broke: {error!r}"
    say(" ".join(outcome.split()))


def _without_chance(name: str) -> None:
    """Names that are drawn, and times, come out alike in every run of a stage."""
    drawn = (hashlib.sha256(f"{name} {number}".encode()).hexdigest() for number in itertools.count())
    vars(secrets)["token_hex"] = lambda size: next(drawn)[: 2 * size]
    for module in (manifest, generations, commit, writer):
        vars(module)["now"] = lambda: "2026-01-01T00:00:00Z"


def digest(store: Path) -> str:
    """A name for what is in a store, but for whose process wrote it when, and for the content of temporary files.

    Those are removed by name, and read by nobody.
    """
    whole = hashlib.sha256()
    for path in sorted(store.rglob("*")):
        name = _TEMPORARY.sub(".tmp", path.relative_to(store).as_posix())
        is_read = path.is_file() and ".tmp" not in name and path.name not in (LOCK, last_read.FILE_NAME)
        content = path.read_bytes() if is_read else b""
        whole.update(f"{name} {len(content)} ".encode() + content)
    return whole.hexdigest()


# -- afterwards ----------------------------------------------------------------------------------------------------


def stored_nothing(said: str) -> bool:
    """Whether the end of a stage means that nothing of it is stored: a write was refused, whose error does not say
    otherwise. A read may be refused after the commit, too."""
    return "cannot write" in said and "can be read already" not in said


def examine(stage: Stage, done: bool, refused: bool = False) -> int:
    """Examine what is left: the state after where it was `done`, before where it was `refused`, else any of them.

    Then do it again: it ends well, and what a purge leaves is one generation. The index of the state that was found.
    """
    index_small()
    if stage.name in RECEIPTS:
        return _examine_receipts(stage)
    found = look(stage.store, SHAPE, [stage.after] if done else stage.allowed[: 1 if refused else 2])
    assert attempt(stage) == "done", "it does not end well when it is done again"
    write_all(stage.store, SHAPE, [Step("purge")])
    left = leftovers(stage.store)
    assert not left, f"left behind: {sorted(left)[:5]}"
    look(stage.store, SHAPE, [stage.after])
    return len(stage.allowed) - 1 if done else found.state


def _examine_receipts(stage: Stage) -> int:
    kept = Kept()
    kept.hear(["access before", "citation before", "offer before", "bind before"])
    receipts.check(stage.store, kept)
    assert attempt(stage) == "done", "it does not end well when it is done again"
    if stage.name == "event":
        assert receipts.is_cited(stage.store, "now")
    else:
        kept.hear(["offer now", "bind now"])
    receipts.check(stage.store, kept)
    return 0


def leftovers(store: Path) -> set[str]:
    """The files of the collection that its newest generation does not need, temporary ones beside it too."""
    newest = Store(store).open(NAME).manifest
    folder = store / NAME
    needed = {folder / name for name in _needed(newest)}
    needed.add(changelog_path(folder, newest.changes.generation))
    found = {path for path in folder.rglob("*") if not path.is_dir()}
    found |= {path for path in (folder / SEGMENTS).iterdir() if path.name not in {one.id for one in newest.segments}}
    found |= {path for path in store.iterdir() if path.name.endswith(".tmp")}
    return {path.relative_to(store).as_posix() for path in found - needed}


def _needed(newest: Manifest) -> Iterable[str]:
    yield from (CURRENT, LOCK, f"{MANIFESTS}/{manifest_name(newest.generation)}")
    yield from (f"{DELETES}/{name}" for name in newest.deletes)
    yield from (f"{SEGMENTS}/{segment.id}/{name}" for segment in newest.segments for name in segment.files)
