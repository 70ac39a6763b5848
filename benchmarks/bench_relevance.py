"""The bound of relevance: how many questions of other collections are told, and how many own ones are lost.

    python -m benchmarks.bench_relevance PATH... --keep DIR [--questions N]

PATH and --keep are those of `bench_quality`, which embeds the sets once. Every collection, and samples of 10, 30 and
100 of its documents, is asked its own questions and some of each other set, whole and cut down to one, two and three
words (N of each). A question of another set is told if the best hit has less evidence than is demanded
(engine/retrieve/relevance.py); an own one is lost then. *left out* is each collection with the offset that loses LOST
of the own questions of the others.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Chunk, Document, Mode, Query, Record
from aidre.engine.retrieve.relevance import content_words, demanded_evidence, evidence, likeness_of, word_factor
from aidre.engine.storage.format import NO_KEY
from benchmarks.bench_feedback import Searched, read

SIZES: Final = (0, 10, 30, 100)
"""Documents of a sample; 0 is the whole collection."""
WORDS: Final = (1, 2, 3, 0)
"""Words that are left of a question; 0 is all of them."""
LOST: Final = 0.013
OWN: Final = 250
MODES: Final[tuple[Mode, ...]] = ("hybrid", "dense")


class Asked(NamedTuple):
    """A question of a set, whole or cut down, with its vector."""

    set: str
    words: int
    topic: int
    text: str
    vector: Any


@dataclass(frozen=True, slots=True)
class Judged:
    """The best hit for a question: `margin` is the evidence beyond what is demanded, per the factor of its words."""

    mode: Mode
    collection: str
    size: int
    words: int
    set: str
    margin: float

    @property
    def is_own(self) -> bool:
        return self.collection == self.set


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_relevance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--questions", type=int, default=40)
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    searched = [one for path in options.paths for one in read(path, options.keep, embedder)]
    asked = list(questions(searched, embedder, options.questions))
    judged = [each for one in searched for each in judge(one, asked)]
    for text in report(judged):
        print(text)
    return 0


def questions(searched: Sequence[Searched], embedder: Embedder, count: int) -> Iterator[Asked]:
    """`OWN` whole questions of each set, the first `count` of which are asked elsewhere and are cut down."""
    rng = random.Random(11)
    for one in searched:
        order = list(range(len(one.topics)))
        rng.shuffle(order)
        yield from (Asked(one.name, 0, topic, one.topics[topic].text, one.vectors[topic]) for topic in order[:OWN])
        short = []
        for words in WORDS[:-1]:
            for topic in order[:count]:
                found = content_words(one.topics[topic].text)
                if len(found) > words:
                    kept = sorted(rng.sample(range(len(found)), words))
                    short.append((words, topic, " ".join(found[place] for place in kept)))
        vectors = embedder.embed_queries([text for *_, text in short])
        for (words, topic, text), vector in zip(short, vectors, strict=True):
            yield Asked(one.name, words, topic, text, vector)


def judge(one: Searched, asked: Sequence[Asked]) -> Iterator[Judged]:
    foreign = [each for each in first_of_each(asked) if each.set != one.name]
    own = [each for each in asked if each.set == one.name]
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            snapshot, ids = (one.snapshot, None) if size == 0 else sample(one, size, Path(folder))
            answered = [each for each in own if ids is None or ids & one.topics[each.topic].grades.keys()]
            for each in (*foreign, *answered):
                for mode in MODES:
                    yield Judged(mode, one.name, size, each.words, each.set, margin(snapshot, each, mode))


def first_of_each(asked: Sequence[Asked], share: int = 6) -> list[Asked]:
    """One in so many whole questions, and all short ones."""
    return [each for place, each in enumerate(asked) if each.words or place % share == 0]


def margin(snapshot: Snapshot, asked: Asked, mode: Mode) -> float:
    query = Query(asked.vector, DEFAULT_SPACE.id, 1, text=asked.text, mode=mode)
    (hit,) = snapshot.search(query)
    vector = hit.chunk.vectors()[DEFAULT_SPACE.id]
    cosine = float(vector @ asked.vector) / float(np.linalg.norm(vector) * np.linalg.norm(asked.vector))
    factor = word_factor(asked.text)
    found = evidence(asked.text, cosine, f"{hit.chunk.title or ''} {hit.chunk.text}")
    likeness = likeness_of(snapshot.centroid(DEFAULT_SPACE.id), asked.vector)
    return found / factor - demanded_evidence(snapshot.chunks, 1.0, likeness)


def sample(one: Searched, size: int, folder: Path) -> tuple[Snapshot, frozenset[str]]:
    """A collection of some documents, half of them with a question, and their ids."""
    rng = random.Random(size)
    answering = {rng.choice(sorted(topic.grades)) for topic in rng.sample(list(one.topics), min(size, len(one.topics)))}
    others = sorted({chunk.document_id for chunk in one.snapshot.scan()} - answering)
    chosen = [*sorted(answering)[: size // 2], *rng.sample(others, min(len(others), size - size // 2))]
    documents = {id: list(chunks) for id in chosen if (chunks := one.snapshot.document(id))}
    records: list[Record] = []
    vectors = []
    for id, chunks in documents.items():
        document = Document(id, "".join(chunk.text for chunk in chunks), title=chunks[0].title)
        parts = tuple(Chunk(f"{id}#{n}", n, chunk.text, 0, len(chunk.text)) for n, chunk in enumerate(chunks, 1))
        records.append(Record(document, parts, len(records).to_bytes(16, "little")))
        vectors += [chunk.vectors()[DEFAULT_SPACE.id] for chunk in chunks]
    with Store(folder).writer("sample", spaces=[DEFAULT_SPACE]) as writer:
        encoded = writer.encode(DEFAULT_SPACE.id, np.array(vectors, np.float32))
        writer.upsert(records, {DEFAULT_SPACE.id: encoded}, {DEFAULT_SPACE.id: [NO_KEY] * len(vectors)})
        writer.commit()
    return Store(folder).open("sample"), frozenset(documents)


# -- the report --------------------------------------------------------------------------------------------------------


def report(judged: Sequence[Judged]) -> list[str]:
    lines = []
    for mode in MODES:
        of_mode = [each for each in judged if each.mode == mode]
        whole = [each for each in of_mode if each.size == each.words == 0]
        names = sorted({each.collection for each in whole})
        told = {name: rate([each for each in whole if each.collection == name], 0.0) for name in names}
        left_out = {
            name: rate([each for each in whole if each.collection == name], offset(whole, name)) for name in names
        }
        lines += [summary(f"{mode}, product", told), summary(f"{mode}, left out", left_out)]
        for label, sizes in (("10 and 30", {10, 30}), ("100", {100}), ("whole", {0})):
            cells = []
            for words in WORDS:
                foreign, own = rate([each for each in of_mode if each.size in sizes and each.words == words], 0.0)
                cells.append(f"{words or 'all'} words {foreign:3.0%} {own:.1%}")
            lines.append(f"  {label:10} " + "    ".join(cells))
    return lines


def offset(whole: Sequence[Judged], left_out: str) -> float:
    """The margin below which LOST of the own questions of the other sets are."""
    others = [each.margin for each in whole if each.is_own and each.collection != left_out]
    return float(np.quantile(others, LOST))


def rate(judged: Sequence[Judged], bound: float) -> tuple[float, float]:
    """The shares of the foreign and of the own questions below the bound."""
    below = {own: [each.margin < bound for each in judged if each.is_own == own] for own in (False, True)}
    return fmean(below[False] or [0]), fmean(below[True] or [0])


def summary(label: str, rates: dict[str, tuple[float, float]]) -> str:
    told, lost = fmean(one for one, _ in rates.values()), fmean(other for _, other in rates.values())
    fewest, most = min(rates, key=lambda name: rates[name][0]), max(rates, key=lambda name: rates[name][1])
    return (
        f"{label}: {told:.1%} told, {lost:.1%} lost; fewest told {fewest} {rates[fewest][0]:.1%}, "
        f"most lost {most} {rates[most][1]:.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
