"""The templates of intakes, `api/config/intake.py`: members are filled in, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.intake import fill_all_templates, fill_template, hit_values, names_in

DATA: dict[str, Any] = {
    "a": "x",
    "n": {"b": "y", "c": [1, "z", [True, {"q": 1}, 2.5]]},
    "t": True,
    "z": None,
    "brace": "{a} {__class__}",
    "hits": {"count": "mine"},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{a} {n.b}", "x y"),
        ("{n.c}", "1 z 2.5"),
        ("{t}{z}{n}{a.b}{absent.deep}", ""),
        ("{{a}} {a}", "{a} x"),
        ("{brace}", "{a} {__class__}"),
        ("{a.__class__} {a!r} {a:>9} {0}", "{a!r} {a:>9}"),
        ("  {a} \n\t {a} ", "x x"),
        ("{hits.count}", "mine"),
    ],
)
def test_a_template_fills_in_members_and_nothing_else(template: str, text: str) -> None:
    assert fill_template(template, DATA) == text


def test_what_was_found_wins_over_data_of_the_same_name() -> None:
    hits = hit_values([{"id": "c1", "title": "T"}, {"id": "c2", "url": "https://e.com"}, {"id": "c3", "title": "T"}])
    assert fill_template("{hits.count} {hits.titles} {hits.first.id}", DATA, hits) == "3 T; https://e.com c1"
    assert fill_all_templates({"a": ["{a}", 5, {"b": "{hits.first.title}"}], "c": False}, DATA, hits) == {
        "a": ["x", 5, {"b": "T"}],
        "c": False,
    }


def test_names_come_in_their_order() -> None:
    assert names_in("{b} {{no}} {a.c} {} { d }") == ["b", "a.c"]
