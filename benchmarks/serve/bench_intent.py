"""Cost of a receipt: a retrieve of Agentic Intent against the same AIDRE search, and against one fsync.

    python -m benchmarks intent [--rounds N] [--folder DIR] [--update-readme]

The corpus is the documented functions of each module of the standard library, one document per module, embedded by the
default model. One server answers over one keep-alive connection, in turns: a search for ten chunks with their texts,
and a signed retrieve of ten chunks in a new session. Every question is asked unchanged (*cached*: its embedding is
cached) and with a random suffix (*new*: it is not). In between, a record of the size of an access event is appended to
a file on the same file system and synced. Times are median milliseconds; a ratio compares medians of the same run:
retrieve without the fsync, over search.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.harness.commands import ingest, server, until_answered
from benchmarks.harness.stdlib_corpus import Function, functions
from benchmarks.report.results import record
from benchmarks.serve.questions import signed_retrieve

QUESTIONS = 60
RESULTS = 10
COLLECTION, DOMAIN = "modules", "python.library"
KEY, SECRET = "bench", "the secret of a benchmark"
CONFIGURATION = f"""
[intent]
enabled = true
max_chunks = {RESULTS}
[intent.editorial_domains."{DOMAIN}"]
collection = "{COLLECTION}"
[intent.keys]
{KEY} = "{SECRET}"
"""
JSON = {"Content-Type": "application/json"}

Members = dict[str, Any]
Ask = Callable[[http.client.HTTPConnection, str], float]
"""Asks one question; returns the latency in milliseconds."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_intent", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="parent of the temporary store")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = measure(Path(folder), options.rounds)
    print(json.dumps(figures))
    record("bench_intent", figures, readme=options.update_readme)
    return 0


def measure(folder: Path, rounds: int) -> Members:
    """Serves a store built in `folder` and measures it."""
    store, config = folder / "store", folder / "aidre.toml"
    documented = functions()
    config.write_text(CONFIGURATION)
    make_store(store, folder / "modules.jsonl", documented)
    questions = [each.summary for each in documented[:: len(documented) // QUESTIONS]]
    ways: Mapping[str, Ask] = {"search": search, "retrieve": retrieve}
    times: dict[str, list[float]] = {}
    with server(["--store", store, "--config", config], 1) as (_, port), Disk(folder) as disk:
        until_answered(port, json.dumps({"query": questions[0]}).encode())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for round_ in range(rounds + 1):
            for question in questions:
                for name, way in ways.items():  # interleaved, so that a disturbance affects both alike
                    taken = {
                        f"{name} cached": way(connection, question),
                        f"{name} new": way(connection, f"{question} {secrets.token_hex(4)}"),
                        "fsync": disk.append(),
                    }
                    if round_:
                        for series, milliseconds in taken.items():
                            times.setdefault(series, []).append(milliseconds)
    return _figures(times)


def make_store(store: Path, rows: Path, documented: Sequence[Function]) -> None:
    with rows.open("w", encoding="utf-8") as file:
        for module, group in groupby(documented, lambda each: each.name.partition(":")[0]):
            text = "\n\n".join(f"{each.summary}\n\n{each.source}" for each in group)
            url = f"https://docs.python.org/3/library/{module}.html"
            file.write(json.dumps({"id": module, "title": module, "url": url, "text": text}) + "\n")
    ingest([rows, "--store", store, "--collection", COLLECTION])


class Disk:
    """Measures one append and fdatasync on the file system of the store: the lower bound of an access event."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __enter__(self) -> Disk:
        return self

    def append(self) -> float:
        started = time.perf_counter()
        os.write(self._file, EVENT)
        os.fdatasync(self._file)
        return 1000 * (time.perf_counter() - started)

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


EVENT = b"e" * 360
"""Roughly the size of an access event."""


def search(connection: http.client.HTTPConnection, question: str) -> float:
    body = json.dumps({"query": question, "top_k": RESULTS, "return": {"text": True}}).encode()
    taken, answer = _posted(connection, "/search", body, JSON)
    if len(answer["results"]) != RESULTS:
        raise SystemExit(f"/search returned {len(answer['results'])} chunks")
    return taken


def retrieve(connection: http.client.HTTPConnection, question: str) -> float:
    """Latency of a signed retrieve, without the time of signing."""
    body, fields = signed_retrieve(question, DOMAIN, KEY, SECRET)
    taken, answer = _posted(connection, "/aip/retrieve", body, {**JSON, **fields})
    if answer["status"] != "ok":
        raise SystemExit(f"/aip/retrieve answered {answer}")
    return taken


def _posted(
    connection: http.client.HTTPConnection, path: str, body: bytes, headers: Mapping[str, str]
) -> tuple[float, Members]:
    started = time.perf_counter()
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    content = response.read()
    taken = 1000 * (time.perf_counter() - started)
    if response.status != 200:
        raise SystemExit(f"{path} answered {response.status}")
    answer: Members = json.loads(content)
    return taken, answer


def _figures(times: Mapping[str, Sequence[float]]) -> Members:
    medians = {name: median(taken) for name, taken in times.items()}
    found: Members = {"fsync_p50_ms": round(medians["fsync"], 3)}
    for asked in ("cached", "new"):
        searched, retrieved = f"search {asked}", f"retrieve {asked}"
        beyond = [one - medians["fsync"] for one in times[retrieved]]
        ratios = [one / other for one, other in zip(beyond, times[searched], strict=True)]
        found |= {
            f"search_{asked}_p50_ms": round(medians[searched], 2),
            f"retrieve_{asked}_p50_ms": round(medians[retrieved], 2),
            f"retrieve_{asked}_without_fsync_over_search": round(
                (medians[retrieved] - medians["fsync"]) / medians[searched], 2
            ),
            f"retrieve_{asked}_ratio_quartiles": [round(one, 2) for one in quantiles(ratios, n=4)[::2]],
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
