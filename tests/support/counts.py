"""TODO docstring."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from aidre.api.http.metrics import Metrics, Numbers
from aidre.api.operations import prometheus

ROUTES = ("/search", "/chunks/{id:path}")


CODES = ("not_found", "rate_limited")


def counting(folder: Path | None = None, routes: tuple[str, ...] = ROUTES) -> Metrics:
    metrics = Metrics(("aidre", "nlweb"))
    metrics.declare(routes, CODES, folder)
    return metrics


def answered(metrics: Metrics, route: str, status: int, seconds: float = 0.003, code: str | None = None) -> None:
    metrics.request_started()
    metrics.request_ended(route, status, seconds, code)


Samples = dict[str, float]


def samples(lines: Iterable[str]) -> Samples:
    """Every sample by its name and labels, as the parser of Prometheus' own client reads them."""
    found: Samples = {}
    for family in text_string_to_metric_families(prometheus.join_lines(lines).decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found
            found[key] = sample.value
    return found


def of(metrics: Metrics) -> Samples:
    return samples(prometheus.counter_lines(metrics, metrics.workers()))


def total(metrics: Metrics) -> Numbers:
    return metrics.total(metrics.workers())
