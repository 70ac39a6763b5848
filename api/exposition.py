"""GET /metrics: what was counted and what the store holds, as the text that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Caller, caller_of
from aidre.api.metrics import BOUNDS, DROPPED, IN_FLIGHT, QUEUED, SUM, Metrics, Numbers, Worker
from aidre.api.retrieve import Retrieval
from aidre.api.scrubbing import Findings
from aidre.api.settings import Protocol
from aidre.engine.filters import parse_instant
from aidre.engine.schema import index_among, keys_file, vectors_file
from aidre.engine.snapshot import Snapshot
from aidre.ingest.checks import oldest_checks

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Sample: TypeAlias = tuple[Mapping[str, str], float]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


async def show(request: Request) -> Response:
    metrics: Metrics = request.app.state.metrics
    retrieval: Retrieval = request.app.state.retrieval
    found: Findings = request.app.state.scrubber.findings
    body = await asyncio.to_thread(exposed, metrics, retrieval, caller_of(request), found)
    return Response(body, 200, {"Cache-Control": "no-store"}, MEDIA_TYPE)


def exposed(metrics: Metrics, retrieval: Retrieval, caller: Caller, found: Findings) -> bytes:
    """Everything, with the collections that this caller may see; of others no name and no figure."""
    workers = metrics.workers()
    opened = retrieval.live.collections
    names = {name for protocol in _listing(caller) for name in retrieval.names(caller, protocol)}
    seen = [opened[name].snapshot for name in sorted(names & opened.keys())]
    snapshots = [snapshot for snapshot in seen if snapshot is not None]
    damaged = sum(collection.problem is not None for collection in opened.values())
    checks = oldest_checks(retrieval.live.store.path)
    collections = of_collections(snapshots, checks, damaged=damaged)
    return text([*counted(metrics, workers), *of_processes(workers), *collections, *of_scrub(found)])


def _listing(caller: Caller) -> tuple[Protocol, ...]:
    """The protocols by whose collections a caller is told of them: strangers by those that list collections."""
    return PROTOCOLS if caller.name else ("aidre", "nlweb")


def counted(metrics: Metrics, workers: Iterable[Worker]) -> Iterator[str]:
    """The lines of what the workers have counted."""
    total = metrics.total(workers)
    asked = [({"route": route}, metrics.route_seconds(total, route)) for route in metrics.routes]
    yield from family(
        "aidre_requests_total",
        "counter",
        "Requests that were answered, by route and status; status 0: the caller went away.",
        (
            ({"route": route, "status": status}, count)
            for route in metrics.routes
            for status, count in metrics.requests(total, route)
        ),
    )
    yield from histogram("aidre_request_seconds", "How long requests took, by route.", asked)
    staged = [
        ({"protocol": protocol, "stage": stage}, metrics.stage_seconds(total, protocol, stage))
        for protocol, stage in metrics.stages
    ]
    yield from histogram("aidre_stage_seconds", "How long parts of requests took: embed, search, render.", staged)
    refused = (({"code": code}, metrics.refusals(total, code)) for code in metrics.codes)
    yield from family("aidre_refusals_total", "counter", "Requests that were refused, by error code.", refused)
    yield from one("aidre_requests_in_flight", "gauge", "Requests that are being answered.", total[IN_FLIGHT])
    yield from one("aidre_queue_length", "gauge", "Texts that wait to be embedded.", total[QUEUED])
    lost = "Lines of the request log that could not be written."
    yield from one("aidre_log_lines_dropped_total", "counter", lost, total[DROPPED])


def of_processes(workers: Iterable[Worker]) -> Iterator[str]:
    """The lines about the processes themselves, as Linux tells them."""
    numbers = {"version": version("aidre"), "python": platform.python_version(), "faiss": version("faiss-cpu")}
    yield from family("aidre_build_info", "gauge", "What is running.", [(numbers, 1)])
    alive = sorted(worker.pid for worker in workers if worker.lives)
    yield from one("aidre_workers", "gauge", "Processes that serve.", len(alive))
    found = [({"worker": str(place)}, _process(pid)) for place, pid in enumerate(alive)]
    memory = [
        ({**labels, "kind": kind}, facts[name])
        for labels, facts in found
        for kind, name in (("anonymous", "RssAnon"), ("file", "RssFile"))
        if name in facts
    ]
    what = "Resident memory: of its own (anonymous), and pages of files, which the workers share."
    yield from family("aidre_worker_memory_bytes", "gauge", what, memory)
    for name, about, member in (
        ("aidre_worker_threads", "Threads.", "Threads"),
        ("aidre_worker_open_files", "Open files.", "Files"),
    ):
        yield from family(name, "gauge", about, [(labels, facts[member]) for labels, facts in found if member in facts])


def of_collections(snapshots: Iterable[Snapshot], checks: Mapping[str, float], damaged: int) -> Iterator[str]:
    """The lines about collections that the caller may see; `checks` is when the source that was looked at longest ago
    was looked at, by collection, in Unix time."""
    shown = [({"collection": one.collection.name}, one) for one in snapshots]
    yield from one("aidre_collections_damaged", "gauge", "Collections whose newest generation does not open.", damaged)
    for name, about, value in (
        ("generation", "Number of the generation that is served.", lambda one: one.generation),
        ("segments", "Segments.", lambda one: len(one.manifest.segments)),
        ("documents", "Documents.", lambda one: one.documents),
        ("chunks", "Chunks.", lambda one: one.chunks),
        ("deleted_chunks", "Chunks that are deleted and still on disk.", _deleted),
        ("warnings", "Derived files that were rebuilt in memory or bypassed.", lambda one: len(one.warnings)),
    ):
        yield from family(f"aidre_collection_{name}", "gauge", about, [(labels, value(one)) for labels, one in shown])
    updated = [(labels, (parse_instant(one.collection.updated_at) or 0) / 1e6) for labels, one in shown]
    yield from family("aidre_collection_updated_seconds", "gauge", "Unix time of the newest generation.", updated)
    now = time.time()
    ages = [
        (labels, max(0.0, now - checks[one.collection.name])) for labels, one in shown if one.collection.name in checks
    ]
    what = "Since the source that was looked at longest ago was looked at."
    yield from family("aidre_collection_source_check_age_seconds", "gauge", what, ages)
    yield from _of_spaces(shown)


def of_scrub(found: Findings) -> Iterator[str]:
    """The lines about what has been damaged since it was opened; no file is named."""
    kinds = (("truth", False), ("derived", True))
    counts = [({"kind": kind}, sum(one.derived is derived for one in found.problems)) for kind, derived in kinds]
    yield from family("aidre_scrub_damaged_files", "gauge", "Files that the scrub has found damaged.", counts)
    what = "Unix time at which the scrub had read all files last; 0 before."
    yield from one("aidre_scrub_passed_seconds", "gauge", what, found.passed)


def _deleted(snapshot: Snapshot) -> int:
    return sum(entry.deleted_chunks for entry in snapshot.manifest.segments)


def _of_spaces(shown: Iterable[tuple[dict[str, str], Snapshot]]) -> Iterator[str]:
    sizes: list[Sample] = []
    recalls: list[Sample] = []
    kinds: list[Sample] = []
    for labels, snapshot in shown:
        entries = snapshot.manifest.segments
        for state in snapshot.manifest.spaces:
            named = {**labels, "space": state.space.id}
            for file, names in (
                ("vectors", {vectors_file(state.space.id)}),
                ("index", {index_among(entry.files, state.space.id) for entry in entries}),
                ("keys", {keys_file(state.space.id)}),
            ):
                size = sum(held.size for entry in entries for name, held in entry.files.items() if name in names)
                sizes.append(({**named, "file": file}, size))
            found = state.calibration
            kind = found.kind if found is not None and state.state == "live" else "exact"
            kinds.append(({**named, "kind": kind if state.state == "live" else state.state}, 1))
            for depth in found.depths if found is not None and kind == "scan" else ():
                at = {**named, "results": str(depth.results)}
                recalls += [({**at, "statistic": "mean"}, depth.mean), ({**at, "statistic": "p5"}, depth.p5)]
    what = "Memory that is mapped for a space; what of it is resident is up to the system."
    yield from family("aidre_space_bytes", "gauge", what, sizes)
    yield from family("aidre_space_search", "gauge", "How a space is searched: scan, exact, or not yet.", kinds)
    what = "Recall at so many results, measured when the index was calibrated; an exact search has 1 and none here."
    yield from family("aidre_space_recall", "gauge", what, recalls)


# -- the format ------------------------------------------------------------------------------------------------------


def family(name: str, kind: Kind, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    """What it is, and its samples."""
    yield from _heading(name, kind, about)
    yield from (_line(name, labels, value) for labels, value in samples)


def one(name: str, kind: Kind, about: str, value: float) -> Iterator[str]:
    """A metric without labels."""
    return family(name, kind, about, [({}, value)])


def histogram(name: str, about: str, asked: Iterable[tuple[Mapping[str, str], Numbers]]) -> Iterator[str]:
    """Cumulative buckets, sum and count; nothing of what never happened."""
    yield from _heading(name, "histogram", about)
    for labels, numbers in asked:
        counts = list(accumulate(numbers[:SUM].tolist()))
        if counts[-1]:
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                yield _line(f"{name}_bucket", {**labels, "le": bound}, count)
            yield _line(f"{name}_sum", labels, float(numbers[SUM]))
            yield _line(f"{name}_count", labels, counts[-1])


def _heading(name: str, kind: Kind, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
    number = str(int(value)) if float(value).is_integer() else repr(float(value))
    return f"{name}{{{said}}} {number}" if said else f"{name} {number}"


def text(lines: Iterable[str]) -> bytes:
    """All lines as one answer."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


# -- processes -------------------------------------------------------------------------------------------------------


def _process(pid: int) -> dict[str, float]:
    """What /proc says of a process; less, or nothing, where there is none or it does not tell."""
    facts: dict[str, float] = {}
    folder = Path("/proc") / str(pid)
    try:
        for line in (folder / "status").read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            number, _, unit = value.strip().partition(" ")
            if name in {"RssAnon", "RssFile", "Threads"} and number.isdigit():
                facts[name] = int(number) * (1024 if unit == "kB" else 1)
        facts["Files"] = sum(1 for _ in (folder / "fd").iterdir())
    except OSError:
        pass
    return facts


routes = [Route("/metrics", show, methods=["GET"])]
