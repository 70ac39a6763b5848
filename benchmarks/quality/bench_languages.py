"""Languages: words, vectors and both together, with the default model and with `multilingual`, apart and in one folder.

    python -m benchmarks languages [PATH...] [--multilingual] [--keep DIR] [--update-readme]

A PATH is a test set of one language or a folder of such sets, as for bench_quality, whose --keep folder can be used
again; without one, a set is made from this Python's standard library. The figures are nDCG@10 over all questions of a
set, `over better` what hybrid search has more than the better of words and vectors alone.

With --multilingual the sets are embedded by that model, too, and then all put into one collection in both spaces, the
one of the default model first. Its questions name no space. `right space` is the share of those that are asked in the
first space whose model knows the language of their set, `apart` the hybrid search in a collection of the set alone in
that space, `together` that of the common collection. In sets that are translations of one another, as those of XQuAD,
documents have the same ids; `in any language` counts the translations of a right document as right, too, each document
at the place of its first translation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder, reads_language
from aidre.engine.embedding.models import MULTILINGUAL
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.retrieve import Answer, Question, State, answer, run
from benchmarks.harness.judged_sets import JudgedSet, ndcg, read_set, rows_of, sets_in
from benchmarks.harness.stdlib_corpus import write_set
from benchmarks.quality.bench_quality import collection_of, ingested, kept
from benchmarks.report.results import record

MULTILINGUAL_SPACE: Final = EmbeddingSpace(
    id="multilingual",
    dimensions=MULTILINGUAL.dimensions,
    distance="cosine",
    normalized=True,
    provider="sentence-transformers",
    model=MULTILINGUAL.model,
)
TOGETHER: Final = "together"
"""The collection of all sets."""
TOP_K: Final = 60
"""Chunks that are fetched for ten documents."""
SEPARATOR: Final = "/"
"""Between the name of a set and the id of a document, in the collection of all sets."""

Embed = Callable[[EmbeddingSpace, str], NDArray[np.float32]]


class Scores(NamedTuple):
    """nDCG@10 of a set by mode."""

    words: float
    vectors: float
    hybrid: float


class Mixed(NamedTuple):
    """Of the questions of one set in the collection of all: see above."""

    right_space: float
    together: float
    in_any_language: float


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    sets = [read_set(folder) for path in options.paths for folder in sets_in(path)]
    spaces = [DEFAULT_SPACE, *([MULTILINGUAL_SPACE] if options.multilingual else [])]
    embedders = [load_embedder(space) for space in spaces]
    with kept(options.keep) as folder:
        if not sets:
            write_set(folder / "stdlib")
            sets = [read_set(folder / "stdlib")]
        found = measure(folder, sets, embedders)
    show(found)
    record("bench_languages", found, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_languages", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="test sets of one language, or folders of such sets")
    parser.add_argument("--multilingual", action="store_true", help="also with this model, and all sets together")
    parser.add_argument("--keep", type=Path, help="keep the stores in this folder, and reuse existing ones")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into the report")
    return parser.parse_args(argv)


def measure(folder: Path, sets: Sequence[JudgedSet], embedders: Sequence[Embedder]) -> dict[str, Any]:
    """The figures of each model; with several models also those of all sets together. Stores are kept in the folder."""
    store = Store(folder / "store")
    figures: dict[str, Any] = {}
    apart: dict[tuple[str, str], Scores] = {}
    tags: dict[str, str] = {}
    for number, embedder in enumerate(embedders):
        model = "default" if number == 0 else str(embedder.space.model)
        rows = figures[f"{model}_model,_nDCG@10"] = {}
        for data in sets:
            name = collection_of(data.name) + (f".{model}" if number else "")
            snapshot = ingested(store, name, data.corpus, embedder)
            tags[data.name] = language(snapshot)
            scores = apart[data.name, embedder.space.id] = by_mode(snapshot, data, embedder)
            rows[data.name] = _row(scores)
            say(f"{data.name}, {model}: {rows[data.name]}")
    if len(embedders) > 1:
        snapshot = ingested(store, TOGETHER, merged(folder / f"{TOGETHER}.jsonl", sets), *embedders)
        rows = figures["both_models_in_one_collection,_nDCG@10"] = {}
        for data in sets:
            space = next(one.space for one in embedders if reads_language(one.space, tags[data.name]))
            rows[data.name] = _mixed_row(
                space, apart[data.name, space.id].hybrid, among_all(snapshot, data, embedders, space)
            )
            say(f"{data.name}, together: {rows[data.name]}")
    return figures


def language(snapshot: Snapshot) -> str:
    """The tag of most chunks."""
    found = snapshot.status()["languages"]
    return max(found, key=lambda tag: found[tag])


def by_mode(snapshot: Snapshot, data: JudgedSet, embedder: Embedder) -> Scores:
    embed = _embedding(data, [embedder])

    def mean(mode: Mode) -> float:
        found = (asked(snapshot, topic.text, embed, mode) for topic in data.topics)
        return fmean(ndcg(_documents(one), topic.grades) for one, topic in zip(found, data.topics, strict=True))

    return Scores(mean("lexical"), mean("dense"), mean("hybrid"))


def merged(path: Path, sets: Sequence[JudgedSet]) -> Path:
    """Writes the documents of all sets into one file; their ids begin with the name of their set."""
    with path.open("wb") as file:
        for data in sets:
            for row in rows_of(data.corpus, ("id", "text")):
                named = {**row, "id": f"{data.name}{SEPARATOR}{row['id']}"}
                file.write(orjson.dumps(named, option=orjson.OPT_APPEND_NEWLINE))
    return path


def among_all(snapshot: Snapshot, data: JudgedSet, embedders: Sequence[Embedder], space: EmbeddingSpace) -> Mixed:
    embed = _embedding(data, embedders)
    routed, own, translated = [], [], []
    for topic in data.topics:
        found = asked(snapshot, topic.text, embed)
        routed.append(found.space is not None and found.space.id == space.id)
        documents = _documents(found)
        own.append(ndcg(documents, {f"{data.name}{SEPARATOR}{id}": grade for id, grade in topic.grades.items()}))
        translated.append(ndcg([id.partition(SEPARATOR)[2] for id in documents], topic.grades))
    return Mixed(fmean(routed), fmean(own), fmean(translated))


def asked(snapshot: Snapshot, text: str, embed: Embed, mode: Mode | None = None) -> Answer:
    return run(answer(Question(TOP_K, text, mode=mode, operators=False, scaled=False), State(snapshot)), embed)


def _documents(found: Answer) -> list[str]:
    return [hit.document_id for hit in found.hits]


def _embedding(data: JudgedSet, embedders: Sequence[Embedder]) -> Embed:
    """The vectors of the questions of a set, embedded together at the first use of a space."""
    by_space = {embedder.space.id: embedder for embedder in embedders}
    known: dict[str, dict[str, NDArray[np.float32]]] = {}

    def embed(space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
        if space.id not in known:
            texts = [topic.text for topic in data.topics]
            known[space.id] = dict(zip(texts, by_space[space.id].embed_queries(texts), strict=True))
        return known[space.id][text]

    return embed


# -- figures -------------------------------------------------------------------------------------------------------


def _row(scores: Scores) -> dict[str, str]:
    over = scores.hybrid - max(scores.words, scores.vectors)
    return {**{name: f"{value:.3f}" for name, value in scores._asdict().items()}, "over_better": f"{over:+.3f}"}


def _mixed_row(space: EmbeddingSpace, apart: float, mixed: Mixed) -> dict[str, str]:
    return {
        "model": str(space.model).rpartition("/")[2],
        "right_space": f"{mixed.right_space:.1%}",
        "apart": f"{apart:.3f}",
        "together": f"{mixed.together:.3f}",
        "difference": f"{mixed.together - apart:+.3f}",
        "in_any_language": f"{mixed.in_any_language:.3f}",
    }


def show(found: dict[str, Any]) -> None:
    for line in _lines(found):
        print(line)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for name, rows in found.items():
        yield name.replace("_", " ")
        for row, cells in rows.items():
            yield f"  {row:18}" + "  ".join(f"{column.replace('_', ' ')} {cell}" for column, cell in cells.items())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
