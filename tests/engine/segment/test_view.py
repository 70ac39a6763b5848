"""A segment without its deleted documents, masks as bitmaps, and the slots of vector indexes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.segment.view import RowMask, Segments, SegmentView, pack_bitmap
from aidre.engine.storage.format import MAX_SEGMENT_ROWS
from tests.support.segments import without, write_segment
from tests.support.stores import record

RECORDS = [
    record("a", ["the cat sat", "and the dog"], url="https://example.org/a", metadata={"n": 1}),
    record("b", ["a cat and a cat"], metadata={"n": 2, "lang": "de"}, schema_object={"@type": "Thing", "color": "red"}),
    record("c", ["one bird", "two birds", "the cat"], metadata={"n": 1}),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SegmentView:
    return SegmentView(write_segment(tmp_path_factory.mktemp("segment"), RECORDS), None)


@pytest.fixture
def view(whole: SegmentView) -> SegmentView:
    """The segment in which document `b` is deleted."""
    return without(whole.segment, [1])


# -- rows ------------------------------------------------------------------------------------------------------


def test_the_rows_of_deleted_documents_are_not_live(whole: SegmentView, view: SegmentView) -> None:
    assert whole.live.rows().tolist() == list(range(6))
    assert view.live.rows().tolist() == [0, 1, 3, 4, 5]
    assert (whole.live.count, view.live.count) == (6, 5)
    assert [view.is_live(row) for row in range(3)] == [True, False, True]
    assert all(whole.is_live(row) for row in range(3))


def test_a_filter_lets_the_live_chunks_of_its_documents_through(whole: SegmentView, view: SegmentView) -> None:
    for written, all_rows, live_rows in (
        ({"n": 1}, [0, 1, 3, 4, 5], [0, 1, 3, 4, 5]),
        ({"n": 2}, [2], []),
        ({"n": {"exists": True}}, list(range(6)), [0, 1, 3, 4, 5]),
        ({"nobody": 1}, [], []),
    ):
        asked = parse_filter(written)
        assert whole.row_mask(asked).rows().tolist() == all_rows
        assert view.row_mask(asked).rows().tolist() == live_rows
        assert view.row_mask(asked) is view.row_mask(parse_filter(written))
    assert view.row_mask(None) is view.live


def test_a_mask_that_lets_every_row_through_is_none() -> None:
    assert RowMask(np.ones(9, np.bool_), 9).mask is None
    assert RowMask(None, 9).count == 9
    assert RowMask(np.zeros(9, np.bool_), 9).rows().tolist() == []


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64])
def test_a_packed_mask_has_a_bit_for_each_row(rows: int) -> None:
    for mask in (None, np.arange(rows) % 3 == 0):
        one = RowMask(mask, rows)
        bits = np.unpackbits(one.packed, bitorder="little")[:rows]
        assert np.flatnonzero(bits).tolist() == one.rows().tolist()


def test_a_bitmap_of_several_segments_has_the_rows_of_each_at_its_slot() -> None:
    first, second = RowMask(np.arange(10) == 3, 10), RowMask(None, 5)
    bitmap = pack_bitmap([(2, first), (0, second)])
    assert bitmap is not None
    bits = np.flatnonzero(np.unpackbits(bitmap.packed, bitorder="little"))
    # Bits beyond the rows of a segment may be set: no list holds such a row.
    assert [bit for bit in bits.tolist() if bit % MAX_SEGMENT_ROWS < 5 or bit >= 2 * MAX_SEGMENT_ROWS] == [
        0, 1, 2, 3, 4, 2 * MAX_SEGMENT_ROWS + 3,
    ]  # fmt: skip
    assert not any(MAX_SEGMENT_ROWS <= bit < 2 * MAX_SEGMENT_ROWS for bit in bits.tolist())
    assert pack_bitmap([(0, second), (1, RowMask(None, 3))]) is None
    alone = pack_bitmap([(0, first)])
    assert alone is not None and np.flatnonzero(np.unpackbits(alone.packed, bitorder="little")).tolist() == [3]


# -- terms -----------------------------------------------------------------------------------------------------


def test_document_frequencies_count_live_chunks(whole: SegmentView, view: SegmentView) -> None:
    assert [whole.document_frequency(term) for term in ("cat", "dog", "fish")] == [3, 1, 0]
    assert [view.document_frequency(term) for term in ("cat", "dog", "fish")] == [2, 1, 0]
    assert view.document_frequency("cat") == 2  # from the cache
    postings = view.postings("cat")
    assert postings is not None and postings.rows.tolist() == [0, 2, 5]
    assert view.postings("fish") is None


def test_lengths_and_languages_are_those_of_live_chunks(whole: SegmentView, view: SegmentView) -> None:
    lengths = whole.segment.lexicon.lengths
    assert (lengths > 0).all()
    assert whole.total_terms == int(lengths.sum())
    assert view.total_terms == int(lengths.sum() - lengths[2])
    assert whole.languages == {"de": 1, "en": 5}
    assert view.languages == {"en": 5}


# -- documents -------------------------------------------------------------------------------------------------


def test_documents_without_a_url_are_counted_among_the_live(whole: SegmentView, view: SegmentView) -> None:
    assert (whole.documents_without_url, view.documents_without_url) == (2, 1)
    assert without(whole.segment, [0]).documents_without_url == 2


def test_a_field_is_there_while_a_live_document_has_it(whole: SegmentView, view: SegmentView) -> None:
    assert whole.has_field("color") and not view.has_field("color")
    assert view.has_field("n") and not view.has_field("nobody")
    assert whole.has_field("n", with_schema_object=True) and not view.has_field("n", with_schema_object=True)


# -- slots -----------------------------------------------------------------------------------------------------


class Index:
    """A vector index as far as slots go."""

    def __init__(self, slot: int | None = None) -> None:
        self.slot = slot

    def assign_slot(self, slot: int) -> None:
        assert self.slot is None
        self.slot = slot


def segments_of(*scans: dict[str, Index]) -> Segments:
    views: list[Any] = [SimpleNamespace(segment=SimpleNamespace(scans=one)) for one in scans]
    return Segments(views)


def slots(segments: Sequence[Any]) -> list[list[int]]:
    return [[index.slot for index in view.segment.scans.values()] for view in segments]


def test_new_indexes_take_the_free_slots_and_others_keep_theirs() -> None:
    made = segments_of({"x": Index()}, {"x": Index(1)}, {}, {"x": Index(), "y": Index()}, {"x": Index(0)})
    assert slots(made) == [[2], [1], [], [3, 3], [0]]
    assert made.segment_ords == [4, 1, 0, 3]
    assert made.slot_ends.tolist() == [MAX_SEGMENT_ROWS * slot for slot in (1, 2, 3, 4)]


def test_a_row_number_leads_back_to_its_segment() -> None:
    made = segments_of({"x": Index(5)}, {"x": Index()})
    for segment_ord, slot in ((0, 5), (1, 0)):
        for row in (0, MAX_SEGMENT_ROWS - 1):
            place = int(np.searchsorted(made.slot_ends, slot * MAX_SEGMENT_ROWS + row, side="right"))
            assert made.segment_ords[place] == segment_ord


def test_segments_without_indexes_have_one_empty_slot() -> None:
    assert segments_of({}, {}).segment_ords == [0]
    assert segments_of().segment_ords == [0]
    assert segments_of({}).scan_groups("x") == []
