"""Embedding speed side by side in one run: SentenceTransformer.encode with its defaults against aidre's embedder.

    python -m benchmarks.bench_embed [--corpus FILE.jsonl] [--passages N] [--queries N] [--rounds N]

Rounds are interleaved, so that what else the machine does falls on both. Prints a JSON line a round and a table.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embed import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.reference import load_model
from aidre.engine.weights import find_weights

WORDS = 120
Encode = Callable[[Any], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to embed. `query` takes one text."""

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
    for figures in rounds:
        print(json.dumps(figures), flush=True)
    report(contenders, rounds, agreement, sum(embedder.count_tokens(passages)) / len(passages))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_embed", description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a text in each; default: this Python's docstrings")
    parser.add_argument("--passages", type=int, default=256)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtime", default="auto")
    return parser.parse_args(argv)


def reference() -> Contender:
    """SentenceTransformer.encode as a user calls it: batches of 32, its own threads."""
    model = load_model(find_weights(str(DEFAULT_SPACE.model)).folder)

    def encode(texts: Any) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = model.encode(texts, show_progress_bar=False)
        return rows

    return Contender("sentence-transformers", encode, encode)


def ours(embedder: Embedder) -> Contender:
    return Contender(
        f"aidre ({embedder.runtime})", embedder.embed_documents, lambda text: embedder.embed_queries([text])
    )


def texts(corpus: Path | None) -> Iterator[str]:
    """Passages of WORDS words from `corpus`, or from the docstrings of the standard library."""
    words: list[str] = []
    for text in rows(corpus) if corpus else docstrings():
        words += text.split()
        while len(words) >= WORDS:
            yield " ".join(words[:WORDS])
            words = words[WORDS:]


def rows(corpus: Path) -> Iterator[str]:
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield f"{row.get('title') or ''} {row['text']}"


def docstrings() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""


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
        "query_p50_ms": round(float(np.percentile(latencies, 50)), 3),
        "query_p95_ms": round(float(np.percentile(latencies, 95)), 3),
    }


def closeness(contenders: Sequence[Contender], passages: list[str]) -> float:
    first, second = (contender.documents(passages) for contender in contenders)
    return float((first * second).sum(axis=1).mean())


def report(contenders: Sequence[Contender], rounds: list[dict[str, Any]], agreement: float, tokens: float) -> None:
    """Medians over the rounds, and how many times better the second contender is."""
    names = ("documents_per_second", "cpu_ms_per_document", "query_p50_ms", "query_p95_ms")
    medians = [
        [float(np.median([r[name] for r in rounds if r["contender"] == contender.name])) for name in names]
        for contender in contenders
    ]
    print(f"\n{'':26}" + "".join(f"{name:>22}" for name in names))
    for contender, figures in zip(contenders, medians, strict=True):
        print(f"{contender.name:26}" + "".join(f"{figure:22.2f}" for figure in figures))
    speed, *rest = zip(*medians, strict=True)
    ratios = [speed[1] / speed[0], *(first / second for first, second in rest)]
    print(f"{'times better':26}" + "".join(f"{ratio:22.2f}" for ratio in ratios))
    print(f"{tokens:.0f} tokens a passage; mean cosine between the two {agreement:.4f}")


if __name__ == "__main__":
    sys.exit(main())
