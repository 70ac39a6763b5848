"""Retrieval quality: nDCG@10 and recall@100 of lexical, dense and hybrid search, by score and by ranks, over test sets.

    python -m benchmarks quality [PATH...] [--whole] [--keep DIR] [--raw DIR] [--a A] [--c C] [--update-readme]
    python -m benchmarks quality --again DIR [--a A] [--c C]

A PATH is a test set or a folder of sets (format: harness/judged_sets.py); without one, a set is made from this Python's
standard library. Every set passes through the product's ingest and search with the default model. A document has the
rank of its best chunk. --whole also measures each document as a single chunk, embedded up to the model's window, which
shows the effect of chunking. --keep DIR keeps the stores, so that a later run embeds nothing again. --raw DIR keeps the
cosine and the BM25 scores of all retrieved chunks for every query; --again DIR re-ranks them, without feedback and
bonus, so that other values of `a` and `c` are tried in seconds.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import orjson

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Fusion, Mode, Query
from aidre.ingest.pipeline.ingest import chunker_for, ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import DocumentProblem, Event, Notice
from benchmarks.harness.judged_sets import JudgedSet, read_set, rows_of, sets_in
from benchmarks.harness.stdlib_corpus import write_set
from benchmarks.quality import rankings
from benchmarks.quality.rankings import MODES, Parts, Result, outcome, ranking
from benchmarks.report.results import record

REFERENCE: Final[Mapping[str, float]] = {
    "cranfield": 0.409,
    "med": 0.801,
    "cisi": 0.450,
    "msmarco_5k": 0.799,
    "climate_fever_s": 0.426,
    "metatool": 0.660,
    "pystdlib_code": 0.491,
    "xquad_en": 0.979,
    "scifact_train": 0.736,
}
"""Reference nDCG@10, measured before this engine had lexical search: score fusion (min-max, maximum or saturated) of
bm25s and all-MiniLM-L6-v2 in float32, over whole documents truncated at the model's window, with the weights chosen on
these sets."""

BY_RANKS: Final = "ranks"
"""Hybrid search that joins the lists of words and of vectors by their ranks (`fusion="rrf"`)."""

WHOLE: Final = ".whole"
"""Suffix of a result's name if each document is one chunk."""


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    fusion = Fusion(options.a, options.c)
    try:
        results = run(options, fusion) if options.again is None else again(options.again, fusion)
    except ValueError as error:
        raise SystemExit(f"bench_quality: {error}") from error
    show(results)
    if options.again is None:
        record("bench_quality", figures(results, fusion), readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_quality", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--whole", action="store_true", help="also measure each document as one chunk")
    parser.add_argument("--keep", type=Path, help="keep the stores in this folder, and reuse existing ones")
    parser.add_argument("--raw", type=Path, help="write the scored candidates of each query to this folder")
    parser.add_argument("--again", type=Path, help="re-rank the candidates that --raw wrote to this folder")
    parser.add_argument("--a", type=float, default=Fusion().a, help="weight of the cosine in hybrid search")
    parser.add_argument("--c", type=float, default=Fusion().c, help="BM25 score that saturates to one half")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    if options.paths and options.again:
        parser.error("name test sets or --again, not both")
    return options


def again(folder: Path, fusion: Fusion) -> list[Result]:
    results = [rankings.read(path, fusion) for path in sorted(folder.glob("*.json"))]
    if not results:
        raise ValueError(f"{folder} holds no file written by --raw")
    return results


def run(options: argparse.Namespace, fusion: Fusion) -> list[Result]:
    sets = [read_set(folder) for path in options.paths for folder in sets_in(path)]
    embedder = load_embedder(DEFAULT_SPACE)
    results = []
    with kept(options.keep) as folder:
        if not sets:
            write_set(folder / "stdlib")
            sets = [read_set(folder / "stdlib")]
        for data in sets:
            for whole in (False, True) if options.whole else (False,):
                results.append(measure(data, embedder, fusion, folder, whole=whole, raw=options.raw))
    return results


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """The folder for the stores: `folder`, or a temporary one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    else:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)


def measure(
    data: JudgedSet, embedder: Embedder, fusion: Fusion, folder: Path, *, whole: bool = False, raw: Path | None = None
) -> Result:
    """Ingests a set into a store in `folder` and runs all its queries."""
    name = collection_of(data.name) + (WHOLE if whole else "")
    source = as_whole(data, embedder, folder / name) if whole else data.corpus
    started = time.perf_counter()
    snapshot = ingested(Store(folder / "store"), name, source, embedder)
    say(f"{name}: {snapshot.chunks} chunks, ready in {time.perf_counter() - started:.0f} s")
    parts = Parts(snapshot, embedder.space.id) if raw is not None else None
    ways: dict[str, tuple[Mode, Fusion]] = {mode: (mode, fusion) for mode in MODES}
    ways[BY_RANKS] = "hybrid", replace(fusion, method="rrf")
    ranked: dict[str, list[list[str]]] = {way: [] for way in ways}
    found = []
    vectors = embedder.embed_queries([topic.text for topic in data.topics])
    for topic, vector in zip(data.topics, vectors, strict=True):
        hits = []
        for way, (mode, joined) in ways.items():
            query = Query(vector, embedder.space.id, text=topic.text, mode=mode, fusion=joined)
            documents, fetched = ranking(snapshot, query)
            ranked[way].append(documents)
            hits += fetched
        if parts is not None:
            found.append(parts.candidates(topic.text, vector, hits))
    outcomes = {way: outcome(ranked[way], data.topics) for way in ways}
    result = Result(name, snapshot.documents, snapshot.chunks, outcomes)
    if raw is not None:
        rankings.write(raw / f"{name}.json", result, data.topics, found)
    return result


def collection_of(name: str) -> str:
    """The name of the collection that stores a set."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower())


