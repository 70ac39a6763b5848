"""What monitoring asks: GET /healthz (the process is alive), GET /readyz (the store can be served), and GET /metrics,
counters of the workers and figures of the store in the text format of Prometheus (version 0.0.4).
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Caller, caller_of
from aidre.api.config import Protocol
from aidre.api.http import BUCKET_BOUNDS, DROPPED, IN_FLIGHT, JSON, QUEUED, SUM_OFFSET, Metrics, Numbers, WorkerCounters
from aidre.api.operations import fleet_status
from aidre.api.operations.scrubber import Findings
from aidre.api.operations.status_messages import Liveness, Readiness
from aidre.api.retrieval import Retrieval
from aidre.engine.errors import StorageFailed
from aidre.engine.index.fields import parse_instant
from aidre.engine.native import kernel_name
from aidre.engine.ports import Unpulled
from aidre.engine.types import CollectionStatus
from aidre.ingest.pipeline import oldest_read_times

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Sample: TypeAlias = tuple[Mapping[str, str], float]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
NO_STORE = {"Cache-Control": "no-store"}
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


async def alive(request: Request) -> Response:
    return Response(msgspec.json.encode(Liveness(status="ok")), 200, NO_STORE, JSON)


async def ready(request: Request) -> Response:
    """Ready while any collection can be served: a damaged one must not take the others offline."""
    status, body = readiness(request.app.state.retrieval, request.app.state.scrubber.damaged)
    age = request.app.state.replica_age
    if age is not None:
        snapshots = request.app.state.retrieval.snapshots
        opened = (collection for name, collection in snapshots.collections.items() if name not in snapshots.aliases)
        unpulled = sum(isinstance(collection.snapshot, Unpulled) for collection in opened)
        body = replace(body, replica_age=round(age(), 1), protocols=["aidre", "nlweb"], unpulled=unpulled or UNSET)
    return Response(msgspec.json.encode(body), status, NO_STORE, JSON)


def readiness(retrieval: Retrieval, damaged_since: Collection[str] = ()) -> tuple[int, Readiness]:
    """Status and body of /readyz. It names no collection, because the visibility of a damaged one cannot be read.

    `damaged_since` are the collections that opened, and in which the scrub found a damaged file later.
    """
    opened = retrieval.snapshots.collections
    damaged = sum(collection.problem is not None or name in damaged_since for name, collection in opened.items())
    serves = not opened or any(collection.snapshot is not None for collection in opened.values())
    if retrieval.snapshots.problem is not None or not serves:
        return 503, Readiness(status="unavailable", damaged=damaged)
    return 200, Readiness(status="degraded" if damaged else "ready", damaged=damaged)


# -- metrics ---------------------------------------------------------------------------------------------------------


async def show(request: Request) -> Response:
    metrics: Metrics = request.app.state.metrics
    retrieval: Retrieval = request.app.state.retrieval
    findings: Findings = request.app.state.scrubber.findings
    age: Callable[[], float] | None = request.app.state.replica_age
    body = await asyncio.to_thread(render_metrics, metrics, retrieval, caller_of(request), findings, age)
    return Response(body, 200, NO_STORE, MEDIA_TYPE)


def render_metrics(
    metrics: Metrics,
    retrieval: Retrieval,
    caller: Caller,
    findings: Findings,
    replica_age: Callable[[], float] | None = None,
) -> bytes:
    """All metrics, with those of the collections that the caller may see."""
    workers = metrics.workers()
    opened = retrieval.snapshots.collections
    names = {name for protocol in _listing(caller) for name in retrieval.collections.names(caller, protocol)}
    visible = [opened[name].snapshot for name in sorted(names & opened.keys())]
    snapshots = [snapshot for snapshot in visible if snapshot is not None]
    damaged = sum(collection.problem is not None for collection in opened.values())
    checks = oldest_read_times(retrieval.snapshots.source.path)
    statuses = []
    for snapshot in snapshots:
        with suppress(StorageFailed):  # an engine that does not answer: the other metrics are wanted all the more
            statuses.append(snapshot.status())
    collections = collection_lines(statuses, checks, damaged=damaged)
    path, generations = (
        retrieval.snapshots.source.path,
        {status["collection"]: status["generation"] for status in statuses},
    )
    counted = [*counter_lines(metrics, workers), *process_lines(workers), *disk_lines(path)]
    return join_lines([*counted, *collections, *scrub_lines(findings), *fleet_lines(path, generations, replica_age)])


def disk_lines(store: Path) -> Iterator[str]:
    """The room that is left where the store is."""
    with suppress(OSError):
        status = os.statvfs(store)
        what = "Free bytes of the file system of the store, for those who are not root."
        yield from single("aidre_disk_free_bytes", "gauge", what, status.f_bavail * status.f_frsize)


def _listing(caller: Caller) -> tuple[Protocol, ...]:
    """The protocols whose collections are reported: to anonymous callers only those that list collections anyway."""
    return PROTOCOLS if caller.name else ("aidre", "nlweb")


def counter_lines(metrics: Metrics, workers: Iterable[WorkerCounters]) -> Iterator[str]:
    """The counters of all workers."""
    total = metrics.total(workers)
    latencies = [({"route": route}, metrics.route_seconds(total, route)) for route in metrics.routes]
    yield from family(
        "aidre_requests_total",
        "counter",
        "Answered requests by route and status; status 0: the client disconnected.",
        (
            ({"route": route, "status": status}, count)
            for route in metrics.routes
            for status, count in metrics.requests(total, route)
        ),
    )
    yield from histogram("aidre_request_seconds", "Latency of requests by route.", latencies)
    staged = [
        ({"protocol": protocol, "stage": stage}, metrics.stage_seconds(total, protocol, stage))
        for protocol, stage in metrics.stages
    ]
    yield from histogram("aidre_stage_seconds", "Latency of the stages of requests: embed, search, render.", staged)
    refused = (({"code": code}, metrics.refusals(total, code)) for code in metrics.codes)
    yield from family("aidre_refusals_total", "counter", "Rejected requests by error code.", refused)
    yield from single("aidre_requests_in_flight", "gauge", "Requests in progress.", total[IN_FLIGHT])
    yield from single("aidre_queue_length", "gauge", "Texts queued for embedding.", total[QUEUED])
    lost = "Lines of the request log that were dropped."
    yield from single("aidre_log_lines_dropped_total", "counter", lost, total[DROPPED])
    what = "Workers that ended by themselves or were killed, and were replaced."
    yield from single("aidre_worker_restarts_total", "counter", what, metrics.restarts)


def process_lines(workers: Iterable[WorkerCounters]) -> Iterator[str]:
    """Figures of the processes, from /proc."""
    numbers = {
        "version": version("aidre"),
        "python": platform.python_version(),
        "faiss": version("faiss-cpu"),
        "kernel": kernel_name(),
    }
    what = "Versions of the running software, and the kernel that compares vectors: its instruction set, or faiss."
    yield from family("aidre_build_info", "gauge", what, [(numbers, 1)])
    alive = sorted(worker.pid for worker in workers if worker.is_alive)
    yield from single("aidre_workers", "gauge", "Worker processes.", len(alive))
    processes = [({"worker": str(number)}, _process(pid)) for number, pid in enumerate(alive)]
    memory = [
        ({**labels, "kind": kind}, facts[name])
        for labels, facts in processes
        for kind, name in (("anonymous", "RssAnon"), ("file", "RssFile"))
        if name in facts
    ]
    what = "Resident memory: anonymous, and file pages, which the workers share."
    yield from family("aidre_worker_memory_bytes", "gauge", what, memory)
    for name, about, member in (
        ("aidre_worker_threads", "Threads.", "Threads"),
        ("aidre_worker_open_files", "Open files.", "Files"),
    ):
        yield from family(
            name, "gauge", about, [(labels, facts[member]) for labels, facts in processes if member in facts]
        )


def collection_lines(statuses: Iterable[CollectionStatus], checks: Mapping[str, float], damaged: int) -> Iterator[str]:
    """Figures of the collections that the caller may see; `checks` is the Unix time at which the least recently read
    source of each collection was read."""
    labelled = [({"collection": status["collection"]}, status) for status in statuses]
    yield from single(
        "aidre_collections_damaged", "gauge", "Collections whose newest generation does not open.", damaged
    )
    for name, about, value in (
        ("generation", "The served generation.", lambda status: status["generation"]),
        ("segments", "Segments.", lambda status: status["segments"]),
        ("documents", "Documents.", lambda status: status["documents"]),
        ("chunks", "Chunks.", lambda status: status["chunks"]),
        ("deleted_chunks", "Deleted chunks that are still on disk.", lambda status: status["deleted_chunks"]),
        ("warnings", "Derived files that were rebuilt in memory or bypassed.", lambda status: len(status["warnings"])),
    ):
        yield from family(
            f"aidre_collection_{name}", "gauge", about, [(labels, value(each)) for labels, each in labelled]
        )
    updated = [(labels, (parse_instant(each["updated_at"]) or 0) / 1e6) for labels, each in labelled]
    yield from family("aidre_collection_updated_seconds", "gauge", "Unix time of the newest generation.", updated)
    now = time.time()
    ages = [
        (labels, max(0.0, now - checks[each["collection"]]))
        for labels, each in labelled
        if each["collection"] in checks
    ]
    what = "Age of the least recently read source."
    yield from family("aidre_collection_source_check_age_seconds", "gauge", what, ages)
    yield from _space_lines(labelled)


def scrub_lines(findings: Findings) -> Iterator[str]:
    """Damage found by the scrub; files are not named."""
    kinds = (("truth", False), ("derived", True))
    counts = [
        ({"kind": kind}, sum(problem.derived is derived for problem in findings.problems)) for kind, derived in kinds
    ]
    yield from family("aidre_scrub_damaged_files", "gauge", "Files that the scrub has found damaged.", counts)
    what = "Unix time at which the last complete scrub ended; 0 before the first."
    yield from single("aidre_scrub_passed_seconds", "gauge", what, findings.passed)


def fleet_lines(store: Path, generations: Mapping[str, int], replica_age: Callable[[], float] | None) -> Iterator[str]:
    """Of a replica, or of a home node that publishes."""
    if replica_age is not None:
        return replica_lines(
            replica_age(), fleet_status.read_state(store, fleet_status.PULLS, fleet_status.PullStatus), generations
        )
    return publish_lines(fleet_status.read_state(store, fleet_status.PUBLISHES, fleet_status.Publishing), generations)


def publish_lines(state: fleet_status.Publishing | None, generations: Mapping[str, int]) -> Iterator[str]:
    """`generations` are the newest ones of the store, of the collections that the caller may see."""
    if state is None:
        return
    what = "Unix time at which the bucket last took a publication, or a sign of life, of this home node."
    yield from single("aidre_publish_last_success_timestamp_seconds", "gauge", what, state.succeeded_at)
    if state.succeeded is not None:
        what = "Seconds since then, by a clock that nobody sets."
        yield from single("aidre_publish_age_seconds", "gauge", what, fleet_status.age(state, state.succeeded))
    what = "Attempts to publish that failed."
    yield from single("aidre_publish_failures_total", "counter", what, state.failures)
    followed = {name: number for name, number in generations.items() if state.only in (None, name)}
    what = "Generations that were committed and are not published."
    yield from family("aidre_publish_lag_generations", "gauge", what, _lags(followed, state.published))


def replica_lines(
    seconds: float, state: fleet_status.PullStatus | None, generations: Mapping[str, int]
) -> Iterator[str]:
    """`seconds` is the age; `generations` are those that are served, of the collections that the caller may see."""
    what = "Seconds since the bucket of this replica was last read without a problem."
    yield from single("aidre_replica_age_seconds", "gauge", what, seconds)
    if state is None or state.heard is None:
        return
    what = "Seconds since the publisher of this replica gave its last sign of life."
    yield from single("aidre_replica_publisher_age_seconds", "gauge", what, fleet_status.age(state, state.heard))
    what = "Seconds since the publisher named a generation that this replica lacks."
    behind = 0.0 if state.behind is None else fleet_status.age(state, state.behind)
    yield from single("aidre_replica_lag_seconds", "gauge", what, behind)
    what = "Generations that the publisher has committed and this replica does not serve."
    known = {name: number for name, number in state.committed.items() if name in generations}
    yield from family("aidre_replica_lag_generations", "gauge", what, _lags(known, generations))


def _lags(wanted: Mapping[str, int], found: Mapping[str, int]) -> Iterable[tuple[Mapping[str, str], float]]:
    return [({"collection": name}, max(0, number - found.get(name, 0))) for name, number in sorted(wanted.items())]


def _space_lines(labelled: Iterable[tuple[dict[str, str], CollectionStatus]]) -> Iterator[str]:
    sizes: list[Sample] = []
    recalls: list[Sample] = []
    kinds: list[Sample] = []
    for labels, status in labelled:
        for space in status["spaces"]:
            named = {**labels, "space": space["id"]}
            sizes += [({**named, "file": file}, size) for file, size in space["bytes"].items()]
            calibration, is_live = space["calibration"] or {"kind": "exact", "depths": ()}, space["state"] == "live"
            kinds.append(({**named, "kind": calibration["kind"] if is_live else space["state"]}, 1))
            for depth in calibration["depths"] if is_live and calibration["kind"] != "exact" else ():
                at = {**named, "results": str(depth["results"])}
                recalls += [({**at, "statistic": "mean"}, depth["mean"]), ({**at, "statistic": "p5"}, depth["p5"])]
    what = "Mapped bytes of a space; the system decides how many are resident."
    yield from family("aidre_space_bytes", "gauge", what, sizes)
    yield from family("aidre_space_search", "gauge", "How a space is searched: scan, exact, or building.", kinds)
    what = "Recall by number of results, measured at calibration; exact spaces, whose recall is 1, have none."
    yield from family("aidre_space_recall", "gauge", what, recalls)


# -- the format ------------------------------------------------------------------------------------------------------


def family(name: str, kind: Kind, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    """One metric family: help, type and samples."""
    yield from _heading(name, kind, about)
    yield from (_line(name, labels, value) for labels, value in samples)


def single(name: str, kind: Kind, about: str, value: float) -> Iterator[str]:
    """A metric without labels."""
    return family(name, kind, about, [({}, value)])


def histogram(name: str, about: str, series: Iterable[tuple[Mapping[str, str], Numbers]]) -> Iterator[str]:
    """Cumulative buckets, sum and count; label sets without observations are left out."""
    yield from _heading(name, "histogram", about)
    for labels, numbers in series:
        counts = list(accumulate(numbers[:SUM_OFFSET].tolist()))
        if counts[-1]:
            for bound, count in zip((*map(str, BUCKET_BOUNDS), "+Inf"), counts, strict=True):
                yield _line(f"{name}_bucket", {**labels, "le": bound}, count)
            yield _line(f"{name}_sum", labels, float(numbers[SUM_OFFSET]))
            yield _line(f"{name}_count", labels, counts[-1])


def _heading(name: str, kind: Kind, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    rendered = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
    number = str(int(value)) if float(value).is_integer() else repr(float(value))
    return f"{name}{{{rendered}}} {number}" if rendered else f"{name} {number}"


def join_lines(lines: Iterable[str]) -> bytes:
    """All lines as the body of an answer."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


# -- processes -------------------------------------------------------------------------------------------------------


def _process(pid: int) -> dict[str, float]:
    """Figures of a process from /proc; incomplete or empty if they cannot be read."""
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


routes = [
    Route("/healthz", alive, methods=["GET"]),
    Route("/readyz", ready, methods=["GET"]),
    Route("/metrics", show, methods=["GET"]),
]
