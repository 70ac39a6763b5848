"""Per-request cost of access control, limits, metrics, log and signatures: middleware around a constant answer.

    python -m benchmarks trust [--rounds N] [--bytes N] [--guess-rounds N] [--update-readme]

The answer is precomputed, so a figure is the cost of the middleware alone: thread time with it minus thread time
without it, in microseconds, as the median over interleaved rounds. `frame_us` is all that a request costs without keys,
limits and log: its id, its origin, its counts. `guard_us` authenticates a key, takes a token from its bucket and counts
towards the concurrency limit, beyond that. `budget_us` charges the ten chunks of an answer to the daily budget, if one
is configured. `log_us` is the access log, `signature_us` the whole signature of an answer, both in the guarded frame;
`ed25519_us` is the bare signing of as many bytes; `signature_over_ed25519` their ratio, which is comparable between
machines. `chunk_us` is the cached signature of a chunk.

`guesses_right` says what the time of an answer tells about the questions of others: one key asks 20 of 40 questions,
then another asks all 40 and takes the 20 fastest answers for those asked before. It is the mean number of right guesses
of 40; 20 are chance. `own_guesses_right` is the same with one key for both, whose questions are cached: a control that
the method finds what there is to find.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aidre.api.access.guard import Guard
from aidre.api.access.limits.chunk_budget import ChunkBudget
from aidre.api.access.web_origins import WebOrigins
from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.api.http.access_log import AccessLog
from aidre.api.http.metrics import Metrics
from aidre.api.protocols.provenance.answers import AnswerSigner, signed_headers
from aidre.api.protocols.provenance.keys import KeyRing, make_key
from aidre.api.protocols.provenance.signers import ChunkClaims, ChunkSigner
from aidre.api.server.frame import FrameMiddleware, RequestFrame
from aidre.api.server.mounted import ErrorResponses
from aidre.engine.collection import Store
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.embedding.embedder import embedding_keys, load_embedder
from aidre.engine.errors import AidreError
from aidre.engine.model import Chunk, Document, Record
from benchmarks.report.results import record

CALLS = 500
BASE_BYTES = 420
"""Approximate length of the signature base of an answer."""
BASE_URL = "https://ai.example.com"
CLAIMS = ChunkClaims("docs", "doc#chunk_1", "sha256:" + "0" * 64, "https://example.com/doc", "2026-04-01T10:00:00Z")

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
    """A guard without a concurrency limit."""

    def enter(self, path: str, method: str, receive: Receive) -> None:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_trust", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--bytes", type=int, default=3_000, help="size of the answer body")
    parser.add_argument("--guess-rounds", type=int, default=10, help="rounds of 40 guesses")
    parser.add_argument("--update-readme", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.rounds, options.bytes))
        figures |= asyncio.run(measure_guesses(Path(folder), options.guess_rounds))
    print(json.dumps(figures))
    record("bench_trust", figures, readme=options.update_readme)
    return 0


async def measure(folder: Path, rounds: int, size: int) -> dict[str, Any]:
    make_key(folder / "keys.pem", time.time())
    ring = KeyRing(folder / "keys.pem")
    metrics = Metrics(["aidre"])
    metrics.declare(["/search"], ["not_found"], folder)
    sink = os.open(os.devnull, os.O_WRONLY)
    log = AccessLog(sink, metrics.add_dropped, flush_seconds=0.0)
    answer = constant(b"x" * size)
    guards = {"open": Unlimited(parse_settings(OPEN)), "guarded": Guard(parse_settings(GUARDED), [folder])}
    origins = WebOrigins(parse_settings(GUARDED))
    errors = ErrorResponses([], _broken)

    def framed(name: str, **options: Any) -> ASGIApp:
        return FrameMiddleware(answer, RequestFrame(guards[name], origins, errors, metrics, **options))

    layers: dict[str, ASGIApp] = {
        "nothing": answer,
        "open": framed("open"),
        "guarded": framed("guarded"),
        "logged": framed("guarded", log=log),
        "signed": framed("guarded", log=log, sign=partial(signed_headers, AnswerSigner(ring, BASE_URL))),
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
        await log.close()  # flush: a dropped line would cost less than a written one
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
    """Mean microseconds of thread time per request."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/search",
        "raw_path": b"/search",
        "query_string": b"",
        "headers": headers,
        "client": ("203.0.113.7", 40_000),
        "route": Template,
        "state": {},
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

    signature = beyond("signed", "logged")
    return {
        "frame_us": round(beyond("open", "nothing"), 2),
        "guard_us": round(beyond("guarded", "open"), 2),
        "budget_us": round(median(times["budget"]), 2),
        "log_us": round(beyond("logged", "guarded"), 2),
        "signature_us": round(signature, 2),
        "ed25519_us": round(median(times["ed25519"]), 2),
        "signature_over_ed25519": round(signature / median(times["ed25519"]), 3),
        "chunk_us": round(median(times["chunk"]), 2),
    }


GUESSES = 40
ASKERS = ("first", "second")
ASKERS_CONFIGURATION = "".join(
    f'[[keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n' for name in ASKERS
)


async def measure_guesses(folder: Path, rounds: int) -> dict[str, float]:
    """The mean number of right guesses of GUESSES whether a question was asked before, by another key and by this."""
    write_passages(folder / "store")
    app = create_app(Store(folder / "store"), parse_settings(ASKERS_CONFIGURATION))
    chance = random.Random(17)
    right: dict[str, list[int]] = {"guesses_right": [], "own_guesses_right": []}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000") as client:
        await seconds_of(client, "second", "the first question loads the model")
        for _ in range(rounds):
            right["guesses_right"].append(await count_right(client, chance, "first", "second"))
            right["own_guesses_right"].append(await count_right(client, chance, "second", "second"))
    app.state.retrieval.close()
    return {name: round(mean(counts), 1) for name, counts in right.items()}


def write_passages(folder: Path) -> None:
    texts = [f"Passage {number} is about the weather of day {number * 7 % 365}." for number in range(100)]
    records = [
        Record(
            Document(f"d{number}", text, updated_at="2026-04-01T10:00:00Z"),
            (Chunk(f"d{number}#chunk_1", 1, text, 0, len(text)),),
            hashlib.blake2b(text.encode(), digest_size=16).digest(),
        )
        for number, text in enumerate(texts)
    ]
    embedder = load_embedder(DEFAULT_SPACE)
    space = embedder.space
    with Store(folder).writer("docs", spaces=[space]) as writer:
        vectors = writer.encode(space.id, embedder.embed_documents(texts))
        writer.upsert(records, {space.id: vectors}, {space.id: embedding_keys(space, texts)})
        writer.commit()


async def count_right(client: httpx.AsyncClient, chance: random.Random, victim: str, attacker: str) -> int:
    """How many of GUESSES questions the attacker tells right, half of which the victim has asked."""
    questions = [f"what was the weather on the day {chance.getrandbits(40):x}" for _ in range(GUESSES)]
    asked_before = set(chance.sample(questions, GUESSES // 2))
    for question in asked_before:
        await seconds_of(client, victim, question)
    seconds = {question: await seconds_of(client, attacker, question) for question in questions}
    guessed = set(sorted(questions, key=seconds.__getitem__)[: GUESSES // 2])
    return sum((question in guessed) == (question in asked_before) for question in questions)


async def seconds_of(client: httpx.AsyncClient, key: str, question: str) -> float:
    began = time.perf_counter()
    response = await client.post("/search", json={"query": question}, headers={"authorization": f"Bearer {key}"})
    seconds = time.perf_counter() - began
    response.raise_for_status()
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
