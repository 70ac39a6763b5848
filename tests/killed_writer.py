"""Run as a process of its own, to be killed: brings a store to the state of an epoch, ten documents a commit.

Usage: killed_writer.py STORE EPOCH [unsynced]. Prints the ids of each commit once it is durable, "done" at the end.
An interrupted run is continued by a run of the same epoch, which skips what is as it should be. `unsynced` takes
every fsync away: the tests must notice.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from building import NAME, put, record, space_of

from aidre.engine.model import Record
from aidre.engine.store import Store

DOCUMENTS = 300
GROUP = 10
SPACE = space_of("cosine", 16)


def groups() -> list[list[str]]:
    ids = [f"d{number:04d}" for number in range(DOCUMENTS)]
    return [ids[start : start + GROUP] for start in range(0, DOCUMENTS, GROUP)]


def wanted(document_id: str, epoch: int) -> Record | None:
    """A document as of an epoch: every seventh one is deleted, another seventh each time."""
    if int(document_id[1:]) % 7 == epoch % 7:
        return None
    return record(document_id, [f"{document_id} as of {epoch}. " * 20])


def acknowledge(*words: str) -> None:
    os.write(1, " ".join([*words, "\n"]).encode())


def run(store: Path, epoch: int) -> None:
    rng = np.random.default_rng(epoch)
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        for ids in groups():
            stored = writer.fingerprints(ids)
            records = [wanted(one, epoch) for one in ids]
            writer.delete([one for one, record_ in zip(ids, records, strict=True) if record_ is None])
            differing = [
                record_
                for record_, mark in zip(records, stored, strict=True)
                if record_ is not None and record_.fingerprint != mark
            ]
            if differing:
                put(writer, differing, rng.normal(size=(len(differing), SPACE.dimensions)).astype(np.float32))
            writer.commit()
            acknowledge(*ids)
        writer.finish()
        acknowledge("done")


if __name__ == "__main__":
    if sys.argv[3:] == ["unsynced"]:
        vars(os)["fsync"] = lambda descriptor: None
    run(Path(sys.argv[1]), int(sys.argv[2]))
