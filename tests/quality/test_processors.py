"""A sample of the tests of numbers on the least kernels that run here; `make processors` runs all on each."""

from __future__ import annotations

import pytest

from tests.commands.processors import SAMPLE, Kernels, combinations, core_types, run_tests, running, simd_levels

pytestmark = pytest.mark.process


def test_scores_and_rankings_hold_on_the_least_kernels() -> None:
    levels = simd_levels()
    assert run_tests(Kernels(core_types()[0], levels[0], 2), SAMPLE, ["-m", "not slow"]) == 0


def test_the_libraries_run_the_kernels_that_they_are_told() -> None:
    told = list(combinations())
    assert {kernels.threads for kernels in told} == {1, 2}
    reported = [running(kernels) for kernels in told]
    assert None not in reported
    assert len(set(reported)) >= min(2, len(core_types()))


def test_a_kernel_that_does_not_exist_is_left_out() -> None:
    assert running(Kernels(None, "AVX-1", 1)) is None
