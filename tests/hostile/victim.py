"""A store that has every kind of file, and what can be asked of it: what a damaged copy is compared with.

Everything here runs in a child: what damage does to a process is seen from outside.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aidre.api.protocols.intent.event_ledger import LEDGER_FILE as INTENT
from aidre.api.protocols.provenance.keys import make_key
from aidre.engine.collection.backfill import VectorLog
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError, HistoryMissing
from aidre.engine.index.vectors import quantizer
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Query, Record
from aidre.engine.search import depth_choice
from aidre.engine.types import ChangeCursor
from aidre.ingest.pipeline.last_read import save_read_times
from tests.hostile import receipts
from tests.support.fields import dated
from tests.support.stores import NAME, Vectors, names, normal, put, record, space_of, structured

LARGE, PLAIN, ADDED = space_of("cosine", 768, model="m"), space_of("dot", 4), space_of("cosine", 16)
SPACES = (LARGE, PLAIN)
ROWS, MORE, FEW = 1700, 60, 20
OTHER = "other"
LONG = 100
"""Every so many documents one has two chunks."""
BACKUP, SIGNING = "backup.tar", "keys.pem"
LOG = ".log"
THEN = 1_790_000_000.0
TEXTS = (
    "The lighthouse keeper counts ships in the grey morning, number {}.",
    "Der Leuchtturm zählt die Schiffe am grauen Morgen, Nummer {}.",
    "Le gardien du phare compte les navires, numéro {}; fromBytes reads_them.",
    "灯台守は朝に船を数える {}。",
)
WORDS = ("lighthouse ships", "Schiffe am Morgen", "navires fromBytes", "船を数える", "number 77", "no such word")
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"n": {"lt": 40}},
    {"day": {"gte": "2026-01-20"}},
    {"site": "b.example", "tag": "red"},
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a look at a store; each part is None or empty where nothing was wrong.

    `refused` is the file that opening named, with the words for it; `warnings` those of the snapshot; `differing` the
    questions that were not answered as the sound store answers them; `raised` what came instead of an answer;
    `problems` what `verify` says of which file, and whether that is derived. `peak` is the memory of it all, in KiB.
    """

    refused: tuple[str, str] | None
    warnings: tuple[str, ...]
    differing: tuple[str, ...]
    raised: tuple[str, ...]
    problems: tuple[tuple[str, bool], ...]
    ok: bool
    others: bool
    peak: int


# -- making ----------------------------------------------------------------------------------------------------------


def make(folder: Path, *, listed: bool = False) -> None:
    """The store, its backup and a key file, beside each other in a folder; the index has several lists, or one."""
    store = folder / "store"
    if listed:  # as otherwise only a hundred times as many rows have
        quantizer.MIN_LISTED_ROWS, depth_choice.MAX_PROBING_SHARE = ROWS // 2, math.inf
    with Store(store).writer(NAME, spaces=SPACES, dates=["day"], description="About docs") as writer:
        for first, count in ((0, ROWS), (ROWS, MORE)):
            put(writer, records(first, count), _vectors(first, count), {LARGE.id: keys(first, count)})
            writer.commit()
        for ids in (names(FEW), names(3, ROWS)):
            writer.delete(ids)
            writer.commit()
    with Store(store).writer(OTHER, spaces=[PLAIN]) as writer:
        put(writer, names(FEW), normal(FEW, PLAIN.dimensions))
        writer.commit()
    VectorLog(store / NAME, ADDED).add(keys(1, FEW), encode(ADDED, _added()))
    save_read_times(store, NAME, ["docs", "https://example.com/feed"], [], THEN)
    for number in range(5):
        receipts.one_turn(store, f"turn {number}")
    back_up(Store(store), [NAME, OTHER], folder / BACKUP, [(f"{LOG}/{INTENT}", store / LOG / INTENT)])
    for second in (0, 100):
        make_key(folder / SIGNING, THEN + second)


def _added() -> Vectors:
    return normal(FEW, ADDED.dimensions)


def records(first: int, count: int) -> list[Record]:
    return [
        record(
            one,
            [text.format(row) for text in (TEXTS[row % 4 :] + TEXTS[: row % 4])[: 1 + (row % LONG == 0)]],
            metadata={"n": row, "day": f"2026-01-{row % 28 + 1:02d}", "tag": ["red", row % 7]},
            url=f"https://{'ab'[row % 2]}.example/{row}",
            title=f"Title {row}" if row % 3 else None,
            schema_object={"@type": "Article", "name": f"a{row}", "n": row} if row % 5 == 0 else None,
        )
        for row, one in zip(range(first, first + count), names(count, first), strict=True)
    ]


def _chunks(first: int, count: int) -> int:
    return count + len([row for row in range(first, first + count) if row % LONG == 0])


def _vectors(first: int, count: int) -> dict[str, Vectors]:
    rows = _chunks(first, count)
    return {LARGE.id: structured(rows, LARGE.dimensions, first), PLAIN.id: normal(rows, PLAIN.dimensions, first)}


def keys(first: int, count: int) -> list[bytes]:
    return [b"%016d" % (first * 2 + row) for row in range(_chunks(first, count))]


# -- asking ------------------------------------------------------------------------------------------------------------

Question = tuple[str, Callable[[Snapshot], object]]


