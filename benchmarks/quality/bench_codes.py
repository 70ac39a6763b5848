"""Part numbers and other codes in a collection of passages: how often the passage with the code comes first.

    python -m benchmarks codes PATH... --keep DIR [--codes N] [--seed S] [--update-readme]

A PATH is a test set or a folder of sets, --keep the folder in which `bench_quality` keeps its stores. A code of a
random format is put into each of N passages of a set, which are embedded anew; then each is asked bare, in a short
sentence and in a long one.
"""

from __future__ import annotations

import argparse
import random
import string
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Chunk, Document, Mode, Query, Record
from aidre.engine.storage.format import NO_KEY
from benchmarks.quality.bench_feedback import read
from benchmarks.quality.rankings import MODES
from benchmarks.report.results import record

ASKED: Final[Mapping[str, Sequence[str]]] = {
    "bare": ["{}"],
    "short sentence": ["do you have {} in stock", "where can I find {}?", "What is {}", "price of {}, please"],
    "long sentence": [
        "my neighbour told me last week that something called {} may solve my problem, what is known about it?",
        "I have been looking for hours through all the documents for the place that mentions {} but found nothing",
        "can you explain to me, as simply as possible, in which context the identifier {} is used and why",
    ],
}
"""Sentences, each with a place for the code."""
WRITTEN: Final = ("(see {})", "Part no. {}.", "[{}]", "The reference is {}.", "Also known as {}.")
"""How a passage says its code."""
FORMATS: Final[Sequence[Callable[[random.Random], str]]] = (
    lambda rng: f"{letters(rng, 2)}-{digits(rng, 4)}",
    lambda rng: f"{letters(rng, 1)}{digits(rng, 5)}",
    lambda rng: f"{letters(rng, 3)}/{digits(rng, 3)}/{letters(rng, 1)}",
    lambda rng: f"{digits(rng, 3)}.{digits(rng, 3)}.{digits(rng, 2)}",
    lambda rng: f"{digits(rng, 4)}{letters(rng, 2)}{digits(rng, 2)}",
    lambda rng: f"0x{rng.randrange(16**7, 16**8):08x}",
    lambda rng: f"{letters(rng, 2).lower()}_{digits(rng, 4)}",
    lambda rng: f"{digits(rng, 8)}",
    lambda rng: f"v{rng.randint(1, 40)}.{rng.randint(0, 99)}.{rng.randint(1, 99)}-rc{rng.randint(1, 9)}",
    lambda rng: f"{letters(rng, 4)}-{digits(rng, 2)}-{letters(rng, 2)}{digits(rng, 1)}",
)


def letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.ascii_uppercase, k=count))


def digits(rng: random.Random, count: int) -> str:
    return str(rng.randint(10 ** (count - 1), 10**count - 1))


def codes(count: int, rng: random.Random) -> list[str]:
    """Distinct codes, of all formats in turn."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[FORMATS[len(found) % len(FORMATS)](rng)] = None
    return list(found)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_codes", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--codes", type=int, default=300, help="codes of a set")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--update-readme", action="store_true", help="write the figures into the report")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    shares: dict[Mode, dict[str, Any]] = {mode: {} for mode in MODES}
    for source in (one for path in options.paths for one in read(path, options.keep, embedder)):
        count = min(options.codes, source.snapshot.chunks)
        for mode, right in measure(source.snapshot, embedder, count, options.seed).items():
            found = {kind: f"{number / count:.1%}" for kind, number in right.items()}
            shares[mode][source.name] = {"codes": count, **found}
            print(f"{source.name}, {mode}: {shares[mode][source.name]}", flush=True)
    figures = {f"first_hits,_{mode}": rows for mode, rows in shares.items()}
    record("bench_codes", figures, readme=options.update_readme)
    return 0


def measure(passages: Snapshot, embedder: Embedder, count: int, seed: int) -> dict[Mode, dict[str, int]]:
    """How many of the codes, put into passages of a set, have their passage at the first place, by mode and kind of
    question."""
    chunks = list(passages.scan())
    texts = {f"{place:06d}": chunk.text for place, chunk in enumerate(chunks)}
    vectors = {f"{place:06d}": chunk.vectors()[DEFAULT_SPACE.id] for place, chunk in enumerate(chunks)}
    with tempfile.TemporaryDirectory() as folder:
        snapshot, where = store(Path(folder), embedder, texts, vectors, count=count, seed=seed)
        return {mode: first(snapshot, embedder, where, mode, seed) for mode in MODES}


def store(
    folder: Path, embedder: Embedder, texts: Mapping[str, str], vectors: Mapping[str, Any], *, count: int, seed: int
) -> tuple[Snapshot, dict[str, str]]:
    """A collection of the passages, some with a code, and the passage of each code. `vectors` are those without."""
    rng = random.Random(seed)
    where = dict(zip(codes(count, rng), rng.sample(sorted(texts), count), strict=True))
    changed = {id: with_code(texts[id], code, rng) for code, id in where.items()}
    anew = dict(zip(changed, embedder.embed_documents(list(changed.values())), strict=True))
    written = {**texts, **changed}
    records = [
        Record(Document(id, text), (Chunk(f"{id}#1", 1, text, 0, len(text)),), number.to_bytes(16, "little"))
        for number, (id, text) in enumerate(written.items())
    ]
    rows = np.array([anew[id] if id in anew else vectors[id] for id in written], np.float32)
    with Store(folder).writer("codes", spaces=[DEFAULT_SPACE]) as writer:
        encoded = {DEFAULT_SPACE.id: writer.encode(DEFAULT_SPACE.id, rows)}
        writer.upsert(records, encoded, {DEFAULT_SPACE.id: [NO_KEY] * len(records)})
        writer.commit()
    return Store(folder).open("codes"), where


def with_code(text: str, code: str, rng: random.Random) -> str:
    """The passage with a remark that says the code, between two of its words."""
    words = text.split(" ")
    words.insert(rng.randint(0, len(words)), rng.choice(WRITTEN).format(code))
    return " ".join(words)


def first(snapshot: Snapshot, embedder: Embedder, where: Mapping[str, str], mode: Mode, seed: int) -> dict[str, int]:
    """How many codes have their passage at the first place, by the kind of question."""
    rng = random.Random(seed)
    right = {}
    for kind, sentences in ASKED.items():
        texts = [rng.choice(sentences).format(code) for code in where]
        found = []
        for text, vector in zip(texts, embedder.embed_queries(texts), strict=True):
            query = Query(vector, DEFAULT_SPACE.id, 1, text=text, mode=mode)
            found.append([hit.document_id for hit in snapshot.search(query)])
        right[kind] = sum([id] == ids for id, ids in zip(where.values(), found, strict=True))
    return right


if __name__ == "__main__":
    sys.exit(main())
