"""Counts of requests, and the samples that /metrics shows of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from aidre.api.http.metrics import Metrics, Numbers
from aidre.api.operations import monitoring
from tests.support import clients

ROUTES = ("/search", "/chunks/{id:path}")
CODES = ("not_found", "rate_limited")


def counting(folder: Path | None = None, routes: tuple[str, ...] = ROUTES) -> Metrics:
    metrics = Metrics(("aidre", "nlweb"))
    metrics.declare(routes, CODES, folder)
    return metrics


def answered(metrics: Metrics, route: str, status: int, seconds: float = 0.003, code: str | None = None) -> None:
    metrics.request_started()
    metrics.request_ended(route, status, seconds, code)


def samples(lines: Iterable[str]) -> dict[str, float]:
    return clients.samples(monitoring.join_lines(lines).decode())


def counted(metrics: Metrics) -> dict[str, float]:
    """What /metrics shows of the requests of all workers."""
    return samples(monitoring.counter_lines(metrics, metrics.workers()))


def total(metrics: Metrics) -> Numbers:
    return metrics.total(metrics.workers())
