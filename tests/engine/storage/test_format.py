"""The on-disk format: names of files that no id can leave or collide in, and the sizes that depend on a space."""

from __future__ import annotations

import pytest

from aidre.engine.errors import InvalidInput
from aidre.engine.model import Distance, Precision
from aidre.engine.storage.format import (
    MAX_ARROW_VALUES,
    MAX_SEGMENT_ROWS,
    check_collection_name,
    find_index_file,
    index_file,
    keys_file,
    max_segment_rows,
    precision_of,
    space_files,
    vectors_file,
    vectors_schema,
)
from tests.support.stores import space_of

IDS = ["a", "A", "a/b", "../a", ".", "..", "a b", "é", "%2E", "a.vectors", "x" * 500, "x" * 499 + "y", "\0", ""]


def test_each_space_has_files_of_its_own_in_the_folder() -> None:
    names = [name for id_ in IDS for name in (vectors_file(id_), keys_file(id_), index_file(id_), index_file(id_, 7))]
    assert len(set(names)) == 4 * len(IDS)
    for name in names:
        assert not {"/", "\0"} & set(name)
        assert name.isascii() and len(name) < 255
    assert all(not vectors_file(id_).startswith(".") for id_ in IDS if id_)


def test_the_index_of_a_space_is_found_whatever_its_generation() -> None:
    for name in (index_file("a"), index_file("a", 7), index_file("a", 1_234_567)):
        assert find_index_file([vectors_file("a"), name, index_file("b")], "a") == name
    assert find_index_file([index_file("b"), index_file("a.index"), vectors_file("a")], "a") is None
    assert find_index_file(["a.index.x.arrow", "a.index.٣.arrow", "a.index..arrow"], "a") is None


def test_the_files_of_a_space_are_those_that_are_there() -> None:
    own = {vectors_file("a"), keys_file("a"), index_file("a", 7)}
    assert space_files([*own, vectors_file("ab"), "documents.arrow"], "a") == own
    assert space_files(["documents.arrow"], "a") == set()


@pytest.mark.parametrize(
    ("distance", "dimensions", "declared", "precision"),
    [
        ("cosine", 64, None, "float16"),
        ("cosine", 63, None, "float32"),
        ("dot", 384, None, "float32"),
        ("euclidean", 384, None, "float32"),
        ("dot", 3, "float16", "float16"),
        ("cosine", 384, "float32", "float32"),
    ],
)
def test_the_precision_is_the_declared_one_or_suits_the_distance(
    distance: Distance, dimensions: int, declared: Precision | None, precision: Precision
) -> None:
    space = space_of(distance, dimensions, precision=declared)
    assert precision_of(space) == precision
    vector = vectors_schema(space).field("vector").type
    assert (vector.list_size, vector.value_type.bit_width) == (dimensions, int(precision.removeprefix("float")))


def test_the_vectors_of_a_segment_fit_one_batch() -> None:
    assert max_segment_rows(1) == MAX_SEGMENT_ROWS
    for dimensions in (1_024, 4_096, 100_000):
        assert MAX_ARROW_VALUES - dimensions < max_segment_rows(dimensions) * dimensions <= MAX_ARROW_VALUES or (
            max_segment_rows(dimensions) == MAX_SEGMENT_ROWS
        )


@pytest.mark.parametrize("name", ["a", "0", "a.b_c-d", "a" * 64])
def test_a_plain_name_is_one_of_a_collection(name: str) -> None:
    assert check_collection_name(name) == name


@pytest.mark.parametrize("name", ["", "A", ".a", "-a", "a/b", "..", "a\n", "a" * 65, "é"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="use 1 to 64 of"):
        check_collection_name(name)