def questions() -> Iterator[Question]:
    """All that a caller can ask, each with a name."""
    for number, only in enumerate(FILTERS):
        wanted = None if only is None else dated(only, ["day"])
        yield f"count {number}", partial(Snapshot.count, filter=wanted)
        for row, (large, plain) in enumerate(zip(*_asked(), strict=True)):
            for space, vector in ((LARGE, large), (PLAIN, plain)):
                yield f"{space.id} {row}.{number}", partial(_ids, query=Query(vector, space.id, 10, filter=wanted))
        for text in WORDS:
            lexical = Query(None, None, 10, text=text, mode="lexical", filter=wanted)
            hybrid = Query(_asked()[0][0], LARGE.id, 10, text=text, mode="hybrid", filter=wanted)
            yield f"lexical {text!r} {number}", partial(_ids, query=lexical)
            yield f"hybrid {text!r} {number}", partial(_ids, query=hybrid)
    for one in (*names(30), *names(10, ROWS - 5), "none"):
        yield f"document {one}", partial(_is_there, document_id=one)
    yield "keys", _found_keys
    yield "fields", Snapshot.fields
    yield "text feed", _fed
    yield "text of chunks", _texts


def _is_there(snapshot: Snapshot, document_id: str) -> object:
    return snapshot.get(f"{document_id}#chunk_1") is not None, len(snapshot.document(document_id))


def _texts(snapshot: Snapshot) -> object:
    return [_whole(snapshot, one) for one in names(25, 15)]


def _asked() -> tuple[Vectors, Vectors]:
    return structured(4, LARGE.dimensions, 50), normal(4, PLAIN.dimensions, 50)


def _ids(snapshot: Snapshot, query: Query) -> list[tuple[str, float]]:
    return [(hit.chunk.id, round(hit.score, 4)) for hit in snapshot.search(query)]


def _found_keys(snapshot: Snapshot) -> list[int]:
    wanted = [*keys(0, ROWS)[::50], *keys(ROWS, MORE)[::5], b"x" * 16]
    return [int((part.segment.find_keys(LARGE.id, wanted) >= 0).sum()) for part in snapshot.segments]


def _fed(snapshot: Snapshot) -> object:
    """The change feed, followed from its beginning and from its first list; or that it begins anew."""
    pages = []
    for begin in (None, ChangeCursor(snapshot.changes(None, 1).cursor.changelog)):
        place, more = begin, True
        while more:
            page = snapshot.changes(place, 700)
            pages.append([(change.op, change.id, change.content_hash) for change in page.changes])
            place, more = page.cursor, page.more
    return pages


def _whole(snapshot: Snapshot, document_id: str) -> object:
    chunk = snapshot.get(f"{document_id}#chunk_1")
    if chunk is None:
        return None
    return chunk.fragments, chunk.text, chunk.title, chunk.url, chunk.metadata, chunk.span


def answers(store: Path) -> dict[str, bytes]:
    """What a sound store says, question by question, as hashes."""
    snapshot = Store(store).open(NAME)
    assert snapshot.warnings == ()
    return {name: _hash(ask(snapshot)) for name, ask in questions()}


def _hash(answer: object) -> bytes:
    return hashlib.blake2b(repr(answer).encode("utf-8", "surrogatepass"), digest_size=12).digest()


def look(store: Path, expected: dict[str, bytes], generation: int | None = None) -> Seen:
    """Open a store that may be damaged, ask it everything, verify it; no error of any kind comes out."""
    refused, warnings, differing, raised = None, list[str](), list[str](), list[str]()
    try:
        snapshot = Store(store).open(NAME, generation=generation)
    except AidreError as error:
        refused = str(error.details.get("file", "")), f"{type(error).__name__}: {error}"
    else:
        for name, ask in questions() if generation is None else ():
            try:
                if _hash(ask(snapshot)) != expected[name]:
                    differing.append(name)
            except HistoryMissing:
                raised.append(f"{name}: HistoryMissing")
            except Exception as error:
                raised.append(f"{name}: {type(error).__name__}: {error}"[:300])
        warnings += snapshot.warnings
        for part in snapshot.segments:
            warnings += (each for each in part.segment.warnings if each not in warnings)
    others = Store(store).open(OTHER)
    hits = others.search(Query(np.ones(PLAIN.dimensions, np.float32), PLAIN.id, FEW))
    serving = len(hits) == FEW and others.warnings == ()
    reports = verify(Store(store))
    problems = [(each.file, each.derived) for report in reports for each in (*report.problems, *report.older)]
    ok = all(report.ok for report in reports)
    peak = peak_memory()
    return Seen(refused, tuple(warnings), tuple(differing), tuple(raised), tuple(problems), ok, serving, peak)


def peak_memory() -> int:
    """The most memory that this process has held, in KiB."""
    with suppress(OSError, StopIteration), Path("/proc/self/status").open(encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    return 0


def is_listed(store: Path) -> bool:
    """Whether the one index has several lists."""
    (scan,) = (scan for part in Store(store).open(NAME).segments for scan in part.segment.scans.values())
    return scan.nlist > 1


def make_listed(folder: Path) -> None:
    make(folder, listed=True)


def frames(store: Path) -> dict[str, list[tuple[int, int]]]:
    """Where the headers and footers of the newest generation's files lie, by path below the store."""
    manifest = Store(store).open(NAME).manifest
    return {
        f"{NAME}/segments/{segment.id}/{name}": list(file.frame)
        for segment in manifest.segments
        for name, file in segment.files.items()
    }


def vectors_kept(store: Path) -> list[bool]:
    """Which vectors of the space that is being filled are still known; those that are must be right."""
    log = VectorLog(store / NAME, ADDED)
    found = log.find(keys(1, FEW))
    expected = encode(ADDED, _added())
    for row, place in enumerate(found.tolist()):
        if place >= 0:
            assert np.array_equal(log.take(np.array([place])).codes[0], expected.codes[row])
    return [place >= 0 for place in found.tolist()]
