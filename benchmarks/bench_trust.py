"""What trust costs a request: access, limits, metrics, log and signatures, as layers around one constant answer.

    python -m benchmarks.bench_trust [--rounds N] [--bytes N] [--update-readme]

The answer is made once, so what is measured is the layer alone: the time of this thread with it less the time without
it, in microseconds, as medians over rounds in which all take turns. `guard_us` knows a key, counts in its bucket and
holds a place among the requests that are answered at once, beyond a server that knows no keys and has no limits at all;
`budget_us` counts the ten chunks of an answer, where that is on; `trusted_us` is guard, metrics and log together, as a
server has them, and `trusted_signed_us` what the signature adds to that. `signature_us` is a signed answer in all; of
it `ed25519_us` is the signing of as many bytes alone, and `signature_over_ed25519` the ratio of the two, which holds on
a slow machine too. `chunk_us` is the signature of a chunk that was asked for before.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.frame import Frame
from aidre.api.guard.budget import ChunkBudget
from aidre.api.guard.guard import Guard
from aidre.api.logs import RequestLog
from aidre.api.metrics import Metrics
from aidre.api.provenance.answers import AnswerSigner, SignedAnswers
from aidre.api.provenance.chunks import ChunkSigner, Claims
from aidre.api.provenance.keys import Ring, make_key
from aidre.api.settings import parse_settings
from aidre.api.watch import Watch
from aidre.engine.errors import AidreError
from benchmarks.report import record

CALLS = 500
BASE_BYTES = 420
"""About as long is what an answer's signature is made over."""
BASE_URL = "https://ai.example.com"
CLAIMS = Claims("docs", "doc#chunk_1", "sha256:" + "0" * 64, "https://example.com/doc", "2026-04-01T10:00:00Z")

SECRET = b"aidre_" + b"x" * 43
HEADERS = [
    (b"host", b"ai.example.com"),
    (b"content-type", b"application/aidre+json"),
    (b"content-length", b"42"),
    (b"authorization", b"Bearer " + SECRET),
]
OPEN = '[server]\nbase_url = "http://127.0.0.1:8000"\n'
GUARDED = f"""
[server]
base_url = "{BASE_URL}"
tls = "proxy"
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(SECRET).hexdigest()}"
collections = ["docs"]
rate = "1000000/second"
"""
IDS = [f"doc_{number}#chunk_1" for number in range(10)]


class Template:
    path = "/search"


class Unlimited(Guard):
    """Lets in as many at once as come."""

    def enter(self, path: str, method: str, receive: Receive) -> None:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_trust", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--bytes", type=int, default=3_000, help="of an answer")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.rounds, options.bytes))
    print(json.dumps(figures))
    record("bench_trust", figures, readme=options.update_readme)
    return 0


async def measure(folder: Path, rounds: int, size: int) -> dict[str, Any]:
    make_key(folder / "keys.pem", time.time())
    ring = Ring(folder / "keys.pem")
    metrics = Metrics(["/search"], ["aidre"], ["not_found"], folder)
    sink = os.open(os.devnull, os.O_WRONLY)
    log = RequestLog(sink, metrics.dropped, flush_seconds=0.0)
    answer = constant(b"x" * size)
    guards = {"open": Unlimited(parse_settings(OPEN)), "guarded": Guard(parse_settings(GUARDED), [folder])}
    frames = {name: Frame(answer, guard, _broken, _broken, ["*"]) for name, guard in guards.items()}
    trusted = Watch(frames["guarded"], metrics, log)
    layers: dict[str, ASGIApp] = {
        "nothing": answer,
        **frames,
        "trusted": trusted,
        "trusted and signed": Watch(SignedAnswers(frames["guarded"], AnswerSigner(ring, BASE_URL)), metrics, log),
        "metrics": Watch(answer, metrics),
        "metrics and log": Watch(answer, metrics, log),
        "signature": SignedAnswers(answer, AnswerSigner(ring, BASE_URL)),
    }
    sign, base = ring.signing.sign, b"x" * BASE_BYTES
    chunks = ChunkSigner(ring, BASE_URL, 86_400)
    verbs: dict[str, Callable[[], object]] = {"ed25519": lambda: sign(base), "chunk": lambda: chunks.sign(CLAIMS)}
    budget = ChunkBudget([folder], 1_000)

    def give() -> None:
        budget.check("key reader")
        budget.give("key reader", "docs", IDS)

    verbs["budget"] = give
    times: dict[str, list[float]] = {name: [] for name in (*layers, *verbs)}
    for round_ in range(rounds + 1):
        for name, layer in layers.items():
            taken = await asked(layer, HEADERS[:-1] if name == "open" else HEADERS)
            if round_:
                times[name].append(taken)
        for name, verb in verbs.items():
            taken = called(verb)
            if round_:
                times[name].append(taken)
        await log.close()  # a line that is dropped costs less than one that is written
    os.close(sink)
    metrics.close()
    budget.close()
    for guard in guards.values():
        await guard.close()
    return _figures(times)


def constant(body: bytes) -> ASGIApp:
    headers = [
        (b"cache-control", b"no-store"),
        (b"vary", b"Accept"),
        (b"content-type", b"application/aidre+json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", b"req_0123456789abcdef00"),
    ]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


async def asked(app: ASGIApp, headers: Sequence[tuple[bytes, bytes]]) -> float:
    """Microseconds of one request."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/search",
        "raw_path": b"/search",
        "query_string": b"",
        "headers": headers,
        "client": ("203.0.113.7", 40_000),
        "route": Template,
        "state": {"request_id": "req_0123456789abcdef00"},
    }
    began = time.thread_time()
    for _ in range(CALLS):
        await app(scope, _nothing, _drop)
    return (time.thread_time() - began) / CALLS * 1e6


def called(verb: Callable[[], object]) -> float:
    began = time.thread_time()
    for _ in range(CALLS):
        verb()
    return (time.thread_time() - began) / CALLS * 1e6


def _broken(request: Request, error: AidreError) -> Response:
    raise error


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _drop(message: Message) -> None: ...


def _figures(times: dict[str, list[float]]) -> dict[str, Any]:
    def beyond(name: str, other: str) -> float:
        return median(one - two for one, two in zip(times[name], times[other], strict=True))

    signature = beyond("signature", "nothing")
    return {
        "guard_us": round(beyond("guarded", "open"), 2),
        "budget_us": round(median(times["budget"]), 2),
        "trusted_us": round(beyond("trusted", "open"), 2),
        "trusted_signed_us": round(beyond("trusted and signed", "trusted"), 2),
        "metrics_us": round(beyond("metrics", "nothing"), 2),
        "log_us": round(beyond("metrics and log", "metrics"), 2),
        "signature_us": round(signature, 2),
        "ed25519_us": round(median(times["ed25519"]), 2),
        "signature_over_ed25519": round(signature / median(times["ed25519"]), 3),
        "chunk_us": round(median(times["chunk"]), 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
