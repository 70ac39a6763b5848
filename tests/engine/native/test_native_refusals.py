"""What the kernel refuses: shapes that do not fit, lists beyond their buffers, numbers that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.native import centroids_for, hits_of, kernel, one, pack_codes, random_codebook, search_one

ROWS, DIMENSIONS, SUB_QUANTIZERS, BLOCK = 100, 8, 4, 64
CODEBOOK = random_codebook(0, DIMENSIONS, SUB_QUANTIZERS)
VECTORS = np.random.default_rng(0).standard_normal((ROWS, DIMENSIONS)).astype(np.float32)
PACKED = pack_codes(CODEBOOK.encode(VECTORS), BLOCK)
QUERY = VECTORS[0]
BIG = 1 << 62


def _plan(*words: Any) -> object:
    return kernel.Plan(*words)


def columns_of(vectors: Any = VECTORS, ids: Any = (), batch_rows: int = 1, **changed: Any) -> kernel.Columns:
    given = {"metric": "dot", "dimensions": DIMENSIONS, "item_bytes": 4, **changed}
    return kernel.Columns(given["metric"], given["dimensions"], given["item_bytes"], [(vectors, ids, batch_rows)])


def codes_of(*lists: Any, **changed: Any) -> kernel.Codes:
    given = {
        "codewords": CODEBOOK.codewords,
        "weight": 0.0,
        "rotation": None,
        "count": SUB_QUANTIZERS,
        "d": 2,
        "block": BLOCK,
        **changed,
    }
    return kernel.Codes(
        given.get("columns") or columns_of(),
        given["codewords"],
        given["weight"],
        given["rotation"],
        given["count"],
        given["d"],
        given["block"],
        lists,
    )


def listed(
    offset: int = 0, first: int = 0, size: int = ROWS, rows: Any = None, codes: Any = PACKED, column: int = 0
) -> tuple[Any, ...]:
    return column, codes, rows, one(offset), one(first), one(size)


def test_what_fits_is_taken() -> None:
    codes_of(listed())
    codes_of(
        listed(rows=np.arange(ROWS, dtype=np.int32)), listed(first=ROWS, size=0), listed(offset=len(PACKED), size=0)
    )
    codes_of(rotation=np.ones((8, 8), np.float16))
    columns_of(VECTORS.astype(np.float16), item_bytes=2)
    columns_of(VECTORS[:0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: columns_of(metric="hamming"),
        lambda: columns_of(metric=""),
        lambda: columns_of(dimensions=0),
        lambda: columns_of(dimensions=-1),
        lambda: columns_of(dimensions=BIG),
        lambda: columns_of(dimensions=7),
        lambda: columns_of(item_bytes=8),
        lambda: columns_of(item_bytes=2),
        lambda: columns_of(VECTORS.astype(np.float64)),
        lambda: columns_of(VECTORS[:, :7]),
        lambda: columns_of(VECTORS[:, ::2]),
        lambda: columns_of(VECTORS.T),
        lambda: columns_of(b"abc"),
        lambda: columns_of(None),
        lambda: columns_of(batch_rows=0),
        lambda: columns_of(batch_rows=-1),
        lambda: columns_of(ids=[(np.empty(0, np.int64), b"")]),
        lambda: columns_of(ids=[(np.zeros(3, np.int32), b"")]),
        lambda: columns_of(ids=[(np.zeros(3, np.int64), "text")]),
        lambda: columns_of(ids=[(np.zeros(3, np.int64),)]),
        lambda: columns_of(ids=5),
        lambda: kernel.Columns("dot", 8, 4, 7),  # type: ignore[arg-type]
        lambda: kernel.Columns("dot", 8, 4, [VECTORS]),  # type: ignore[list-item]
        lambda: kernel.Columns("dot", 8, 4, [(VECTORS, ())]),  # type: ignore[list-item]
        lambda: kernel.Columns("dot", 1, 4, [(np.empty((0, 1), np.float32), (), 1)] * (1 << 16)),
    ],
)
def test_columns_of_other_shapes_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError, BufferError, SystemError)):
        make()


@pytest.mark.parametrize(
    "changed",
    [
        {"count": 3},
        {"count": 5},
        {"count": 0},
        {"count": -4, "d": -2},
        {"count": BIG, "d": BIG},
        {"count": 1 << 20, "d": 1 << 20},
        {"d": 1},
        {"d": 3},
        {"d": 0},
        {"block": 0},
        {"block": 16},
        {"block": 96},
        {"block": 256},
        {"block": -64},
        {"weight": float("nan")},
        {"weight": float("inf")},
        {"weight": -1.0},
        {"codewords": None},
        {"codewords": CODEBOOK.codewords[:3]},
        {"codewords": CODEBOOK.codewords.astype(np.float64)},
        {"codewords": CODEBOOK.codewords[:, ::-1]},
        {"codewords": np.where(np.arange(128).reshape(4, 16, 2) == 77, np.float32(np.nan), CODEBOOK.codewords)},
        {"codewords": np.where(np.arange(128).reshape(4, 16, 2) == 0, np.float32(np.inf), CODEBOOK.codewords)},
        {"codewords": np.where(np.arange(128).reshape(4, 16, 2) == 127, np.float32(-np.inf), CODEBOOK.codewords)},
        {"rotation": np.ones((8, 7), np.float16)},
        {"rotation": np.ones((7, 8), np.float16)},
        {"rotation": np.ones((8, 8), np.float32)},
        *({"rotation": np.full((8, 8), value, np.float16)} for value in (np.nan, np.inf, -np.inf)),
        {"rotation": np.ones((16, 8), np.float16).T},
        {"columns": CODEBOOK},
    ],
)
def test_a_codebook_of_another_shape_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        codes_of(listed(), **changed)


@pytest.mark.parametrize(
    "given",
    [
        listed(offset=1),
        listed(offset=-1),
        listed(offset=-64),
        listed(offset=BIG),
        listed(offset=-BIG),
        listed(offset=len(PACKED)),
        listed(offset=len(PACKED) + 1, size=0),
        listed(size=-1),
        listed(size=ROWS + 1),
        listed(size=BIG),
        listed(size=1 << 31),
        listed(size=-BIG),
        listed(first=-1),
        listed(first=1),
        listed(first=BIG),
        listed(codes=PACKED[:-1]),
        listed(codes=PACKED[::2]),
        listed(codes=np.empty(0, np.uint8)),
        listed(codes=None),
        listed(column=1),
        listed(column=-1),
        listed(column=BIG),
        listed(rows=np.arange(ROWS, dtype=np.int64)),
        listed(rows=np.arange(ROWS - 1, dtype=np.int32)),
        listed(rows=np.arange(ROWS, dtype=np.int32), first=1),
        listed(rows=np.arange(ROWS, dtype=np.int32), first=-1),
        listed(rows=np.arange(ROWS, dtype=np.int32), first=BIG),
        listed(rows=np.arange(1, ROWS + 1, dtype=np.int32)),
        listed(rows=np.arange(-1, ROWS - 1, dtype=np.int32)),
        listed(rows=np.full(ROWS, np.iinfo(np.int32).min, np.int32)),
        (0, PACKED, None, one(0), one(0), np.array([1, 1])),
        (0, PACKED, None, np.array([0, 0]), one(0), one(1)),
        (0, PACKED, None, np.zeros(1, np.int32), one(0), one(1)),
        (0, PACKED, None, one(0), one(0)),
        "list",
        None,
    ],
)
def test_lists_beyond_their_buffers_are_refused(given: Any) -> None:
    with pytest.raises((ValueError, TypeError, BufferError, SystemError)):
        codes_of(given)
    with pytest.raises((ValueError, TypeError, BufferError, SystemError)):
        codes_of(listed(), given)


def test_a_list_that_does_not_fit_does_not_hide_behind_those_that_do() -> None:
    sizes = np.array([10, 10, ROWS * 2, 10])
    with pytest.raises(ValueError, match="codes end beyond"):
        codes_of((0, PACKED, None, np.zeros(4, np.int64), np.zeros(4, np.int64), sizes))


def _probing(**changed: Any) -> Callable[[Any, Any], object]:
    """Makes a plan whose probe is changed; it fits as it is."""
    given = {
        "centroids": centroids_for(np.eye(3, 8, dtype=np.float32)),
        "lists": np.zeros(3, np.int64),
        "entries": np.zeros(3, np.int64),
        "others": np.zeros(0, np.int64),
        "rows": None,
        "allowed": None,
        **changed,
    }
    return lambda c, k: kernel.Plan(c, (None,), ((k, one(0), ROWS, tuple(given.values())),), (), ())


@pytest.mark.parametrize(
    "make",
    [
        lambda c, k: kernel.Plan(c, (), (), (), ()),
        lambda c, k: kernel.Plan(c, (None, None), (), (), ()),
        lambda c, k: kernel.Plan(c, (np.zeros(12, np.uint8),), (), (), ()),
        lambda c, k: _plan(c, (5,), (), (), ()),
        lambda c, k: _plan(c, [None], (), (), ()),
        lambda c, k: kernel.Plan(c, (None,), ((k, one(1), ROWS),), (), ()),
        lambda c, k: kernel.Plan(c, (None,), ((k, one(-1), ROWS),), (), ()),
        lambda c, k: kernel.Plan(c, (None,), ((k, np.zeros(1, np.int32), ROWS),), (), ()),
        lambda c, k: kernel.Plan(c, (None,), ((c, one(0), ROWS),), (), ()),
        lambda c, k: kernel.Plan(c, (None,), ((codes_of(listed()), one(0), ROWS),), (), ()),
        lambda c, k: kernel.Plan(c, (None,), (k,), (), ()),
        lambda c, k: kernel.Plan(c, (None,), (), (1,), ()),
        lambda c, k: kernel.Plan(c, (None,), (), (-1,), ()),
        lambda c, k: _plan(c, (None,), (), ("0",), ()),
        lambda c, k: kernel.Plan(c, (None,), (), (BIG * 4,), ()),
        lambda c, k: kernel.Plan(c, (None,), (), (), ((0, one(ROWS)),)),
        lambda c, k: kernel.Plan(c, (None,), (), (), ((0, one(-1)),)),
        lambda c, k: kernel.Plan(c, (None,), (), (), ((1, one(0)),)),
        lambda c, k: kernel.Plan(c, (None,), (), (), ((0, np.zeros(1, np.int32)),)),
        *(
            _probing(**changed)
            for changed in (
                {"centroids": CODEBOOK},
                {"centroids": centroids_for(np.zeros((3, 9), np.float32))},
                {"lists": np.array([0, 0, 1])},
                {"lists": np.array([0, 0, -1])},
                {"lists": np.zeros(4, np.int64)},
                {"lists": np.zeros(0, np.int64)},
                {"lists": np.zeros(3, np.int32)},
                {"entries": np.zeros(2, np.int64)},
                {"entries": np.array([0, 0, BIG])},
                {"entries": np.array([0, 0, -1])},
                {"entries": None},
                {"others": one(1)},
                {"rows": np.zeros(3, np.int64)},
                {"rows": np.zeros(3, np.int64), "allowed": np.array([0, 0, -1])},
                {"rows": np.zeros(2, np.int64), "allowed": np.zeros(3, np.int64)},
                {"allowed": np.zeros(3, np.int64)},
            )
        ),
        lambda c, k: _plan(c, (None,), ((k, one(0), ROWS, 5),), (), ()),
        lambda c, k: _plan(c, (None,), ((k, one(0), ROWS, (1, 2)),), (), ()),
        lambda c, k: kernel.Plan(k, (None,), (), (), ()),
        lambda c, k: _plan(None, (None,), (), (), ()),
    ],
)
def test_a_plan_that_does_not_fit_its_columns_is_refused(make: Callable[[Any, Any], object]) -> None:
    columns = columns_of()
    with pytest.raises((ValueError, TypeError, BufferError, SystemError, OverflowError)):
        make(columns, codes_of(listed(), columns=columns))


def test_a_probe_that_fits_its_codes_is_taken() -> None:
    columns = columns_of()
    codes = codes_of(listed(), columns=columns)
    counts = np.ones(3, np.int64)
    for changed in ({}, {"rows": counts, "allowed": counts}, {"others": one(0)}, {"lists": np.zeros(6, np.int64)}):
        plan = _probing(**changed)(columns, codes)
        assert isinstance(plan, kernel.Plan)
        for nprobe, gap in ((0, 0.0), (1, 0.0), (9, 0.5), (9, float("inf"))):
            assert len(plan.probe(QUERY, 3, 5, nprobe, gap)) == 1
        for words in ((-1, 0.0), (1 << 70, 0.0), (1, -1.0), (1, float("nan"))):
            with pytest.raises((ValueError, OverflowError)):
                plan.probe(QUERY, 3, 5, *words)
            with pytest.raises((ValueError, OverflowError)):
                plan.find([QUERY], True, 3, 5, *words)
        for query in (np.full(8, value, np.float32) for value in (np.nan, np.inf, -np.inf, 3e38, 1e-45, 0)):
            plan.probe(query, 3, 5, 2, 0.1)
            plan.find([QUERY, query], True, 3, 5, 2, 0.1)


@pytest.mark.parametrize(
    "vector",
    [
        None,
        [0.5] * 8,
        QUERY[:7],
        QUERY[None],
        QUERY.astype(np.float16),
        QUERY.astype(">f4"),
        np.arange(8),
        np.ones(16, np.float32)[::2],
        np.frombuffer(bytes(33), np.uint8)[1:].view(np.float32) + np.float32(np.nan),
        np.full(8, np.inf),
        np.zeros(8),
        b"8 bytes.",
        "text",
    ],
)
def test_a_vector_that_is_no_plain_query_is_left_to_others(vector: Any) -> None:
    columns = columns_of()
    plan = kernel.Plan(columns, (None,), ((codes_of(listed(), columns=columns), one(0), ROWS),), (), ())
    assert plan.find([QUERY, vector], True, 3, 5, 0, 0.0) is None
    assert plan.find([], True, 3, 5, 0, 0.0) == ()
    with pytest.raises(TypeError):
        plan.find((QUERY,), True, 3, 5, 0, 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"codes": np.zeros(3 * 63, np.uint8)},
        {"codes": np.zeros(0, np.uint8)},
        {"codes": np.zeros((1 << 16) * 64, np.uint8)},
        {"codes": None},
        {"mean": np.zeros(0, np.float32)},
        {"mean": np.zeros(65, np.float32)},
        {"mean": np.zeros(8)},
        {"mean": np.full(8, np.nan, np.float32)},
        {"squares": np.zeros(2, np.float32)},
        {"squares": np.full(3, np.inf, np.float32)},
        {"step": float("nan")},
        {"step": -1.0},
        {"step": float("inf")},
    ],
)
def test_centroids_of_another_shape_are_refused(changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"codes": np.zeros(3 * 64, np.uint8), "mean": np.zeros(8, np.float32)}
    given = {**given, "squares": np.zeros(3, np.float32), "step": 0.5, **changed}

    def make() -> kernel.Centroids:
        return kernel.Centroids(given["codes"], given["mean"], given["squares"], given["step"], False, False)

    with pytest.raises((ValueError, TypeError, BufferError)):
        make()
    centroids = centroids_for(np.eye(3, 8, dtype=np.float32))
    for query in (np.zeros(7, np.float32), np.zeros(8), None):
        with pytest.raises((ValueError, TypeError)):
            centroids.rank(query)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"centroids": np.zeros((4, 8), np.float32)},
        {"centroids": np.zeros((0, 8), np.float32)},
        {"centroids": np.zeros((3, 8))},
        {"centroids": None},
        {"codes": np.zeros((32, 8), np.uint8)},
        {"codes": np.zeros((16, 64), np.uint8)},
        {"mean": np.zeros(7, np.float32)},
        {"mean": np.zeros(0, np.float32)},
        {"half_squares": np.zeros(3, np.float32)},
        {"half_squares": np.zeros(64, np.float32)},
        {"products": np.zeros((3, 2), np.float32)},
        {"products": np.zeros((3, 3), np.float16)},
        {"step": float("nan")},
        {"spread": float("nan")},
        {"spread": -1.0},
    ],
)
def test_centroids_whose_arrays_do_not_fit_each_other_choose_no_lists(changed: dict[str, Any]) -> None:
    floats = {"centroids": (3, 8), "codes": (32, 64), "mean": (8,), "half_squares": (32,), "products": (3, 3)}
    given: dict[str, Any] = {name: np.ones(shape, np.float32) for name, shape in floats.items()}
    given |= {"codes": np.ones((32, 64), np.uint8), "step": 1.0, "spread": 1.0}
    rows = np.ones((5, 8), np.float32)
    assert len(kernel.Lists(*given.values()).choose(rows)) == 5 * 2 * 8
    assert len(kernel.Lists(*(given | {"products": np.empty(0, np.float32)}).values()).choose(rows)) == 5 * 8
    for wrong in (rows[:, :7].copy(), rows.astype(float), None):
        with pytest.raises((ValueError, TypeError, BufferError)):
            kernel.Lists(*given.values()).choose(wrong)  # type: ignore[arg-type]
    with pytest.raises((ValueError, TypeError, BufferError)):
        kernel.Lists(*(given | changed).values())


@pytest.mark.parametrize(
    "words",
    [
        (QUERY[:7], 1, 1, None, True),
        (QUERY.astype(np.float64), 1, 1, None, True),
        (np.ones((2, 7), np.float32), 1, 1, None, True),
        (np.ones(16, np.float32)[::2], 1, 1, None, True),
        (None, 1, 1, None, True),
        (QUERY, -1, 1, None, True),
        (QUERY, 1, -1, None, True),
        (QUERY, 1 << 33, 1, None, True),
        (QUERY, 1, 1 << 33, None, True),
        (QUERY, 1, 1, (), True),
        (QUERY, 1, 1, (None, None), True),
        (QUERY, 1, 1, [None], True),
        (QUERY, 1, 1, (one(1),), True),
        (QUERY, 1, 1, (one(-1),), True),
        (QUERY, 1, 1, (np.zeros(1, np.int32),), True),
        (QUERY, 1, 1),
    ],
)
def test_a_search_that_does_not_fit_its_plan_is_refused(words: Any) -> None:
    columns = columns_of()
    plan = kernel.Plan(columns, (None,), ((codes_of(listed(), columns=columns), one(0), ROWS),), (), ())
    with pytest.raises((ValueError, TypeError, BufferError)):
        plan.search(*words)
    found = search_one(plan, QUERY, 3, 50)
    assert len(hits_of(found[0])) == 3


@pytest.mark.parametrize(
    "words",
    [
        (1, QUERY, one(0), np.empty(1)),
        (-1, QUERY, one(0), np.empty(1)),
        (0, QUERY[:7], one(0), np.empty(1)),
        (0, QUERY, one(ROWS), np.empty(1)),
        (0, QUERY, one(-1), np.empty(1)),
        (0, QUERY, one(0), np.empty(2)),
        (0, QUERY, one(0), np.empty(1, np.float32)),
        (0, QUERY, one(0), b"12345678"),
        (0, QUERY, np.zeros(1, np.int32), np.empty(1)),
    ],
)
def test_scores_of_rows_that_are_not_there_are_refused(words: Any) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        columns_of().score(*words)


@pytest.mark.parametrize("words", [(1, QUERY, 1, None), (0, QUERY[:7], 1, None), (0, QUERY, 1, np.zeros(12, np.uint8))])
def test_a_column_that_is_not_there_or_a_short_bitmap_is_refused(words: Any) -> None:
    with pytest.raises(ValueError, match=r"column|query|bitmap"):
        columns_of().search(*words)


def test_a_kernel_that_is_not_there_is_refused() -> None:
    for name in ("avx9000", "", "AVX2"):
        with pytest.raises(ValueError, match="kernel"):
            kernel.choose(name)
    with pytest.raises(TypeError):
        kernel.choose(5)  # type: ignore[arg-type]
