"""Latency of NLWeb `/ask` against AIDRE `/search`: one server, the same questions, side by side.

    python -m benchmarks ask [--rounds N] [--folder DIR] [--update-readme]

The corpus is the documented functions of the standard library as schema.org objects, embedded by the default model.
A warm-up round asks every question once, so that its embedding is cached: the remaining difference is retrieval by
document, building the items, and the summary. Both sides return ten results over one keep-alive connection. Times are
median milliseconds; a ratio compares two medians of the same run.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.commands import ingest, server, until_answered
from benchmarks.harness.stdlib_corpus import functions
from benchmarks.report.results import record

QUESTIONS = 60
COLLECTION = "functions"

Ask = Callable[[http.client.HTTPConnection, str], float]
"""Asks one question; returns the latency in milliseconds."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_ask", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="parent of the temporary store")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = measure(Path(folder), options.rounds)
    print(json.dumps(figures))
    record("bench_ask", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Serves a store built in `folder` and measures it."""
    documented = functions()
    rows, store = folder / "functions.jsonl", folder / "store"
    with rows.open("w", encoding="utf-8") as file:
        for each in documented:
            item = {"@type": "APIReference", "@id": each.name, "name": each.name, "description": each.summary}
            file.write(json.dumps({**item, "text": f"{each.summary}\n\n{each.source}"}) + "\n")
    ingest([rows, "--store", store, "--collection", COLLECTION])
    questions = [each.summary for each in documented[:: len(documented) // QUESTIONS]]
    ways: dict[str, Ask] = {"search": search, "ask": ask, "ask with summary": summarize, "first result": stream}
    times: dict[str, list[float]] = {name: [] for name in ways}
    with server(["--store", store], 1) as (_, port):
        until_answered(port, json.dumps({"query": questions[0]}).encode())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for round_ in range(rounds + 1):
            for question in questions:
                for name, way in ways.items():  # interleaved, so that a disturbance affects all requests alike
                    taken = way(connection, question)
                    if round_:
                        times[name].append(taken)
    return _figures(times)


def _figures(times: dict[str, list[float]]) -> dict[str, Any]:
    medians = {name: median(taken) for name, taken in times.items()}
    return {
        "search_p50_ms": round(medians["search"], 2),
        "ask_p50_ms": round(medians["ask"], 2),
        "ask_over_search": round(medians["ask"] / medians["search"], 2),
        "first_stream_result_p50_ms": round(medians["first result"], 2),
        "summary_adds_p50_ms": round(medians["ask with summary"] - medians["ask"], 2),
    }


def search(connection: http.client.HTTPConnection, question: str) -> float:
    returned = {"text": True, "semantic_payload": True}
    return _posted(connection, "/search", {"query": question, "top_k": 10, "return": returned})


def ask(connection: http.client.HTTPConnection, question: str) -> float:
    return _posted(connection, "/ask", {"query": {"text": question, "limit": 10}})


def summarize(connection: http.client.HTTPConnection, question: str) -> float:
    prefer = {"mode": "list, summarize"}
    return _posted(connection, "/ask", {"query": {"text": question, "limit": 10}, "prefer": prefer})


def stream(connection: http.client.HTTPConnection, question: str) -> float:
    """Milliseconds until the first result event of the stream."""
    body = json.dumps({"query": {"text": question, "limit": 10}, "prefer": {"streaming": True}})
    started = time.perf_counter()
    connection.request("POST", "/ask", body, {"Content-Type": "application/json", "Accept": "text/event-stream"})
    response = connection.getresponse()
    taken = 0.0
    for line in response:
        if line.startswith(b"event: result") and not taken:
            taken = 1000 * (time.perf_counter() - started)
    return taken or 1000 * (time.perf_counter() - started)


def _posted(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> float:
    started = time.perf_counter()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    taken = 1000 * (time.perf_counter() - started)
    if response.status != 200:
        raise SystemExit(f"{path} answered {response.status}")
    return taken


if __name__ == "__main__":
    sys.exit(main())
