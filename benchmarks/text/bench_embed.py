"""Embedding speed side by side in one run: SentenceTransformer.encode with its defaults against aidre's embedder.

    python -m benchmarks embed [--corpus FILE.jsonl] [--passages N] [--queries N] [--rounds N] [--update-readme]

Rounds are interleaved, so that other load on the machine affects both sides. Prints one JSON line per round, and a
table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.embedding.torch import load_model
from aidre.engine.embedding.weights import find_weights
from benchmarks.harness.equal_passages import texts
from benchmarks.report.results import record

Encode = Callable[[Any], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Contender:
    """An embedder. `documents` takes a list of texts, `query` one text; both return float32 rows."""

    name: str
    documents: Encode
    query: Encode


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    passages = list(itertools.islice(texts(options.corpus), options.passages))
    queries = [" ".join(passage.split()[3:12]) for passage in passages[: options.queries]]
    embedder = load_embedder(DEFAULT_SPACE, runtime=options.runtime)
    contenders = [reference(), ours(embedder)]
    agreement = closeness(contenders, passages[:64])
    rounds = [measure(contender, passages, queries) for _ in range(options.rounds) for contender in contenders]
    raw = {"rounds": [{**one, "query_ms": one.pop("query_ms")} for one in rounds]}
    for figures in rounds:
        print(json.dumps(figures), flush=True)
    figures = summary(contenders, rounds)
    figures["tokens_a_passage"] = round(sum(embedder.count_tokens(passages)) / len(passages))
    figures["mean_cosine_to_reference"] = round(agreement, 4)
    show(figures)
    record("bench_embed", figures, raw=raw, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_embed", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, help="JSON Lines with a `text` member; default: docstrings of the standard library"
    )
    parser.add_argument("--passages", type=int, default=256)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    return parser.parse_args(argv)


def reference() -> Contender:
    """SentenceTransformer.encode with its defaults: batches of 32, its own thread pool."""
    model = load_model(find_weights(str(DEFAULT_SPACE.model)).folder)

    def encode(texts: Any) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = model.encode(texts, show_progress_bar=False)
        return rows

    return Contender("sentence-transformers", encode, encode)


def ours(embedder: Embedder) -> Contender:
    return Contender(
        f"aidre ({embedder.runtime})", embedder.embed_documents, lambda text: embedder.embed_queries([text])
    )


def measure(contender: Contender, passages: list[str], queries: list[str]) -> dict[str, Any]:
    contender.documents(passages[:8])
    started, cpu = time.perf_counter(), time.process_time()
    contender.documents(passages)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    contender.query(queries[0])
    latencies = []
    for query in queries:
        started = time.perf_counter()
        contender.query(query)
        latencies.append((time.perf_counter() - started) * 1000)
    return {
        "contender": contender.name,
        "documents_per_second": round(len(passages) / seconds, 1),
        "cpu_ms_per_document": round(1000 * cpu / len(passages), 2),
        "cores_busy": round(cpu / seconds, 2),
        "query_p50_ms": round(float(np.percentile(latencies, 50)), 3),
        "query_p95_ms": round(float(np.percentile(latencies, 95)), 3),
        "query_ms": latencies,
    }


def closeness(contenders: Sequence[Contender], passages: list[str]) -> float:
    first, second = (contender.documents(passages) for contender in contenders)
    return float((first * second).sum(axis=1).mean())


def summary(contenders: Sequence[Contender], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and the factor by which the second contender is better."""
    figures: dict[str, Any] = {}
    for name in ("documents_per_second", "cpu_ms_per_document", "query_p50_ms", "query_p95_ms"):
        first, second = (
            float(np.median([one[name] for one in rounds if one["contender"] == contender.name]))
            for contender in contenders
        )
        better = second / first if name == "documents_per_second" else first / second
        figures[f"{name}_sentence_transformers"] = round(first, 2)
        figures[f"{name}_aidre"] = round(second, 2)
        figures[f"{name}_times_better"] = round(better, 2)
    busy = [one["cores_busy"] for one in rounds if one["contender"] == contenders[1].name]
    figures["cores_busy_with_documents_aidre"] = float(np.median(busy))
    figures["runtime"] = contenders[1].name
    return figures


def show(figures: dict[str, Any]) -> None:
    print()
    for name, figure in figures.items():
        print(f"{name:52}{figure!s:>24}")


if __name__ == "__main__":
    sys.exit(main())
