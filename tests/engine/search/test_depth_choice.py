"""The choice of depths: every kind is found, the hardest is promised, and what was learned is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aidre.engine.model import RECALLS
from aidre.engine.search.depth_choice import (
    GAP_MARGIN,
    MIN_DEPTH,
    MIN_DEPTH_PER_RESULT,
    NPROBE_MARGIN,
    Choice,
    Reach,
    RequiredDepth,
    SearchConditions,
    choose_depths,
    recall_bound,
)
from aidre.engine.search.query_samples import Kind
from aidre.engine.storage.manifest import Depth, LearnedDepth

CONDITIONS = SearchConditions(rows=10_000, nlist=0, max_depth=4_096, goal=0.99)


def queries(worst: int, count: int = 150, nprobe: int = 0) -> list[RequiredDepth]:
    """Queries whose ten neighbours are all found among `worst` candidates, and not among one less."""
    ranks = np.minimum(np.arange(10), worst - 1)
    ranks[-1] = worst - 1
    one = RequiredDepth(ranks, np.full(10, nprobe), np.full(10, nprobe / 10), np.zeros(10, np.int64))
    return [one] * count


def chosen(
    needs: dict[Kind, int], learned: Sequence[LearnedDepth] = (), conditions: SearchConditions = CONDITIONS
) -> Choice:
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
    assert depth.candidates == 800
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
    assert depth.candidates == 300
    assert depth.mean < 0.99  # five queries prove no more


def test_a_later_calibration_without_the_kind_goes_as_much_deeper() -> None:
    first = chosen({"rows": 20, "mixtures": 100, "given": 300})
    [learned] = first.learned
    assert (learned.kind, learned.results, learned.candidates) == ("given", 10, 3)
    later = chosen({"rows": 20, "mixtures": 200}, first.learned)
    assert later.depths[0].candidates == 600
    assert later.depths[0].mean <= learned.recall
    assert chosen({"rows": 20, "mixtures": 2_000}, first.learned).depths == ()


def test_a_kind_that_needs_no_more_teaches_nothing() -> None:
    assert chosen({"rows": 20, "mixtures": 200, "texts": 150}).learned == ()


def test_what_was_learned_of_other_numbers_of_results_does_not_count() -> None:
    learned = [LearnedDepth("given", 100, 9.0, 1.0, 1.0, 0.9)]
    assert chosen({"rows": 20, "mixtures": 200}, learned) == chosen({"rows": 20, "mixtures": 200})


# -- lists -------------------------------------------------------------------------------------------------------

LISTED = replace(CONDITIONS, rows=1_000_000, nlist=100)


def probing(nprobe: int, gap: float, within: int, count: int = 150, far: int = 0) -> list[RequiredDepth]:
    """Queries whose neighbours are found among twenty candidates in the nearest `nprobe` lists and the gap, which holds
    `within` lists of 20,000 entries; of `far` queries the last neighbour is in the last list."""
    gaps = np.concatenate([np.linspace(0, gap, within), np.linspace(1.01 * gap, 10 * gap, 100 - within)])
    reach = Reach(gaps.astype(np.float32), (20_000 * np.arange(1, 101)).astype(np.int32))
    near = replace(queries(20, 1, nprobe)[0], gaps=np.full(10, gap), reach=reach)
    lost = replace(near, nprobe=np.array([nprobe] * 9 + [100]))
    return [lost] * far + [near] * (count - far)


def test_lists_are_probed_only_as_far_as_the_promise_holds() -> None:
    required: dict[Kind, list[RequiredDepth]] = {"rows": probing(4, 0.1, 3), "mixtures": probing(8, 0.2, 5)}
    [depth] = choose_depths(required, (10,), LISTED).depths
    assert 8 <= depth.probes <= 8 * NPROBE_MARGIN + 1
    assert depth.gap == pytest.approx(0.2 * GAP_MARGIN)
    assert 20_000 < depth.scanned < 250_000
    assert depth.mean >= 0.99


def test_many_lists_are_no_reason_to_scan_all_rows_where_the_gap_ends_most_searches() -> None:
    easy, hard = probing(2, 0.1, 2), probing(60, 0.1, 2)
    required: dict[Kind, list[RequiredDepth]] = {"rows": easy, "mixtures": [*easy, *hard[:10]]}
    [depth] = choose_depths(required, (10,), LISTED).depths
    assert depth.probes >= 60
    assert depth.scanned < 100_000


def test_all_rows_are_scanned_where_probing_is_expected_to_take_as_long() -> None:
    required: dict[Kind, list[RequiredDepth]] = {"rows": probing(4, 0.1, 3), "mixtures": probing(80, 0.2, 78)}
    assert choose_depths(required, (10,), LISTED).depths[0].probes == 0
    small = replace(LISTED, rows=5_000)
    near: dict[Kind, list[RequiredDepth]] = {"rows": probing(4, 0.1, 3), "mixtures": probing(4, 0.1, 3)}
    assert choose_depths(near, (10,), small).depths[0].probes == 0


def test_a_lower_recall_leaves_the_neighbours_in_far_lists_out() -> None:
    required: dict[Kind, list[RequiredDepth]] = {"rows": probing(4, 0.1, 3), "mixtures": probing(4, 0.1, 3, far=45)}
    high, low = (
        choose_depths(required, (10,), replace(LISTED, goal=goal)).depths[0] for goal in (0.99, 0.9)
    )  # the far ones are a fiftieth of the neighbours
    assert low.probes <= 4 * NPROBE_MARGIN + 1 < high.probes
    assert low.mean < 0.99 <= high.mean
    assert low.candidates < high.candidates


def test_the_least_depth_goes_with_the_recall_and_holds_the_results() -> None:
    least = [
        chosen({"rows": 1, "mixtures": 1}, (), replace(CONDITIONS, goal=goal)).depths[0].candidates for goal in RECALLS
    ]
    assert least == sorted(set(least))
    assert least[RECALLS.index(0.99)] == MIN_DEPTH_PER_RESULT * 10 + MIN_DEPTH
    assert least[0] >= 10


def test_more_queries_prove_a_lower_depth_and_only_what_their_missed_neighbours_leave() -> None:
    def asked(count: int, missed: float = 0.0) -> list[RequiredDepth]:
        one, few = queries(40, 1)[0], queries(400, 1)[0]
        more = replace(one, max_tier=0, missed=missed)
        return [one] * 57 + [few] * 3 + [more] * count

    def depth(count: int, missed: float = 0.0) -> Depth | None:
        return next(iter(choose_depths({"rows": asked(count, missed)}, (10,), CONDITIONS).depths), None)

    alone, more, missing = depth(0), depth(600), depth(600, 0.004)
    assert alone is not None
    assert more is not None
    assert missing is not None
    assert more.candidates < alone.candidates
    assert 0.99 <= missing.mean < more.mean
    assert depth(600, 0.05) is None, "no depth finds what the deep scan missed"


def test_queries_that_know_ten_neighbours_do_not_count_for_a_hundred() -> None:
    known = RequiredDepth(np.arange(100), np.zeros(100, np.int64), np.zeros(100), np.repeat([0, 1], [10, 90]))
    short = replace(queries(4_000, 1)[0], max_tier=0)
    depths = choose_depths({"rows": [known] * 150 + [short] * 5}, (10, 100), CONDITIONS).depths
    assert depths[0].mean < depths[1].mean
    assert depths[1].candidates < 1_000
