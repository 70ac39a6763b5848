"""The order of words: codes and dates beside their parts in another order, and phrases in quotes.

    python -m benchmarks wording [PATH...] --keep DIR [--phrases N] [--seed S] [--update-readme]

A PATH is a test set or a folder of sets, as for bench_quality, whose --keep folder is used again.

- pairs: two texts of the same words, one of them as the query has them; in how many the right one scores higher, each
  text being asked for in turn. The pairs are among passages of the first set.
- phrases: N runs of five words, copied from a chunk of each set, in quotes; the share of those whose first hit has the
  run as it is written, case and signs between the words apart.
- the time of an answer with quotes and without, and of a question as the set has it: medians, one after the other.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.index.text.words import comparable_text, phrase_pattern
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve import Answer, Question, State, answer, run
from benchmarks.harness.judged_sets import read_set, sets_in
from benchmarks.quality.bench_feedback import read
from benchmarks.report.results import record

PAIRS: Final[Sequence[tuple[str, str, str, str]]] = (
    ("The audit took place on {}.", "2024-03-05", "2024-05-03", "{}"),
    ("The contract of {} was signed in Graz.", "05.03.2024", "03.05.2024", "{}"),
    ("The gateway has the address {} here.", "1.0.0.10", "10.0.0.1", "{}"),
    ("The printer answers at {}.", "192.168.10.1", "192.168.1.10", "address {}"),
    ("Order part {} today.", "AB-34-12", "AB-12-34", "{}"),
    ("We keep {} in stock.", "KX-7-210", "KX-210-7", "{}"),
    ("See RFC 9110 section {} please.", "8.4", "4.8", "RFC 9110 section {}"),
    ("Chapter {} of the manual explains it.", "12.3.1", "3.12.1", "chapter {}"),
    ("Release {} mends the leak.", "14.2.1.0", "2.14.1.0", "release {}"),
    ("The train leaves at {} from platform two.", "10:45", "45:10", "train at {}"),
    ("Copy the file to {} first.", "usr/local/etc", "etc/local/usr", "{}"),
    ("The handler is {} of the module.", "io.file.open", "open.file.io", "{}"),
    ("In the news: {} again.", "dog bites man", "man bites dog", '"{}"'),
    ("Log line: {}.", "connection reset by peer", "peer reset by connection", '"{}"'),
    ("They say that {} here.", "work is more than play", "play is more than work", '"{}"'),
    ("The {} was late.", "house of the king", "king of the house", '"{}"'),
)
"""A text with a placeholder, the words that replace it, the same words in another order, and the query."""
WORDS: Final = 5
ROUNDS: Final = 200
MODES: Final[Sequence[Mode]] = ("lexical", "hybrid")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_wording", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--phrases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--update-readme", action="store_true", help="write the figures into the report")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    figures: dict[str, Any] = {}
    phrases: dict[str, Any] = {}
    for folder in (one for path in options.paths for one in sets_in(path)):
        (source,) = read(folder, options.keep, embedder)
        if not figures:
            texts = [chunk.text for chunk, _ in zip(source.snapshot.scan(), range(400), strict=False)]
            figures["pairs"] = pairs(texts)
        questions = [topic.text for topic in read_set(folder).topics]
        phrases[folder.name] = copied(source.snapshot, embedder, questions, options.phrases, options.seed)
    figures["phrases_of_five_words"] = phrases
    for name, table in figures.items():
        print(name.replace("_", " "))
        for row, cells in table.items():
            print(f"  {row:18} {cells}", flush=True)
    record("bench_wording", figures, readme=options.update_readme)
    return 0


def pairs(fillers: Sequence[str]) -> dict[str, Any]:
    """How many of the texts come before their twin, by mode."""
    import aidre

    rows = [
        {"id": f"{number}-{side}", "text": text.format(words)}
        for number, (text, right, other, _) in enumerate(PAIRS)
        for side, words in (("right", right), ("other", other))
    ]
    rows += [{"id": f"filler-{number}", "text": text} for number, text in enumerate(fillers)]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, aidre.open(folder) as db:
        docs = db.collection("docs")
        docs.add(rows)
        for mode in MODES:
            right = 0
            for number, (_, first, second, query) in enumerate(PAIRS):
                for words, wanted, twin in ((first, "right", "other"), (second, "other", "right")):
                    hits = {hit.document_id: hit.score for hit in docs.search(query.format(words), mode=mode, k=50)}
                    right += hits.get(f"{number}-{wanted}", -1.0) > hits.get(f"{number}-{twin}", -1.0)
            found[mode] = {"right": right, "of": 2 * len(PAIRS)}
    return found


def copied(reader: Reader, embedder: Embedder, questions: Sequence[str], count: int, seed: int) -> dict[str, Any]:
    """Of runs of five words that were copied from chunks, how often the first hit has the run."""
    rng = random.Random(seed)
    chunks = [chunk.text.split() for chunk in reader.scan()]
    chunks = [words for words in chunks if len(words) > 2 * WORDS]
    runs: list[str] = []
    while len(runs) < count:
        words = rng.choice(chunks)
        start = rng.randrange(len(words) - WORDS)
        run_of_words = " ".join(words[start : start + WORDS]).replace('"', "")
        if phrase_pattern(run_of_words) is not None:
            runs.append(run_of_words)
    first = {mode: sum(_has(_asked(reader, embedder, f'"{one}"', mode), one) for one in runs) / count for mode in MODES}
    return {
        **{f"first_{mode}": f"{share:.1%}" for mode, share in first.items()},
        "plain_ms": _median_ms(reader, embedder, runs),
        "quoted_ms": _median_ms(reader, embedder, [f'"{one}"' for one in runs]),
        "question_ms": _median_ms(reader, embedder, questions),
    }


def _has(found: Answer, phrase: str) -> bool:
    pattern = phrase_pattern(phrase)
    if pattern is None or not found.hits:
        return False
    chunk = found.hits[0].chunk
    return any(pattern.search(comparable_text(text)) for text in (chunk.text, chunk.title or "", chunk.section or ""))


def _asked(reader: Reader, embedder: Embedder, text: str, mode: Mode) -> Answer:
    def embed(_: EmbeddingSpace, query: str) -> NDArray[np.float32]:
        return cast("NDArray[np.float32]", embedder.embed_queries([query])[0])

    return run(answer(Question(10, text, mode=mode, scaled=False), State(reader)), embed)


def _median_ms(reader: Reader, embedder: Embedder, texts: Sequence[str]) -> float:
    """Of hybrid answers, without the time of the model."""
    known: dict[str, NDArray[np.float32]] = {}

    def embed(_: EmbeddingSpace, query: str) -> NDArray[np.float32]:
        if query not in known:
            known[query] = embedder.embed_queries([query])[0]
        return known[query]

    times = []
    for text in [*texts, *texts][: 2 * ROUNDS]:
        question = Question(10, text, mode="hybrid", scaled=False)
        run(answer(question, State(reader)), embed)
        began = time.perf_counter()
        run(answer(question, State(reader)), embed)
        times.append(time.perf_counter() - began)
    return round(median(times) * 1_000, 3)


if __name__ == "__main__":
    sys.exit(main())
