"""Files of a store with altered values, opened and read in process, many thousands to a child: as what comes from a
bucket or a backup, with right checksums. No child ends before it is done.

The proof `foreign` asks whole stores; this one reaches what opens them a hundred times as often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from aidre.engine.collection.store import Store
from aidre.engine.index.fields import FieldIndex
from aidre.engine.index.ids import IdIndex, open_keys
from aidre.engine.index.text import Lexicon, Words
from aidre.engine.index.vectors import open_index
from aidre.engine.segment.reader import SegmentReader
from aidre.engine.storage.arrow import ArrowFile, check_offsets, open_bytes
from aidre.engine.storage.format import find_index_file, vectors_file
from aidre.engine.storage.manifest import decode_manifest, seal, unseal
from tests.hostile import foreign
from tests.hostile.nursery import asked
from tests.hostile.report import Report
from tests.support.stores import NAME

IN_A_CHILD: Final = 10_000
"""Buffers."""
FEW: Final = 4
"""Values that are read at either end of a column whose offsets were checked."""
WORDS: Final = ("text", "of", "lentils", "nothing")
Read = Callable[[bytes], Any]


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """So many buffers."""
    folders = [report.place(f"buffers-{listed}") for listed in (False, True)]
    for folder, listed in zip(folders, (False, True), strict=True):
        foreign.prepared(folder, listed=listed)
    outcomes, ended, done = Counter[str](), list[str](), 0
    while done < rounds:
        count, seed = min(IN_A_CHILD, rounds - done), chance.getrandbits(31)
        folder = folders[done // IN_A_CHILD % len(folders)]
        try:
            outcomes += asked(read_altered, folder, count, seed)
        except AssertionError as error:
            ended.append(f"seed {seed} in {folder.name}: {str(error).strip()[-300:]}")
        done += count
        if done % (10 * IN_A_CHILD) == 0:
            report.say(f"{done:,} of {rounds:,}: {len(ended)} children ended")
    report.figure("buffers", f"{rounds:,} buffers, {len(ended)} children ended; {in_words(outcomes)}")
    assert not ended, "\n".join(ended)


def in_words(outcomes: Counter[str]) -> str:
    return ", ".join(f"{outcome} {count:,}" for outcome, count in outcomes.most_common())


def read_altered(folder: Path, count: int, seed: int) -> Counter[str]:
    """In a child: what came of so many altered buffers."""
    chance, outcomes = random.Random(seed), Counter[str]()
    snapshot = Store(folder / "store").open(NAME)
    subjects = list(subjects_of(folder / "store" / NAME, [view.segment for view in snapshot.segments]))
    for number in range(count):
        content, read = subjects[number % len(subjects)]
        altered, _ = foreign.mutated(content, chance)
        try:
            read(altered)
            outcomes["read"] += 1
        except Exception as error:
            outcomes[type(error).__name__] += 1
    return outcomes


def subjects_of(folder: Path, segments: Sequence[SegmentReader]) -> list[tuple[bytes, Read]]:
    """The files of a collection, each with what reads it."""
    found = list[tuple[bytes, Read]]()
    for segment in segments:
        for name in segment.entry.files:
            path = folder / "segments" / segment.id / name
            found.append((path.read_bytes(), reader_of(name, segment)))
    for path in (*(folder / "deletes").glob("*.arrow"), *(folder / "changes").glob("*.arrow")):
        found.append((path.read_bytes(), read_rows))
    for path in (folder / "manifests").glob("*.json"):
        found.append((unseal(path.read_bytes()), partial(read_manifest, number=int(path.stem))))
    return found


def reader_of(name: str, segment: SegmentReader) -> Read:
    rows = segment.entry.chunks
    opens: dict[str, Callable[[pa.RecordBatch], Any]] = {
        "ids.arrow": read_ids,
        "fields.arrow": read_fields,
        "lexicon.arrow": read_lexicon,
        "words.arrow": read_words,
    }
    if name in opens:
        return lambda content: opens[name](whole(content).batches[0])
    if ".keys." in name:
        return lambda content: open_keys(whole(content).batches[0], rows).find(b"key", lambda row: False)
    if ".index." in name:
        [space] = [one.space for id, one in segment.columns.items() if find_index_file(segment.entry.files, id) == name]
        checksum = segment.entry.files[vectors_file(space.id)].checksum
        return lambda content: open_index(space, whole(content).batches[0], rows, checksum)
    return read_data


def whole(content: bytes) -> ArrowFile:
    return open_bytes(np.frombuffer(content, np.uint8), whole=True)


def read_rows(content: bytes) -> None:
    for batch in whole(content).batches:
        batch.to_pylist()


def read_data(content: bytes) -> None:
    """As at the first open: a file of data, whose texts are read later."""
    file = open_bytes(np.frombuffer(content, np.uint8))
    check_offsets(file)
    for batch in file.batches:
        for column in batch.columns:
            seen = column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column
            for rows in (seen.slice(0, FEW), seen.slice(max(0, len(seen) - FEW))):
                rows.to_pylist()


def read_ids(batch: pa.RecordBatch) -> None:
    index = IdIndex(batch)
    for lookup in (index.chunks, index.documents):
        lookup.find_all([b"d000001", b"no"], lambda number, row: True)


def read_fields(batch: pa.RecordBatch) -> None:
    index = FieldIndex(batch)
    for name, kind in index.stored():
        list(index.counts(name, None))
        index.bounds(name, kind, None)


def read_lexicon(batch: pa.RecordBatch) -> None:
    lexicon = Lexicon(batch)
    for word in WORDS:
        lexicon.postings(word)


def read_words(batch: pa.RecordBatch) -> None:
    words = Words(batch)
    for word in WORDS:
        words.frequency(word)
        words.starting(word[:1], 5)


def read_manifest(body: bytes, number: int) -> None:
    decode_manifest(seal(body), number, NAME)
