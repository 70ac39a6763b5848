"""A discrete-event simulation of N replicas behind one load balancer; seeded, so the same call gives the same figures.

Assumed:

- Requests arrive independently of each other (a Poisson process) and are all of one kind.
- The balancer gives a request to the replica with the fewest unfinished ones (nginx's `least_conn`), the first after
  the last chosen if several have as few, and knows these numbers at once. It takes no time and repeats nothing.
- A replica has one core and answers one request after the other, in the order of arrival, for as long as its service
  time says. Service times are drawn independently, from measured quantiles.
- A publication is seen by each replica at a moment of its own, evenly drawn over one poll. The first queries of the new
  generation take longer by what was measured after opening it, less with each query in a straight line.

So the figures are lower bounds: no neighbours, no network, no bursts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ARRIVALS: Final = 10_000
SEED: Final = 22
WARM_UP: Final = 0.1
"""Share of the arrivals that fill the queues and are not counted."""

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Service:
    """Milliseconds of a request without queueing: median, 99th and 99.9th percentile, as measured at one connection."""

    p50: float
    p99: float
    p999: float

    def draw(self, shares: Seconds) -> Seconds:
        """Seconds, for shares of the requests from 0 to 1: the quantile function.

        Between the quantiles it is straight over the logarithm of the share that takes longer, as an exponential
        distribution is. The fastest request takes 0.8 times the median, the slowest the 99.9th percentile.
        """
        slower = -np.log(np.maximum(1 - shares, 1e-9))
        known = -np.log(1 - np.array([0.0, 0.5, 0.99, 0.999]))
        return np.interp(slower, known, (0.8 * self.p50, self.p50, self.p99, self.p999)) / 1e3

    @property
    def mean(self) -> float:
        """Seconds."""
        return float(self.draw((np.arange(100_000) + 0.5) / 100_000).mean())


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication after half of the arrivals. `extra` (ms) is what the first query of the new generation takes more,
    `queries` is how many are slower, `poll` the seconds between two looks for a new generation."""

    extra: float
    queries: int
    poll: float = 1.0


class Latency(NamedTuple):
    """Milliseconds from arrival to answer."""

    p50: float
    p99: float


def simulate(
    service: Service, replicas: int, rate: float, publication: Publication | None = None, arrivals: int = ARRIVALS
) -> Latency:
    """The latencies at `rate` requests a second; with a publication those of its window: the poll and as long again."""
    rng = np.random.default_rng([SEED, replicas])
    due = np.cumsum(rng.exponential(1 / rate, arrivals))
    seconds = service.draw(rng.random(arrivals))
    begun = float(due[arrivals // 2])
    seen = begun + rng.random(replicas) * publication.poll if publication else np.full(replicas, np.inf)
    ends = _answered(due, seconds, seen, publication)
    counted = due >= due[int(WARM_UP * arrivals)]
    if publication:
        counted = (due >= begun) & (due < begun + 2 * publication.poll)
    p50, p99 = np.quantile(1e3 * (ends - due)[counted], (0.5, 0.99)).tolist()
    return Latency(p50, p99)


def _answered(due: Seconds, seconds: Seconds, seen: Seconds, published: Publication | None) -> Seconds:
    """When each request is answered."""
    count = len(seen)
    unfinished: list[deque[float]] = [deque() for _ in range(count)]
    opened, last = [0] * count, 0
    ends = np.empty_like(due)
    for number, (now, needed) in enumerate(zip(due.tolist(), seconds.tolist(), strict=True)):
        for queue in unfinished:
            while queue and queue[0] <= now:
                queue.popleft()
        turn = [(last + step) % count for step in range(1, count + 1)]
        last = min(turn, key=lambda one: len(unfinished[one]))
        queue = unfinished[last]
        begins = queue[-1] if queue else now
        if published and begins >= seen[last] and opened[last] < published.queries:
            begins += published.extra / 1e3 * (1 - opened[last] / published.queries)
            opened[last] += 1
        ends[number] = begins + needed
        queue.append(begins + needed)
    return ends
