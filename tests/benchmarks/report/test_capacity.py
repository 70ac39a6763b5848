"""The capacity model: its constants are those of the report, its page is what it prints, and its laws hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from benchmarks.report import capacity as model, pages, scale as page
from benchmarks.report.capacity import Data, Fleet, Measured
from tests import ROOT

SMALL, LARGE = Data(10_000_000), Data(20_000_000)


def measured() -> Iterator[tuple[str, Measured]]:
    for name, value in vars(model).items():
        if isinstance(value, Measured):
            yield name, value
        elif isinstance(value, Mapping) and name in ("SCAN", "TEXT", "KINDS"):
            yield from ((f"{name} {part}", each) for part, each in value.items())


@pytest.mark.parametrize(("name", "constant"), [pytest.param(*one, id=one[0]) for one in measured()])
def test_what_was_measured_stands_in_its_section_of_the_report(name: str, constant: Measured) -> None:
    sections = pages.sections((ROOT / "benchmarks" / "REPORT.md").read_text("utf-8"))
    section = sections[f"{pages.HEADING}{constant.section}"]
    assert constant.shown in section, f"{name}: measured again? Enter the new figure in benchmarks/report/capacity.py"
    digits = f"{constant.value:g}".replace(",", "")
    assert digits in constant.shown.replace(",", "") or name == "WORKER"


@pytest.mark.slow
def test_the_page_is_what_the_command_prints() -> None:
    text = page.PAGE.read_text("utf-8")
    changed = text.replace(next(line for line in text.splitlines() if line.startswith("| core hours")), "| none |")
    assert page.with_tables(changed) == text, "run `python -m benchmarks.report.scale --write`"


def test_a_page_without_a_place_for_a_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "tables", lambda sizes, rates: {"bytes": "x"})
    assert page.with_tables("<!-- bytes -->\nold\n<!-- /bytes -->") == "<!-- bytes -->\n\nx\n\n<!-- /bytes -->"
    with pytest.raises(ValueError, match="bytes"):
        page.with_tables("no place")


def test_bytes_are_the_sum_of_their_kinds_and_linear_in_the_rows() -> None:
    assert model.store_bytes(SMALL) == pytest.approx(SMALL.rows * sum(model.chunk_bytes(SMALL).values()))
    for law in (model.store_bytes, model.code_bytes, model.hot_bytes, model.milvus_bytes, model.embedding_core_hours):
        assert law(LARGE) == pytest.approx(2 * law(SMALL)), law.__name__


def test_the_bytes_of_what_was_measured_are_those_that_were_measured() -> None:
    assert model.chunk_bytes(Data(1_000_000)) == {kind: each.value for kind, each in model.KINDS.items()}


def test_longer_texts_and_more_dimensions_take_more_where_they_are_stored() -> None:
    base = model.chunk_bytes(SMALL)
    text = model.chunk_bytes(replace(SMALL, text_bytes=2 * SMALL.text_bytes))
    assert {kind for kind in base if text[kind] > base[kind]} == {"chunks", "lexicon"}
    wide = model.chunk_bytes(replace(SMALL, dimensions=768))
    assert {kind for kind in base if wide[kind] > base[kind]} == {"vectors", "index"}
    float32 = model.chunk_bytes(replace(SMALL, width=4))
    assert float32["vectors"] - base["vectors"] == 2 * SMALL.dimensions


@pytest.mark.parametrize("curve", [model.SCAN, model.TEXT])
def test_a_curve_goes_through_its_measurements_and_on_in_a_straight_line(curve: Mapping[int, Measured]) -> None:
    for rows, constant in curve.items():
        assert model.along(curve, rows) == pytest.approx(constant.value)
    last = max(curve)
    first, second, third = (model.along(curve, last * step) for step in (2, 3, 4))
    assert curve[last].value < first < second
    assert third - second == pytest.approx(second - first)


def test_more_requests_or_rows_never_need_fewer_cores_or_less_money() -> None:
    for text in (False, True):
        needed = [model.cores(SMALL, rate, text=text) for rate in (0.001, 1, 10, 100, 1_000)]
        assert needed == sorted(needed) and needed[0] == 1 and needed[-1] > needed[0]
        dollars = [fleet.dollars for each in needed if (fleet := model.replicas(SMALL, each)) is not None]
        assert len(dollars) == len(needed) and dollars == sorted(dollars)
    assert model.cores(LARGE, 100, text=False) > model.cores(SMALL, 100, text=False)


def test_what_a_core_could_answer_is_bounded_by_what_the_memory_can_read() -> None:
    rate = 1_000.0
    read = rate * model.read_bytes(SMALL) / (model.BANDWIDTH.value * model.BUSY.value)
    assert model.cores(SMALL, rate, text=False) >= read
    assert model.read_bytes(Data(100_000)) == 0.0  # the codes stay in the cache


def test_a_fleet_holds_the_data_and_the_workers() -> None:
    found = model.replicas(Data(100_000_000), 100)
    assert found is not None
    workers = model.workers_on(found.vcpu, model.hot_bytes(Data(100_000_000)), model.worker_bytes(Data(100_000_000)))
    assert found.machines * workers >= 100 > (found.machines - 1) * workers
    shared = model.hot_bytes(Data(100_000_000)) + workers * model.worker_bytes(Data(100_000_000))
    assert shared * model.SPARE.value <= model.memory_of(found.vcpu)


def test_data_that_no_machine_holds_have_no_replicas_but_can_be_divided() -> None:
    huge = Data(1_000_000_000)
    assert model.replicas(huge, 1) is None
    found = model.partitions(huge, 10_000_000, 1)
    assert found.machines * model.memory_of(found.vcpu) >= model.hot_bytes(huge)


def test_money_is_proportional_to_machines_and_hours() -> None:
    assert Fleet(2, 16).dollars == pytest.approx(2 * Fleet(1, 16).dollars)
    assert Fleet(1, 16).dollars == pytest.approx(16 * model.VCPU.value * model.HOURS_A_MONTH)
    assert model.request_dollars(8) > model.request_dollars(2) > 0
    assert model.request_dollars(2, poll=2.0) < model.request_dollars(2)


def test_numbers_have_two_digits_that_count() -> None:
    assert [page.number(value) for value in (0, 0.0123, 1.26, 99.6, 1_234, 1e6)] == [
        "0",
        "0.012",
        "1.3",
        "100",
        "1,200",
        "1,000,000",
    ]
