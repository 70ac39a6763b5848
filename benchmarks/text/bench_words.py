"""Search by words, by vectors and by both, beside tantivy, bm25s, LanceDB and another release of aidre.

    python -m benchmarks words [--rows N...] [--queries N] [--turns N] [--peers NAME...] [--previous PYTHON]
                               [--folder DIR] [--update-readme]

The chunks and the questions are those of `bench_text`, a vector of each question beside its words. Every engine runs in
its own process, on one core, one question per call; beside each batch aidre answers the same questions for the first
time, before it and after it in turns.
A ratio compares the medians of two batches that were taken within about a second of each other. LanceDB fuses the ranks
of two lists, tantivy and bm25s search words alone. `shared` is the share of aidre's ten hits that the engine has, too:
analyzers and scores differ. For codes of several parts, such as `os.path`, aidre reads texts; questions without one are
told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.index.text import find_sequences
from benchmarks.harness.equal_passages import texts
from benchmarks.harness.metrics import figure, ratio
from benchmarks.harness.real import say
from benchmarks.peers.client import PeerMissing, Running, running
from benchmarks.peers.words import WARM_UP
from benchmarks.report.results import record
from benchmarks.text.bench_text import BLOCK, PASSAGES, material, questions, records_of, vectors_of

OURS: Final = "aidre words"
PREVIOUS: Final = "aidre previous"
PEERS: Final = ("tantivy", "bm25s", "lancedb words")
MODES: Final = ("words", "vectors", "hybrid")
K: Final = 10
BUILD_SECONDS: Final = 1_800.0

Samples = dict[str, dict[str, list[dict[str, Any]]]]
"""Batches by engine and mode, in order of the turns; each with the anchor's batch beside it."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_words", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[28_500])
    parser.add_argument(
        "--queries", type=int, default=100, help="questions of a turn, others in each and for each engine"
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--previous", type=Path, metavar="PYTHON", help="the interpreter of another release of aidre")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            engines = 1 + len(options.peers) + (options.previous is not None)
            count = engines * options.turns * options.queries + WARM_UP
            files = prepared(Path(folder).resolve(), embedder, rows, count)
            found, raw = contest(files, options)
        print(json.dumps(found))
        record(f"bench_words_{rows}", {"chunks": rows, **found}, raw=raw, readme=options.update_readme)
    return 0


def prepared(folder: Path, embedder: Embedder, rows: int, count: int) -> dict[str, str]:
    """Writes the texts, one JSON string a line, their vectors, and the questions with theirs."""
    passages = list(texts(None))
    made_of = material(passages[:PASSAGES], embedder.embed_documents(passages[:PASSAGES]))
    shape = (rows, embedder.space.dimensions)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as lines:
        for first in range(0, rows, BLOCK):
            pairs, vectors[first : first + BLOCK] = vectors_of(made_of, first, min(BLOCK, rows - first))
            lines.writelines(
                json.dumps(made.chunks[0].text, ensure_ascii=False) + "\n" for made in records_of(made_of, pairs, first)
            )
    asked = questions(passages[PASSAGES:], count)
    (folder / "questions.json").write_text(json.dumps(asked), "utf-8")
    np.save(folder / "asked.npy", np.concatenate([embedder.embed_queries([text]) for text in asked]))
    named = {"texts": "texts.jsonl", "vectors": "vectors.npy", "questions": "questions.json", "asked": "asked.npy"}
    return {name: str(folder / path) for name, path in named.items()}


def contest(files: Mapping[str, str], options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures, and the samples of each engine."""
    samples: Samples = {}
    versions: dict[str, str] = {}
    cores = sorted(os.sched_getaffinity(0))
    with running(OURS, options.folder) as anchor:
        built(anchor, files, cores)
        samples[OURS] = measured(anchor, anchor, options, 0)
        for place, name in enumerate([*([PREVIOUS] if options.previous else []), *options.peers], 1):
            program = options.previous if name == PREVIOUS else None
            try:
                with running(OURS if program else name, options.folder, program) as peer:
                    versions[name] = built(peer, files, cores)
                    samples[name] = measured(anchor, peer, options, place)
            except PeerMissing as reason:
                say(f"{name}: not measured: {reason}")
    asked = json.loads(Path(files["questions"]).read_bytes())[: options.turns * options.queries]
    plain = np.array([not find_sequences(question) for question in asked])
    return figures(samples, versions, plain), {"samples": samples, "plain": plain.tolist()}


def built(engine: Running, files: Mapping[str, str], cores: Sequence[int]) -> str:
    facts = engine.build(files, BUILD_SECONDS)
    engine.pin(cores[-1])
    return str(facts["version"])


def measured(
    anchor: Running, peer: Running, options: argparse.Namespace, place: int
) -> dict[str, list[dict[str, Any]]]:
    """Batches of the peer beside those of the anchor, by mode; each peer (by its `place`) has questions that the anchor
    has not answered yet, and every other turn it is asked first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for turn in range(options.turns):
        first = (place * options.turns + turn) * options.queries
        for mode in (one for one in MODES if one in peer.facts["modes"]):
            asked = {"do": "search", "mode": mode, "k": K, "first": first, "count": options.queries}
            both = [anchor] if peer is anchor else [anchor, peer] if turn % 2 == 0 else [peer, anchor]
            answers = [one.ask(BUILD_SECONDS, **asked) for one in both]
            beside, theirs = answers[both.index(anchor)], answers[both.index(peer)]
            found.setdefault(mode, []).append({**theirs, "anchor": beside})
    return found


def figures(samples: Samples, versions: Mapping[str, str], plain: NDArray[np.bool_]) -> dict[str, Any]:
    """Times of aidre by mode, and of each other engine as multiples of them; `plain` marks questions without codes."""
    ours = {mode: percentiles(turns) for mode, turns in samples[OURS].items()}
    if plain.any():
        ours |= {f"{mode}, no codes": percentiles(samples[OURS][mode], plain) for mode in ("words", "hybrid")}
    middle = {mode: row["p50 us"] for mode, row in ours.items()}
    found: dict[str, Any] = {
        "hybrid_over_words_and_vectors": round(middle["hybrid"] / (middle["words"] + middle["vectors"]), 3),
        "aidre": ours,
        "times_of_aidre": {},
    }
    for name, modes in samples.items():
        for mode, turns in modes.items() if name != OURS else ():
            label = f"{name.removesuffix(' words')} {versions[name]}, {mode}"
            found["times_of_aidre"][label] = {**beside(turns), **percentiles(turns)}
    return found


def percentiles(turns: Sequence[Mapping[str, Any]], chosen: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """Of the processor's time, all turns together, or the chosen questions."""
    times = np.concatenate([turn["processor_us"] for turn in turns])
    times = times if chosen is None else times[chosen]
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50 us": round(float(p50), 1), "p99 us": round(float(p99), 1), "p99 / p50": round(float(p99 / p50), 2)}


def beside(turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Medians over those of aidre, by the clock and of the processor's time, and the hits that both have."""
    rows: dict[str, str] = {}
    for title, name in (("time", "microseconds"), ("processor time", "processor_us")):
        upper, lower = ([median(one[name]) for one in side] for side in (turns, [one["anchor"] for one in turns]))
        rows[title] = str(ratio(upper, lower))
    pairs = [pair for one in turns for pair in zip(one["rows"], one["anchor"]["rows"], strict=True)]
    rows["shared"] = figure(float(np.mean([len(set(a) & set(b)) / max(1, len(b)) for a, b in pairs])))
    return rows


if __name__ == "__main__":
    sys.exit(main())
