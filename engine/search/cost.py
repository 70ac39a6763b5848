"""A cost model of searches, in microseconds on one core: it chooses between exact comparison and scan.

The constants are rounded from `python -m benchmarks cost` (processor time of single queries over 60,000 rows,
lower quartiles; 64, 384 and 1536 dimensions in float16 and float32) and from the same over 2,000 to 300,000 rows at
384 dimensions. There FAISS takes 26 ns for a float16 row compared in place, 3 ns for one scanned in 96 codes and 0.13
to 0.18 us for one gathered; the kernel 2 ns for one scanned and 0.07 us for one gathered. Only ratios matter; the model
is fitted to be right within a half where two ways cost about the same: a scan loses to gathering if a filter allows
less than about 3 % of the rows.

A bitmap makes both exact search and scan slower: FAISS tests every row, and scattered rows are read at the speed of
memory. Computing the mask of a new filter takes the same time for every way of searching, so it is not in the model.
The setup of a scan and the call that compares candidates are paid once for all segments of a generation, an exact
search once for each column.

`estimate_dense` and `estimate_lexical` say what a search takes before it is planned: what all allowed rows cost,
without looking at any. A search may probe few lists, and a filter may allow few rows, so it may take less. Callers
choose by it between the event loop and a thread, where a factor of two does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

from aidre.engine.index.vectors import SearchDepth, search_depth
from aidre.engine.model import COSTED_RESULTS
from aidre.engine.native import FALL_BACK, kernel_name
from aidre.engine.segment import Segments
from aidre.engine.storage import Calibration


class Costs(NamedTuple):
    """Microseconds on one core: of a call, a scan, and of each row, byte or number of what is read."""

    call: float
    scan_call: float
    scan_row: float
    scan_code: float
    list: float
    ranked_byte: float
    probed_list: float
    candidate: float
    exact_bitmap_row: float
    scan_bitmap_row: float
    byte: float
    scattered_byte: float
    masked_row: float
    gather_call: float
    gather_row: float
    rotated_number: float
    posting: float


FAISS = Costs(
    call=12.0,
    scan_call=30.0,
    scan_row=1e-3,
    scan_code=1.8e-5,
    list=0.5,
    ranked_byte=4.5e-5,
    probed_list=1.0,
    candidate=0.05,
    exact_bitmap_row=2e-3,
    scan_bitmap_row=2e-3,
    byte=3.3e-5,
    scattered_byte=1.7e-4,
    masked_row=0.11,
    gather_call=3.0,
    gather_row=0.01,
    rotated_number=1.1e-4,
    posting=1.5e-2,
)
KERNEL = Costs(
    call=3.0,
    scan_call=6.0,
    scan_row=1e-4,
    scan_code=2e-5,
    list=0.05,
    ranked_byte=8e-6,
    probed_list=0.2,
    candidate=0.02,
    exact_bitmap_row=7e-4,
    scan_bitmap_row=1e-4,
    byte=4.5e-5,
    scattered_byte=8e-5,
    masked_row=0.01,
    gather_call=1.5,
    gather_row=0.005,
    rotated_number=8e-5,
    posting=4e-3,
)
"""The kernel asks for scattered rows before it compares them, and skips blocks of codes without an allowed row."""

COSTS = FAISS if kernel_name() == FALL_BACK else KERNEL

MIN_SPACE_ROWS = 1024
"""Rows of a space; fewer do not suffice to train the 16 centroids of each 4-bit code."""

MIN_SCANNED_ROWS = 256
"""Rows; a smaller segment is searched exactly: joining a scan of other segments would save almost nothing."""

_MIN_EXACT_COST = 90.0
"""Microseconds; a space in which comparing all rows costs less is not worth calibrating."""

_WORD_SHARE = 0.1
"""Share of the chunks that contain a word of a query."""


def exact_cost(rows: int, row_bytes: int, bitmap_rows: int = 0) -> float:
    """Compare the query with every row of a column, or with the `rows` that a bitmap over `bitmap_rows` allows."""
    cost = COSTS.call + rows * row_bytes * COSTS.byte
    if bitmap_rows:
        scattered = rows * (1 - rows / bitmap_rows) * (COSTS.masked_row + row_bytes * COSTS.scattered_byte)
        cost += bitmap_rows * COSTS.exact_bitmap_row + scattered
    return cost


def gather_cost(rows: int, row_bytes: int) -> float:
    """Copy scattered rows of a segment into the buffer of all segments' rows, and compare them there."""
    return COSTS.gather_call + rows * (COSTS.gather_row + row_bytes * (COSTS.byte + COSTS.scattered_byte))