def ingested(store: Store, collection: str, source: Path, *embedders: Embedder) -> Snapshot:
    def report(event: Event) -> None:
        if isinstance(event, DocumentProblem):
            say(f"{event.where}: {event.reason}")
        elif isinstance(event, Notice):
            say(event.text)

    by_space = {embedder.space.id: embedder for embedder in embedders}
    spaces = [embedder.space for embedder in embedders]
    ingest(store, collection, [source], spaces=spaces, embedders=by_space, options=IngestOptions(), report=report)
    return store.open(collection)


def as_whole(data: JudgedSet, embedder: Embedder, folder: Path) -> Path:
    """Writes a copy of the corpus whose rows bring their vectors: such a row stays one chunk, whatever its length.

    The embedding input is that of a chunk, with the whole document as its text: the model truncates it at its window.
    """
    digest = sha256(data.corpus.read_bytes() + str(embedder.space.revision).encode()).hexdigest()
    path = folder / f"{digest[:16]}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        chunker = chunker_for([embedder.space], {embedder.space.id: embedder})
        rows = [row for row in rows_of(data.corpus, ("id", "text")) if row["text"].strip()]
        texts = [chunker.join_embedding_input(row.get("title"), None, row["text"]) for row in rows]
        vectors = embedder.embed_documents(texts)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            for row, vector in zip(rows, vectors, strict=True):
                brought = {**row, "vectors": {embedder.space.id: vector}}
                file.write(orjson.dumps(brought, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
        unfinished.rename(path)
    return path


def show(results: Sequence[Result]) -> None:
    """Prints a table: per set, nDCG@10 and recall@100 of each way to search, and the reference for hybrid."""
    ways = list(results[0].outcomes)
    print(f"{'nDCG@10 / recall@100':32}{'chunks':>8}" + "".join(f"{way:>18}" for way in ways) + f"{'reference':>12}")
    for group in ([each for each in results if is_whole(each) == whole] for whole in (False, True)):
        for result in group:
            cells = (f"{each.ndcg:9.4f} /{each.recall:7.4f}" for each in result.outcomes.values())
            known = REFERENCE.get(result.name.removesuffix(WHOLE))
            print(f"{result.name:32}{result.chunks:>8}{''.join(cells)}{known or '':>12}")
        if group:
            means = (f"{mean(group, way):9.4f} /{mean_recall(group, way):7.4f}" for way in ways)
            print(f"{'mean':32}{'':8}{''.join(means)}{reference(group):>12}")


def figures(results: Sequence[Result], fusion: Fusion) -> dict[str, Any]:
    """The figures of the report."""
    chunked = [each for each in results if not is_whole(each)]
    whole = [each for each in results if is_whole(each)]
    written: dict[str, Any] = {"fusion": f"a = {fusion.a}, c = {fusion.c}"}
    for result in chunked:
        cells = (f"{way} {found.ndcg:.3f}" for way, found in result.outcomes.items())
        written[f"{result.name}_nDCG@10"] = ", ".join(cells)
    for way in results[0].outcomes:
        written[f"{way}_mean_nDCG@10"] = round(mean(chunked, way), 4)
        written[f"{way}_mean_recall@100"] = round(mean_recall(chunked, way), 4)
        if whole:
            written[f"{way}_mean_nDCG@10_of_whole_documents"] = round(mean(whole, way), 4)
    return written


def is_whole(result: Result) -> bool:
    return result.name.endswith(WHOLE)


def mean(results: Sequence[Result], way: str) -> float:
    return fmean(result.outcomes[way].ndcg for result in results)


def mean_recall(results: Sequence[Result], way: str) -> float:
    return fmean(result.outcomes[way].recall for result in results)


def reference(results: Sequence[Result]) -> str:
    """The mean reference, if every set has one; else the empty string."""
    known = [REFERENCE.get(result.name.removesuffix(WHOLE)) for result in results]
    return f"{fmean(filter(None, known)):.4f}" if all(known) else ""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
