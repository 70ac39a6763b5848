"""The files of a store as a fuzzer alters them, each opened and read by what opens it, or in its place in a store whose
manifest has the checksums made anew: as what comes from a bucket or a backup.

The store is small and has every kind of file; that its vectors are in codes is forced. The first byte of an input is
the number of the file that the others are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError
from aidre.engine.index.fields import FieldIndex
from aidre.engine.index.ids import IdIndex, open_keys
from aidre.engine.index.text import Lexicon, Words
from aidre.engine.index.vectors import open_index, quantizer
from aidre.engine.model import Query
from aidre.engine.search import cost, depth_choice
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage.arrow import ArrowFile, check_offsets, open_bytes
from aidre.engine.storage.format import find_index_file, vectors_file
from aidre.engine.storage.manifest import decode_manifest, manifest_numbers, seal, unseal
from tests.hostile import foreign, victim
from tests.hostile.kernel_stores import SLOW_MEMORY
from tests.hostile.parsing import Parser
from tests.support.calibrations import measured_quickly
from tests.support.fields import dated
from tests.support.stores import NAME, names, put, space_of, structured

ROWS: Final = 640
FEW: Final = 4
"""Values that are read at either end of a column whose offsets were checked."""
WORDS: Final = ("text", "of", "lighthouse", "nothing")
LEAST_BYTES: Final = 8
SPACE: Final = space_of("cosine", 16, model="m")
Read = Callable[[bytes], Any]


def buffers(folder: Path) -> Parser:
    """Each file by itself. Only the end of the process is a fault: whoever calls these readers catches all else."""
    subjects = [subject for place in made(folder) for subject in _subjects_of(place / NAME)]

    def parse(content: bytes) -> None:
        with suppress(Exception):
            _, read = subjects[content[0] % len(subjects)]
            read(content[1:])

    return Parser(parse, numbered([path for path, _ in subjects]), mutate=altered)


def stores(folder: Path) -> Parser:
    """A file in its place. To open the store raises errors of aidre alone; a question may raise what it likes."""
    places = made(folder)
    subjects = [(place, path) for place in places for path, _ in _subjects_of(place / NAME)]
    whole = {place: _subject(place) for place in places}
    for place in places:
        assert all(Store(place).open(NAME).search(query) for query in _queries())

    def parse(content: bytes) -> None:
        place, path = subjects[(content or b"\0")[0] % len(subjects)]
        subject, former = whole[place], path.read_bytes()
        try:
            if path == subject.manifest:
                foreign.replaced(path, seal(content[1:]))
            else:
                foreign.replaced(path, content[1:])
                foreign.replaced(subject.manifest, foreign.sealed(subject, path, content[1:]))
            _ask(place)
        finally:
            foreign.replaced(path, former)
            foreign.replaced(subject.manifest, subject.content)

    return Parser(parse, numbered([path for _, path in subjects]), mutate=altered)


def made(folder: Path) -> list[Path]:
    """Two stores: the codes of the one are in lists."""
    return [_make(folder / "plain", listed=False), _make(folder / "listed", listed=True)]


def _make(folder: Path, *, listed: bool) -> Path:
    costs = cost.COSTS
    slow = costs._replace(byte=costs.byte * SLOW_MEMORY, scattered_byte=costs.scattered_byte * SLOW_MEMORY)
    with pytest.MonkeyPatch.context() as patch, measured_quickly():
        patch.setattr(cost, "COSTS", slow)
        patch.setattr(cost, "MIN_SPACE_ROWS", ROWS // 2)
        if listed:
            patch.setattr(quantizer, "MIN_LISTED_ROWS", ROWS // 2)
            patch.setattr(depth_choice, "MAX_PROBING_SHARE", np.inf)
        with Store(folder).writer(NAME, spaces=[SPACE], dates=["day"]) as writer:
            records, keys = victim.records(0, ROWS), victim.keys(0, ROWS)
            put(writer, records, structured(len(keys), SPACE.dimensions), {SPACE.id: keys})
            writer.commit()
            writer.delete(names(FEW))
            writer.commit()
    [view] = Store(folder).open(NAME).segments
    assert [scan.nlist > 1 for scan in view.segment.scans.values()] == [listed]
    return folder


def numbered(paths: Sequence[Path]) -> list[bytes]:
    """The files, each after its number; of a manifest what is sealed."""
    contents = [path.read_bytes() for path in paths]
    unsealed = [
        unseal(content) if path.suffix == ".json" else content for path, content in zip(paths, contents, strict=True)
    ]
    return [bytes([number]) + content for number, content in enumerate(unsealed)]


def altered(content: bytes, chance: random.Random) -> bytes:
    """The same kind of file with a few values set to others."""
    if len(content) <= LEAST_BYTES:
        return content
    return content[:1] + foreign.mutated(content[1:], chance)[0]


# -- whole stores ------------------------------------------------------------------------------------------------------


def _subject(place: Path) -> foreign.Subject:
    manifests = place / NAME / "manifests"
    path = manifests / f"{max(manifest_numbers(manifests.parent)):06d}.json"
    return foreign.Subject(place.parent, {}, {}, path, path.read_bytes())


def _ask(place: Path) -> None:
    try:
        snapshot = Store(place).open(NAME)
    except AidreError:
        return
    for question in (_search, _count, _read, _follow):
        with suppress(Exception):
            question(snapshot)


def _queries() -> Iterator[Query]:
    vector = structured(1, SPACE.dimensions, 50)[0]
    red = dated({"tag": "red", "n": {"lt": 40}}, ["day"])
    text = "lighthouse ships"
    yield Query(vector, SPACE.id, 5)
    yield Query(vector, SPACE.id, 5, filter=red)
    yield Query(None, None, 5, text=text, mode="lexical")
    yield Query(vector, SPACE.id, 5, text=text, mode="hybrid", filter=red)


def _search(snapshot: Snapshot) -> None:
    for query in _queries():
        with suppress(Exception):
            [hit.chunk.text for hit in snapshot.search(query)]


def _count(snapshot: Snapshot) -> None:
    snapshot.count(dated({"day": {"gte": "2026-01-20"}}, ["day"]))
    snapshot.fields()


def _read(snapshot: Snapshot) -> None:
    for one in names(FEW, ROWS - FEW):
        for chunk in snapshot.document(one):
            _ = chunk.text, chunk.title, chunk.metadata, chunk.span, chunk.fragments
    for part in snapshot.segments:
        part.segment.find_keys(SPACE.id, victim.keys(0, FEW))


def _follow(snapshot: Snapshot) -> None:
    page = snapshot.changes(None, 100)
    snapshot.changes(page.cursor, 100)


# -- one file ----------------------------------------------------------------------------------------------------------


def _subjects_of(folder: Path) -> list[tuple[Path, Read]]:
    """The files of a collection, each with what reads it."""
    found = list[tuple[Path, Read]]()
    for view in Store(folder.parent).open(NAME).segments:
        for name in view.segment.entry.files:
            found.append((folder / "segments" / view.segment.id / name, _reader_of(name, view.segment)))
    for path in sorted([*(folder / "deletes").glob("*.arrow"), *(folder / "changes").glob("*.arrow")]):
        found.append((path, _read_rows))
    newest = max((folder / "manifests").glob("*.json"))
    return [*found, (newest, partial(_read_manifest, number=int(newest.stem)))]


def _reader_of(name: str, segment: SegmentReader) -> Read:
    rows = segment.entry.chunks
    opens: dict[str, Callable[[pa.RecordBatch], Any]] = {
        "ids.arrow": _read_ids,
        "fields.arrow": _read_fields,
        "lexicon.arrow": _read_lexicon,
        "words.arrow": _read_words,
    }
    if name in opens:
        return lambda content: opens[name](_whole(content).batches[0])
    if ".keys." in name:
        return lambda content: open_keys(_whole(content).batches[0], rows).find(b"key", lambda row: False)
    if ".index." in name:
        [space] = [one.space for id, one in segment.columns.items() if find_index_file(segment.entry.files, id) == name]
        checksum = segment.entry.files[vectors_file(space.id)].checksum
        return lambda content: open_index(space, _whole(content).batches[0], rows, checksum)
    return _read_data


def _whole(content: bytes) -> ArrowFile:
    return open_bytes(np.frombuffer(content, np.uint8), whole=True)


def _read_rows(content: bytes) -> None:
    for batch in _whole(content).batches:
        batch.to_pylist()


def _read_data(content: bytes) -> None:
    """As at the first open: a file of data, whose texts are read later."""
    file = open_bytes(np.frombuffer(content, np.uint8))
    check_offsets(file)
    for batch in file.batches:
        for column in batch.columns:
            seen = column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column
            for rows in (seen.slice(0, FEW), seen.slice(max(0, len(seen) - FEW))):
                rows.to_pylist()


def _read_ids(batch: pa.RecordBatch) -> None:
    index = IdIndex(batch)
    for lookup in (index.chunks, index.documents):
        lookup.find_all([b"d000001", b"no"], lambda number, row: True)


def _read_fields(batch: pa.RecordBatch) -> None:
    index = FieldIndex(batch)
    for name, kind in index.stored():
        list(index.counts(name, None))
        index.bounds(name, kind, None)


def _read_lexicon(batch: pa.RecordBatch) -> None:
    lexicon = Lexicon(batch)
    for word in WORDS:
        lexicon.postings(word)


def _read_words(batch: pa.RecordBatch) -> None:
    words = Words(batch)
    for word in WORDS:
        words.frequency(word)
        words.starting(word[:1], 5)


def _read_manifest(body: bytes, number: int) -> None:
    decode_manifest(seal(body), number, NAME)