def scan_cost(rows: int, code_size: int, allowed: int, lists: int = 0) -> float:
    """Scan the codes of `rows` rows, of which a bitmap allows `allowed`, after the setup of the scan.

    This is a full scan. Probing costs less; how much less depends on the query.
    """
    is_masked = allowed < rows
    return (
        rows * (COSTS.scan_row + code_size * COSTS.scan_code + is_masked * COSTS.scan_bitmap_row) + lists * COSTS.list
    )


def probing_cost(entries: int, code_size: int, lists: float, nlist: int, row_bytes: int) -> float:
    """Rank the centroids of `nlist` lists, and scan the `entries` of some lists, after the setup of the scan.

    The kernel has the centroids in bytes, and of two thirds of the dimensions where rows are rotated.
    """
    ranking = nlist * row_bytes * COSTS.ranked_byte
    return ranking + scan_cost(entries, code_size, entries) + lists * COSTS.probed_list


def scan_setup_cost(candidates: int, row_bytes: int) -> float:
    """The cost of a scan that does not depend on its rows: call, look-up tables, heap and comparing the candidates."""
    return COSTS.call + COSTS.scan_call + candidates * COSTS.candidate + gather_cost(candidates, row_bytes)


def transform_cost(numbers: int) -> float:
    """Rotate the query of a scan; `numbers` counts those of the matrix."""
    return numbers * COSTS.rotated_number


def scan_can_pay(rows: int, row_bytes: int) -> bool:
    """Whether a space has enough rows for a scan to be worth calibrating."""
    return rows >= MIN_SPACE_ROWS and exact_cost(rows, row_bytes) > _MIN_EXACT_COST


def lexical_cost(rows: int, words: int) -> float:
    """Add up the postings of the words of a query; words that occur in many more chunks than most cost more."""
    return COSTS.call * words + rows * words * _WORD_SHARE * COSTS.posting


# -- before a search is planned ------------------------------------------------------------------------------------

_SEARCH, _CALL = 150.0, 20.0
"""Microseconds of a search beside comparing rows: checks, the plan, the order of the hits; and without the checks."""


def estimate_dense(segments: Segments, space_id: str, depth: SearchDepth | None, *, is_filtered: bool) -> float:
    """Seconds of a vector search with the checks around it; `depth` None: an exact one."""
    return (_SEARCH + _dense_cost(segments, space_id, depth, is_filtered=is_filtered)) / 1e6


def recall_costs(segments: Segments, space_id: str, calibration: Calibration | None) -> list[dict[str, float | None]]:
    """For each recall that may be asked for: it, what is promised, and the milliseconds of a search for COSTED_RESULTS
    hits without a filter. Recalls that cost as much as a higher one are answered by that."""
    costs: list[dict[str, float | None]] = []
    targets = [] if calibration is None else [target.target for target in calibration.targets if target.depths]
    for recall in (*targets, 1.0):
        depth = search_depth(calibration, COSTED_RESULTS, recall)
        promised = 1.0 if depth is None else depth.depths[0].mean
        microseconds = _CALL + _dense_cost(segments, space_id, depth, is_filtered=False)
        costs.append({"recall": recall, "promised": promised, "milliseconds": float(f"{microseconds / 1e3:.2g}")})
    return costs


def _dense_cost(segments: Segments, space_id: str, depth: SearchDepth | None, *, is_filtered: bool) -> float:
    """Microseconds of a vector search as it is planned."""
    exact = scan = listed = 0.0
    row_bytes = code_size = nlist = 0
    for view in segments:
        column, index = view.segment.columns[space_id], view.segment.scans.get(space_id)
        rows, row_bytes = len(column), column.row_bytes
        compared = exact_cost(rows, row_bytes)
        exact += compared
        own = compared if index is None else min(compared, scan_cost(rows, index.code_size, rows - is_filtered))
        scan += own
        if index is not None and index.nlist:
            listed, code_size, nlist = listed + own, index.code_size, index.nlist
    if depth is None:
        return exact
    if nlist and depth.scanned and not is_filtered:
        probed_lists = depth.scanned * nlist / max(1, _listed_entries(segments, space_id))
        scan += min(0.0, probing_cost(depth.scanned, code_size, probed_lists, nlist, row_bytes) - listed)
    return min(exact, scan + scan_setup_cost(depth.candidates, row_bytes))


def _listed_entries(segments: Segments, space_id: str) -> int:
    """The entries of all lists, copies included."""
    indexes = (view.segment.scans.get(space_id) for view in segments)
    return sum(2 * len(index) for index in indexes if index is not None and index.nlist)


def estimate_lexical(segments: Segments, text: str) -> float:
    """Seconds of a lexical search, or of the lexical side of a hybrid one."""
    rows = sum(view.segment.entry.chunks for view in segments)
    return (_SEARCH + lexical_cost(rows, len(text.split()))) / 1e6
