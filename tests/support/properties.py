"""Settings of property tests: the same examples in every run, and patience with a machine that does other work."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

REPEATABLE = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
