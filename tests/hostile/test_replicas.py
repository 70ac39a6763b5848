"""The quick forms of replicas under load and of killed publishers."""

from __future__ import annotations

import random

from tests.hostile import promotions, publishing, replicas
from tests.hostile.report import Report


def test_replicas_answer_all_requests_while_publications_follow_each_other(
    report: Report, chance: random.Random
) -> None:
    replicas.run(report, 2, chance)
    assert "failed 0" in report.figures[0][1]


def test_a_bucket_is_readable_after_each_kill_of_its_publisher(report: Report, chance: random.Random) -> None:
    publishing.run(report, 3, chance)
    assert report.figures[0][1].startswith("3 kills (1 after, 1 before, 1 moment;")


def test_a_promotion_that_is_killed_is_repeated_and_fences_the_former_home_node(
    report: Report, chance: random.Random
) -> None:
    promotions.run(report, 2, chance)
    assert report.figures[0][1].startswith("2 promotions, 2 killed (1 after a request, 1 before a request)")
