"""The simulation of replicas: against what is known of queues, and what must hold of it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.report.simulation import Publication, Service, simulate

SERVICE = Service(3.0, 13.5, 19.0)
FEW = 4_000


def test_the_quantiles_of_what_is_drawn_are_those_given() -> None:
    drawn = 1e3 * SERVICE.draw((np.arange(100_000) + 0.5) / 100_000)
    assert np.quantile(drawn, (0.5, 0.99, 0.999)) == pytest.approx((3.0, 13.5, 19.0), rel=0.01)
    assert SERVICE.mean * 1e3 == pytest.approx(drawn.mean())


def test_without_load_a_request_takes_its_service_time() -> None:
    found = simulate(SERVICE, 1, 1.0, arrivals=FEW)
    assert found.p50 == pytest.approx(3.0, rel=0.05) and found.p99 == pytest.approx(13.5, rel=0.1)


def test_one_replica_waits_as_the_formula_of_pollaczek_and_khinchine_says() -> None:
    """At load r the mean wait is the rate times the mean of the squared service times, over 2 (1 - r)."""
    squared = float((SERVICE.draw((np.arange(100_000) + 0.5) / 100_000) ** 2).mean())
    rate = 0.5 / SERVICE.mean
    expected = rate * squared / (2 * (1 - 0.5))
    waits = simulate_mean(SERVICE, rate) - SERVICE.mean
    assert waits == pytest.approx(expected, rel=0.1)


def simulate_mean(service: Service, rate: float) -> float:
    from benchmarks.report import simulation

    rng = np.random.default_rng(1)
    due = np.cumsum(rng.exponential(1 / rate, 40_000))
    ends = simulation._answered(due, service.draw(rng.random(len(due))), np.array([np.inf]), None)
    return float((ends - due).mean())


def test_more_load_waits_longer_and_more_replicas_wait_shorter() -> None:
    by_rate = [simulate(SERVICE, 2, rate, arrivals=FEW).p99 for rate in (50, 200, 400)]
    assert by_rate == sorted(by_rate) and by_rate[0] < by_rate[-1]
    by_count = [simulate(SERVICE, count, 200, arrivals=FEW).p99 for count in (1, 2, 8)]
    assert by_count[0] > by_count[1] > by_count[2]


def test_the_same_call_gives_the_same_figures() -> None:
    assert simulate(SERVICE, 4, 400, arrivals=FEW) == simulate(SERVICE, 4, 400, arrivals=FEW)


def test_a_publication_with_slower_first_queries_is_seen_in_the_tail() -> None:
    quiet, slow = (simulate(SERVICE, 2, 200, Publication(extra, 20), arrivals=FEW) for extra in (0.0, 50.0))
    assert slow.p99 > quiet.p99
