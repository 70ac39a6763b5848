"""The choice of depths: every kind is found, the hardest is promised, and what was learned is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aidre.engine.search.depth_choice import (
    DEPTH_MARGIN,
    Choice,
    Conditions,
    RequiredDepth,
    choose_depths,
    recall_bound,
)
from aidre.engine.search.query_samples import Kind
from aidre.engine.storage.manifest import LearnedDepth

CONDITIONS = Conditions(rows=10_000, nlist=0, max_depth=4_096, goal=0.99)


def queries(worst: int, count: int = 150, nprobe: int = 0) -> list[RequiredDepth]:
    """Queries whose ten neighbours are all found among `worst` candidates, and not among one less."""
    ranks = np.minimum(np.arange(10), worst - 1)
    ranks[-1] = worst - 1
    one = RequiredDepth(ranks, np.full(10, nprobe), np.full(10, nprobe / 10), np.zeros(10, np.int64))
    return [one] * count


def chosen(needs: dict[Kind, int], learned: Sequence[LearnedDepth] = (), conditions: Conditions = CONDITIONS) -> Choice:
    return choose_depths({kind: queries(worst) for kind, worst in needs.items()}, (10,), conditions, learned)


def test_a_sample_that_finds_all_proves_no_recall_of_one_and_a_larger_one_proves_more() -> None:
    few, many = (float(recall_bound(np.ones((count, 1)), 10)[0]) for count in (40, 400))
    assert 0.99 < few < many < 1


def test_the_bound_is_below_the_mean_by_its_uncertainty() -> None:
    recall = np.random.default_rng(1).choice([0.8, 1.0], (200, 1))
    bound = float(recall_bound(recall, 10)[0])
    assert recall.mean() - 0.02 < bound < recall.mean() - 0.005


@pytest.mark.parametrize("hardest", ["rows", "mixtures", "texts", "others", "given"])
def test_the_kind_that_needs_most_decides(hardest: Kind) -> None:
    kinds: tuple[Kind, ...] = ("rows", "mixtures", "texts", "others", "given")
    [depth] = chosen({kind: 800 if kind == hardest else 120 for kind in kinds}).depths
    assert depth.candidates == 800 * DEPTH_MARGIN
    assert 0.99 <= depth.mean < 1


@pytest.mark.slow
def test_what_is_promised_is_what_the_hardest_kind_finds() -> None:
    lost = RequiredDepth(np.full(10, 4_096), np.zeros(10, np.int64), np.zeros(10), np.zeros(10, np.int64))
    required = {"rows": queries(20, 2_000), "mixtures": [*queries(20, 1_999), lost]}
    easy = choose_depths({"rows": required["rows"]}, (10,), CONDITIONS).depths[0]
    hard = choose_depths(required, (10,), CONDITIONS).depths[0]  # type: ignore[arg-type]
    assert hard.mean < easy.mean
    required["mixtures"] = [*queries(20, 100), lost, lost]
    assert choose_depths(required, (10,), CONDITIONS).depths == ()  # type: ignore[arg-type]


def test_no_depth_is_chosen_where_one_kind_is_not_found() -> None:
    choice = chosen({"rows": 20, "mixtures": 20, "given": 5_000})
    assert choice.depths == ()
    [learned] = choice.learned
    assert (learned.kind, learned.candidates) == ("given", 2 * 4_096 / 20)


def test_few_queries_need_to_find_all() -> None:
    required: dict[Kind, list[RequiredDepth]] = {"rows": queries(20), "mixtures": queries(20), "given": queries(300, 5)}
    [depth] = choose_depths(required, (10,), CONDITIONS).depths
    assert depth.candidates == 300 * DEPTH_MARGIN
    assert depth.mean < 0.99  # five queries prove no more


def test_a_later_calibration_without_the_kind_goes_as_much_deeper() -> None:
    first = chosen({"rows": 20, "mixtures": 100, "given": 300})
    [learned] = first.learned
    assert (learned.kind, learned.results, learned.candidates) == ("given", 10, 3)
    later = chosen({"rows": 20, "mixtures": 200}, first.learned)
    assert later.depths[0].candidates == 600 * DEPTH_MARGIN
    assert later.depths[0].mean <= learned.recall
    assert chosen({"rows": 20, "mixtures": 2_000}, first.learned).depths == ()


def test_a_kind_that_needs_no_more_teaches_nothing() -> None:
    assert chosen({"rows": 20, "mixtures": 200, "texts": 150}).learned == ()


def test_what_was_learned_of_other_numbers_of_results_does_not_count() -> None:
    learned = [LearnedDepth("given", 100, 9.0, 1.0, 1.0, 0.9)]
    assert chosen({"rows": 20, "mixtures": 200}, learned) == chosen({"rows": 20, "mixtures": 200})


def test_lists_are_probed_only_as_far_as_the_promise_holds() -> None:
    conditions = replace(CONDITIONS, nlist=100)
    near: dict[Kind, list[RequiredDepth]] = {"rows": queries(20, nprobe=4), "mixtures": queries(20, nprobe=8)}
    [depth] = choose_depths(near, (10,), conditions).depths
    assert 8 <= depth.probes <= 25
    assert depth.gap >= 0.8
    far: dict[Kind, list[RequiredDepth]] = {"rows": queries(20, nprobe=4), "mixtures": queries(20, nprobe=60)}
    assert choose_depths(far, (10,), conditions).depths[0].probes == 0
