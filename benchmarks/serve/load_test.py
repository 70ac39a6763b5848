"""A load test in growing steps: an open loop of text queries against a port of this machine, until it is too slow.

    python -m benchmarks.serve.load_test --port P --questions FILE [--rates R ...] [--seconds S] [--collection NAME]
                                   [--connections N] [--p99-ms MS] [--late-ms MS] [--errors SHARE]

FILE has one question a line. Each is asked in turn; a file with more questions than requests keeps the caches of the
server out of it. Requests are due at random (a Poisson process), and latency counts from the moment at which a request
was due. Ends after the first step whose 99th percentile or share of errors is beyond the bounds, with status 1. For a
balancer elsewhere forward a port: `ssh -N -L 8080:127.0.0.1:8080 balancer`, or run it there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.load import Load, request

RATES: Final = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="load_test", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--questions", type=Path, required=True, help="file with one question a line")
    parser.add_argument("--collection", help="default: that of the server")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="requests a second, one step each")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each step")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--p99-ms", type=float, default=200.0)
    parser.add_argument("--late-ms", type=float, default=5.0, help="how late the generator itself may be")
    parser.add_argument("--errors", type=float, default=0.001, help="share of answers that are not 2xx")
    options = parser.parse_args(argv)
    asked = [line for line in options.questions.read_text("utf-8").splitlines() if line.strip()]
    if not asked:
        print(f"load_test: {options.questions} has no question", file=sys.stderr)
        return 2
    requests = [search(question, options.collection) for question in asked]
    for rate in options.rates:
        step = measure(options.port, requests, rate, options.seconds, options.connections)
        print(json.dumps(step), flush=True)
        if reason := stops(step, options.p99_ms, options.late_ms, options.errors):
            print(f"load_test: stopped at {rate:g} a second: {reason}", file=sys.stderr)
            return 1
        requests = [*requests[step["answers"] % len(requests) :], *requests[: step["answers"] % len(requests)]]
    return 0


def search(question: str, collection: str | None) -> bytes:
    body = {"query": question, **({} if collection is None else {"collection": collection})}
    return request("POST", "/search", json.dumps(body).encode())


def measure(port: int, requests: Sequence[bytes], rate: float, seconds: float, connections: int) -> dict[str, Any]:
    with Load(port, connections) as load:
        samples = load.open(requests, seconds, rate, random=True)
    figures = {name: round(value, 3) for name, value in samples.figures().items()}
    return {"asked_rate": rate, "answers": len(samples.latencies), **figures}


def stops(step: dict[str, Any], p99_ms: float, late_ms: float, errors: float) -> str | None:
    """Why this step is the last, None where it is not."""
    if step["errors"] > errors * step["answers"]:
        return f"{step['errors']} of {step['answers']} answers are errors"
    if step["late_p99_ms"] > late_ms:
        return "the generator itself was late: run it on a machine of its own, with fewer requests a second each"
    if step["p99_ms"] > p99_ms:
        return f"the 99th percentile is {step['p99_ms']} ms"
    return None


if __name__ == "__main__":
    sys.exit(main())
