"""What is recorded to be replayed after power cuts: everything that acknowledges something it has written to files.

Each scene does a few things, acknowledges each, and can tell of a folder whether it holds what was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from aidre.api.cli.events import export
from aidre.api.config import IntakeSettings
from aidre.api.protocols.intake import bind_key
from aidre.api.protocols.intake.offer_ledger import OfferLedger as Binds
from aidre.api.protocols.intent import event_ledger as ledger_module
from aidre.api.protocols.intent.receipts import Receipts
from aidre.api.protocols.provenance.keys import make_key, read_keys
from aidre.api.retrieval.cursor import store_secret
from aidre.engine.collection import writer as writer_module
from aidre.engine.collection.backfill import VectorLog, fill_space, log_path
from aidre.engine.collection.loose import FolderPlace, adopt_segments, put_segments
from aidre.engine.collection.store import Store
from aidre.engine.embedding.cache import publish, staging
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.copying import copy_collection
from aidre.engine.maintenance.history import roll_back
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify_collection
from aidre.engine.segment.pending import PendingRows
from aidre.engine.segment.records import to_columns
from aidre.engine.segment.segment_writer import Staging, write_pending
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage.manifest import SegmentEntry, SpaceState
from tests.hostile import receipts
from tests.hostile.examination import look
from tests.hostile.older_receipts import older_receipts
from tests.hostile.receipts import LOG, Kept
from tests.hostile.steps import (
    Shape,
    State,
    Step,
    after,
    marks_in,
    record_of,
    vectors_of,
    write,
    write_all,
)
from tests.support.stores import NAME, TIME, Vectors, normal, space_of

Acknowledge = Callable[[], None]
SMALL = Shape(48, 8, 0)
IDS = tuple(SMALL.ids())
INDEXED = Shape(300, 16, 0)
STORE, PARTS, BACKUP = "store", "parts", "backup.tar"
ALL = 1_000


@dataclass(frozen=True, slots=True)
class Scene:
    """`prepare` fills a folder, which is sure then; `act` is recorded; `judge` looks at what is left of it after so
    many acknowledgements, and may change it. AssertionError where something is missing or wrong.

    `again`: a process that was killed in `act` can be followed by another that does it once more; there are so many
    points, just before a folder is synced, from the first on, at which the quick form kills too.
    """

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path, Acknowledge], None]
    judge: Callable[[Path, int], None]
    again: int = 0


def nothing(_: Path) -> None:
    return


# -- collections -----------------------------------------------------------------------------------------------------

STEPS = (
    Step("put", IDS[:30], 1),
    Step("put", (*IDS[:6], *IDS[30:36]), 2),
    Step("delete", IDS[6:10]),
    Step("compact"),
    Step("delete", IDS[10:14]),
    Step("purge"),
    Step("put", IDS[36:40], 3),
)
LARGE = (Step("put", tuple(INDEXED.ids()), 1), Step("put", tuple(INDEXED.ids()[:5]), 2))


def _written(shape: Shape, steps: Sequence[Step], folder: Path, acknowledge: Acknowledge) -> None:
    write(lambda _: acknowledge(), folder / STORE, shape, steps)


def _looked(shape: Shape, steps: Sequence[Step], earlier: Sequence[Step], folder: Path, acknowledged: int) -> None:
    """All that was acknowledged, of the next step all or nothing; then it can be written again."""
    before = after({}, (*earlier, *steps[:acknowledged]))
    allowed = [before, after(before, steps[acknowledged : acknowledged + 1])]
    _in_one_of(shape, folder / STORE, allowed)
    if acknowledged and steps[acknowledged - 1].kind == "purge":
        _without_traces(folder, steps, before, acknowledged)


def _in_one_of(shape: Shape, store: Path, allowed: Sequence[State]) -> None:
    if store.exists():
        look(store, shape, allowed)
    else:
        assert {} in allowed, "the store is gone"


def _without_traces(folder: Path, steps: Sequence[Step], live: State, acknowledged: int) -> None:
    """What was purged is nowhere; the next step may have begun."""
    coming = {(one, step.version) for step in steps[acknowledged:] for one in step.ids}
    left = marks_in(folder) - set(live.items()) - coming
    assert not left, f"a purge left traces of {len(left)} deleted versions: {sorted(left)[:3]}"


def _rolled_back(folder: Path, acknowledge: Acknowledge) -> None:
    roll_back(Store(folder / STORE), NAME, 1)
    acknowledge()


def _is_rolled_back(folder: Path, acknowledged: int) -> None:
    states = [after({}, STEPS[:2]), after({}, STEPS[:1])]
    _in_one_of(SMALL, folder / STORE, states[acknowledged:])


def _dropped(folder: Path, acknowledge: Acknowledge) -> None:
    Store(folder / STORE).drop(NAME)
    acknowledge()


def _is_dropped(folder: Path, acknowledged: int) -> None:
    store = Store(folder / STORE)
    if NAME in store.collections():
        assert not acknowledged, "the collection is back"
        look(folder / STORE, SMALL, [after({}, STEPS[:2])])
    else:
        write_all(folder / STORE, SMALL, STEPS[:1])
        look(folder / STORE, SMALL, [after({}, STEPS[:1])])


RENAMED = "renamed"


def _renamed(folder: Path, acknowledge: Acknowledge) -> None:
    copy_collection(Store(folder / STORE), NAME, RENAMED, move=True)
    acknowledge()


def _is_renamed(folder: Path, acknowledged: int) -> None:
    """Under one of its names, whole; under the new one alone once that is acknowledged."""
    store, documents = Store(folder / STORE), after({}, STEPS[:2])
    names = store.collections()
    assert (names == [RENAMED]) if acknowledged else names
    if NAME in names:
        look(folder / STORE, SMALL, [documents])
    if RENAMED in names:
        assert store.open(RENAMED).status()["documents"] == len(documents)
        assert verify_collection(store, RENAMED).ok


def _purged(folder: Path, acknowledge: Acknowledge) -> None:
    Store(folder / STORE).drop(NAME, purge=True)
    acknowledge()


def _is_purged(folder: Path, acknowledged: int) -> None:
    if not acknowledged and NAME in Store(folder / STORE).collections():
        look(folder / STORE, SMALL, [after({}, STEPS[:2])])
    else:
        assert not (folder / STORE / NAME).exists(), "the collection is back"


ADOPTED = (IDS[4:12], IDS[10:14], IDS[40:44])
"""The documents of the staged segments: new ones, stored ones, and some that are in two segments."""


def _adopted(folder: Path, acknowledge: Acknowledge) -> None:
    with Store(folder / STORE).writer(NAME, spaces=[SMALL.space]) as writer:
        staging = writer.stage()
        writer.adopt(staging, [_staged(staging, ids, number) for number, ids in enumerate(ADOPTED)])
        acknowledge()


def _staged(staging: Path, ids: Sequence[str], number: int) -> SegmentEntry:
    """A segment as a worker writes it."""
    pending, version = PendingRows(), 4
    vectors = encode(SMALL.space, vectors_of(SMALL, [(one, version) for one in ids]))
    pending.add(to_columns([record_of(one, version) for one in ids]), {SMALL.space.id: vectors}, {}, TIME)
    return write_pending(staging, pending, [SMALL.space], (), staging=Staging(staging, f"scene {number}"))


def _spilled(folder: Path, acknowledge: Acknowledge) -> None:
    """The same documents by one writer that has no room for the rows of one upsert."""
    small = mock.patch.object(writer_module, "SPILL_BYTES", 1)
    with small, Store(folder / STORE).writer(NAME, spaces=[SMALL.space]) as writer:
        for ids in ADOPTED:
            vectors = writer.encode(SMALL.space.id, vectors_of(SMALL, [(one, 4) for one in ids]))
            writer.upsert([record_of(one, 4) for one in ids], {SMALL.space.id: vectors}, {})
        writer.commit()
        acknowledge()


def _written_loose(folder: Path, acknowledge: Acknowledge) -> None:
    """The same documents as loose segments, and their adoption."""
    place = FolderPlace(folder / PARTS)
    for number, ids in enumerate(ADOPTED):
        with Store(folder / f"scratch {number}").writer(NAME, spaces=[SMALL.space]) as writer:
            vectors = writer.encode(SMALL.space.id, vectors_of(SMALL, [(one, 4) for one in ids]))
            writer.upsert([record_of(one, 4) for one in ids], {SMALL.space.id: vectors}, {})
            staging, entries = writer.staged_rows()
            put_segments(place, f"part-{number}", staging, entries, writer)
        acknowledge()
    adopt_segments(Store(folder / STORE), NAME, place)
    acknowledge()


def _are_loose(folder: Path, acknowledged: int) -> None:
    """Each part that was acknowledged is whole, and can be adopted."""
    before = after({}, STEPS[:2])
    if acknowledged <= len(ADOPTED):
        shutil.rmtree(folder / STORE)
        write_all(folder / STORE, SMALL, STEPS[:2])
        parts = FolderPlace(folder / PARTS).names()
        assert parts[:acknowledged] == [f"part-{number}" for number in range(len(ADOPTED))][:acknowledged]
        if parts:
            adopt_segments(Store(folder / STORE), NAME, FolderPlace(folder / PARTS))
        states = [after(before, [Step("put", ids, 4) for ids in ADOPTED[: len(parts)]])]
    else:
        states = [after(before, [Step("put", ids, 4) for ids in ADOPTED])]
    _in_one_of(SMALL, folder / STORE, states)


def _is_adopted(folder: Path, acknowledged: int) -> None:
    before = after({}, STEPS[:2])
    states = [before, after(before, [Step("put", ids, 4) for ids in ADOPTED])]
    _in_one_of(SMALL, folder / STORE, states[acknowledged:])


def _is_adopted_alone(folder: Path, acknowledged: int) -> None:
    states = [{}, after({}, [Step("put", ids, 4) for ids in ADOPTED])]
    _in_one_of(SMALL, folder / STORE, states[acknowledged:])


def _begun(folder: Path) -> None:
    write_all(folder / STORE, SMALL, STEPS[:2])


def _up_to(number: int, folder: Path) -> None:
    if number:
        write_all(folder / STORE, SMALL, STEPS[:number])


def _single(number: int) -> Scene:
    """One step, by a writer of its own."""
    earlier, step = STEPS[:number], STEPS[number : number + 1]
    return Scene(
        f"step {number}, {step[0].kind}",
        partial(_up_to, number),
        partial(_written, SMALL, step),
        partial(_looked, SMALL, step, earlier),
        again=1 if number else ALL,
    )


INDEX = Scene("index", nothing, partial(_written, INDEXED, LARGE), partial(_looked, INDEXED, LARGE, ()))
"""A collection that is large enough for an index: slow to judge."""


# -- vectors of another space ----------------------------------------------------------------------------------------

ADDED = space_of("cosine", 16)


class _Given:
    """Vectors and keys that follow from the id."""

    def keys(self, chunks: Sequence[StoredChunk]) -> Sequence[bytes]:
        return [chunk.document_id.rjust(16).encode() for chunk in chunks]

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        return np.stack([_vector(chunk.document_id) for chunk in chunks])


def _vector(document_id: str) -> Vectors:
    row: Vectors = normal(1, ADDED.dimensions, int(document_id[1:]))[0]
    return row


def _backfilled(folder: Path, acknowledge: Acknowledge) -> None:
    with Store(folder / STORE).writer(NAME, spaces=None) as writer:
        log = VectorLog(folder / STORE / NAME, ADDED)
        for some in (IDS[:3], IDS[3:5]):
            log.add(_keys(some), encode(ADDED, np.stack([_vector(one) for one in some])))
            acknowledge()
        fill_space(writer.generations, SpaceState(ADDED), _Given(), lambda _: None)
        acknowledge()


def _keys(ids: Sequence[str]) -> list[bytes]:
    return [one.rjust(16).encode() for one in ids]


def _is_backfilled(folder: Path, acknowledged: int) -> None:
    _in_one_of(SMALL, folder / STORE, [after({}, STEPS[:2])])
    snapshot = Store(folder / STORE).open(NAME)
    spaces = [space.id for space in snapshot.collection.spaces]
    if ADDED.id in spaces:
        for part in snapshot.segments:
            ids = [part.segment.chunks.bytes("id")[row].decode().split("#")[0] for row in part.live.rows().tolist()]
            expected = encode(ADDED, np.stack([_vector(one) for one in ids])).codes
            assert np.array_equal(part.segment.columns[ADDED.id].codes[part.live.rows()], expected)
        return
    assert acknowledged < 3, "the space is not there"
    if acknowledged:
        assert log_path(folder / STORE / NAME, ADDED.id).exists(), "the vectors are gone"
        found = VectorLog(folder / STORE / NAME, ADDED).find(_keys(IDS[: (0, 3, 5)[acknowledged]]))
        assert (found >= 0).all(), f"{int((found < 0).sum())} vectors are gone"


# -- backups ---------------------------------------------------------------------------------------------------------


def _saved(folder: Path) -> None:
    _begun(folder / "saved")
    (folder / "saved" / STORE / LOG).mkdir()
    (folder / "saved" / STORE / LOG / "kept").write_bytes(b"kept")


def _backed_up(folder: Path, acknowledge: Acknowledge) -> None:
    back_up(Store(folder / "saved" / STORE), [NAME], folder / BACKUP)
    acknowledge()


def _is_backed_up(folder: Path, acknowledged: int) -> None:
    if acknowledged or (folder / BACKUP).exists():
        restore_archive(Store(folder / "restored"), folder / BACKUP)
        look(folder / "restored", SMALL, [after({}, STEPS[:2])])


def _with_backup(folder: Path) -> None:
    _saved(folder)
    kept = [(f"{LOG}/kept", folder / "saved" / STORE / LOG / "kept")]
    back_up(Store(folder / "saved" / STORE), [NAME], folder / BACKUP, kept)


def _with_another(folder: Path) -> None:
    _saved(folder)
    back_up(Store(folder / "saved" / STORE), [NAME], folder / BACKUP)
    write_all(folder / STORE, SMALL, STEPS[:1])


def _restored(folder: Path, acknowledge: Acknowledge) -> None:
    restore_archive(Store(folder / STORE), folder / BACKUP, replace_stored=True, beside=LOG)
    acknowledge()


def _replaced(folder: Path, acknowledge: Acknowledge) -> None:
    restore_archive(Store(folder / STORE), folder / BACKUP, replace_stored=True)
    acknowledge()


def _is_replaced(folder: Path, acknowledged: int) -> None:
    restored = after({}, STEPS[:2])
    _in_one_of(SMALL, folder / STORE, [restored] if acknowledged else [after({}, STEPS[:1]), restored])


def _is_restored(folder: Path, acknowledged: int) -> None:
    restored = after({}, STEPS[:2])
    _in_one_of(SMALL, folder / STORE, [restored] if acknowledged else [{}, restored])
    kept = folder / STORE / LOG / "kept"
    if acknowledged or kept.parent.exists():
        assert kept.read_bytes() == b"kept", "what lay beside the collections is damaged"


# -- receipts and binds ----------------------------------------------------------------------------------------------

TURNS = 12


def _opened(folder: Path) -> Receipts:
    """New chunks are settled after each few answers."""
    ledger_module.SETTLE_ROWS = 8
    return Receipts(folder / STORE / LOG, clock=lambda: receipts.NOW)


def _answered(first: int, folder: Path, acknowledge: Acknowledge) -> None:
    async def turns() -> None:
        opened = _opened(folder)
        for number in range(first, first + TURNS):
            await receipts.retrieve(opened, str(number))
            acknowledge()
        opened.close()

    asyncio.run(turns())


def _store_folder(folder: Path) -> None:
    (folder / STORE).mkdir()


def _answered_before(folder: Path) -> None:
    _store_folder(folder)
    _answered(0, folder, lambda: None)


def _is_answered(first: int, folder: Path, acknowledged: int) -> None:
    async def events() -> list[str]:
        opened = _opened(folder)
        await opened.open()
        opened.close()
        return receipts._events(folder / STORE)

    found = asyncio.run(events())
    lost = {f"access {number}" for number in range(first + acknowledged)} - set(found)
    assert not lost, f"{len(lost)} acknowledged events are gone"
    assert len(found) == len(set(found)), "an event stands in the log twice"


def _older(folder: Path) -> None:
    older_receipts(folder / STORE / LOG, list(map(str, range(TURNS))))


def _taken_over(folder: Path, acknowledge: Acknowledge) -> None:
    """What lies there is acknowledged before the scene begins."""
    _opened_once(folder)
    acknowledge()


def _opened_once(folder: Path) -> None:
    async def turn() -> None:
        opened = _opened(folder)
        await opened.open()
        opened.close()

    asyncio.run(turn())


def _is_taken_over(folder: Path, _: int) -> None:
    expected = sorted(f"{kind} {number}" for number in range(TURNS) for kind in ("access", "citation"))
    assert receipts._events(folder / STORE) == expected, "before it is opened again"
    _opened_once(folder)
    assert receipts._events(folder / STORE) == expected


def _exported(folder: Path, acknowledge: Acknowledge) -> None:
    export([{"event_id": str(number)} for number in range(9)], folder / "events.jsonl")
    acknowledge()


def _is_exported(folder: Path, acknowledged: int) -> None:
    if acknowledged or (folder / "events.jsonl").exists():
        lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["event_id"] for line in lines] == [str(number) for number in range(9)]


def _bound(folder: Path, acknowledge: Acknowledge) -> None:
    with closing(Binds(folder / STORE / LOG)) as binds:
        for number in range(3):
            if binds.offer(str(number)) is None:
                assert binds.add_offer(receipts.an_offer(str(number)), b"me", 1 << 40, 0.0) == "added"
            binds.add_bind(receipts.a_bind(str(number), receipts.bind_key()), deliver=True)
            acknowledge()


def _is_bound(folder: Path, acknowledged: int) -> None:
    kept = Kept()
    kept.hear([f"{kind} {number}" for number in range(acknowledged) for kind in ("offer", "bind")])
    if kept.said["bind"] or (folder / STORE / LOG).exists():
        receipts._check_binds(folder / STORE, kept)


# -- keys ------------------------------------------------------------------------------------------------------------


BIND_SECRET = "5f" * bind_key.SECRET_BYTES


@contextmanager
def _at_home(folder: Path) -> Iterator[None]:
    with mock.patch.dict(os.environ, XDG_CONFIG_HOME=str(folder / "home" / "config")):
        yield


def _with_home(folder: Path) -> None:
    (folder / "home").mkdir()


def _bind_key_made(folder: Path, acknowledge: Acknowledge) -> None:
    draw = mock.Mock(token_hex=lambda size: BIND_SECRET if size == bind_key.SECRET_BYTES else secrets.token_hex(size))
    with _at_home(folder), mock.patch.multiple(bind_key, BindKey=str, secrets=draw):  # a BindKey is slow to make
        bind_key.find_bind_key(IntakeSettings(), folder / STORE)
    acknowledge()


def _is_bind_key_there(folder: Path, acknowledged: int) -> None:
    with _at_home(folder):
        secret = bind_key._read_secret(IntakeSettings(), folder / STORE)
    assert secret == BIND_SECRET or (secret is None and not acknowledged), f"the key is {secret}"


def _signing_keys_made(folder: Path, acknowledge: Acknowledge) -> None:
    for second in (0, 100):
        make_key(folder / "keys.pem", receipts.NOW + second)
        acknowledge()


def _are_signing_keys_there(folder: Path, acknowledged: int) -> None:
    if acknowledged or (folder / "keys.pem").exists():
        assert len(read_keys(folder / "keys.pem").published) >= acknowledged


def _cursor_key_made(folder: Path, acknowledge: Acknowledge) -> None:
    store_secret(folder / STORE / ".log")
    acknowledge()


def _is_cursor_key_secret(folder: Path, _: int) -> None:
    """It may be lost, and then cursors are too; nobody may guess it."""
    if (folder / STORE).exists():
        assert any(store_secret(folder / STORE / ".log")), "the secret is known to everybody"


# -- exports of models -----------------------------------------------------------------------------------------------

CONTENTS = {"model.onnx": b"graph" * 50, "tokenizer.json": b"words" * 50}


def _cache(folder: Path) -> None:
    (folder / "cache").mkdir()


def _is_intact(target: Path) -> bool:
    return all((target / name).exists() and (target / name).read_bytes() == CONTENTS[name] for name in CONTENTS)


def _published(folder: Path, acknowledge: Acknowledge) -> None:
    with staging(folder / "cache") as made:
        for name, content in CONTENTS.items():
            (made / name).write_bytes(content)
        publish(made, folder / "cache" / "export", _is_intact)
    acknowledge()


def _is_published(folder: Path, acknowledged: int) -> None:
    """A machine without the libraries that export cannot make it again."""
    assert not acknowledged or _is_intact(folder / "cache" / "export"), "the export is gone"


SCENES = (
    Scene("collection", nothing, partial(_written, SMALL, STEPS), partial(_looked, SMALL, STEPS, ())),
    *map(_single, range(6)),
    Scene("roll-back", _begun, _rolled_back, _is_rolled_back),
    Scene("rename", _begun, _renamed, _is_renamed),
    Scene("drop", _begun, _dropped, _is_dropped),
    Scene("drop without a trace", _begun, _purged, _is_purged),
    Scene("adoption", _begun, _adopted, _is_adopted, again=1),
    Scene("adoption of a new collection", nothing, _adopted, _is_adopted_alone, again=ALL),
    Scene("spilled commit", _begun, _spilled, _is_adopted, again=1),
    Scene("spilled commit of a new collection", nothing, _spilled, _is_adopted_alone, again=ALL),
    Scene("loose segments", _begun, _written_loose, _are_loose),
    Scene("backfill", _begun, _backfilled, _is_backfilled),
    Scene("backup", _saved, _backed_up, _is_backed_up),
    Scene("restore", _with_backup, _restored, _is_restored, again=1),
    Scene("restore over another", _with_another, _replaced, _is_replaced, again=1),
    Scene("receipts", _store_folder, partial(_answered, 0), partial(_is_answered, 0)),
    Scene("more receipts", _answered_before, partial(_answered, TURNS), partial(_is_answered, TURNS)),
    Scene("older receipts", _older, _taken_over, _is_taken_over, again=ALL),
    Scene("exported events", nothing, _exported, _is_exported, again=1),
    Scene("binds", _store_folder, _bound, _is_bound, again=ALL),
    Scene("bind key", _with_home, _bind_key_made, _is_bind_key_there, again=ALL),
    Scene("signing keys", nothing, _signing_keys_made, _are_signing_keys_there, again=1),
    Scene("cursor key", _store_folder, _cursor_key_made, _is_cursor_key_secret, again=1),
    Scene("exported model", _cache, _published, _is_published),
)
