"""The verbs of a collection: what goes in comes out, each write is one commit, and each misuse is one clear error."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aidre
from aidre.engine.errors import Unanswerable
from tests.aidre.library.conftest import SMALL, letters
from tests.support.clocks import WAIT_SECONDS

RNG = np.random.default_rng(7)


def vectors_of(db: aidre.Database) -> aidre.Collection:
    """A collection of a hundred documents with vectors, without a model."""
    collection = db.collection("rows", space=aidre.EmbeddingSpace("mine", 8, "cosine"))
    collection.add(
        [{"id": str(row), "text": f"text {row}", "row": row} for row in range(100)],
        vectors=RNG.standard_normal((100, 8)),
    )
    return collection


def told(hits: Sequence[aidre.Hit]) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 5)) for hit in hits]


# -- adding ----------------------------------------------------------------------------------------------------


def test_texts_mappings_and_documents_are_stored_in_one_commit(docs: aidre.Collection) -> None:
    ids = docs.add(
        [
            "first text",
            {"id": "b", "text": "second", "price": 3, "url": "https://example.com/b"},
            aidre.Document("c", "third", title="Three"),
        ]
    )
    assert docs.generation == 1
    assert ids[1:] == ["b", "c"]
    assert [docs[one].text for one in ids] == ["first text", "second", "third"]
    assert (docs["b"].metadata, docs["b"].url, docs["c"].title) == ({"price": 3}, "https://example.com/b", "Three")


def test_a_second_run_doubles_nothing_and_commits_nothing(docs: aidre.Collection) -> None:
    rows = ["a text", {"text": "no id", "n": 1}, {"id": "x", "text": "an id"}]
    first = docs.add(rows)
    assert docs.add(rows) == first
    assert (len(docs), docs.generation) == (3, 1)


def test_a_document_replaces_that_with_the_same_id(docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "old words"})
    docs.add({"id": "a", "text": "new words"})
    assert (len(docs), docs["a"].text) == (1, "new words")


def test_of_two_rows_with_one_id_the_later_counts(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "old"}, {"id": "a", "text": "new"}])
    assert (len(docs), docs["a"].text) == (1, "new")


def test_scalars_and_arrays_of_numpy_are_metadata(docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "x", "n": np.int64(3), "f": np.float32(0.5), "l": np.arange(2), "b": np.bool_(True)})
    assert docs["a"].metadata == {"n": 3, "f": 0.5, "l": [0, 1], "b": True}


def test_a_table_of_arrow_brings_documents_and_vectors(db: aidre.Database) -> None:
    table = pa.table({"id": ["a", "b"], "text": ["one", "two"], "price": [1, None]})
    collection = db.collection("t", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
    collection.add(table, vectors=[[1, 0], [0, 1]])
    assert collection.search(vector=[0, 1], k=1)[0].document_id == "b"
    assert collection["a"].metadata == {"price": 1}


def test_a_row_may_bring_its_vectors(db: aidre.Database) -> None:
    collection = db.collection("t", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
    collection.add([{"id": "a", "text": "one", "vectors": {"mine": [1, 0]}}])
    assert collection.search(vector=[1, 0])[0].score == pytest.approx(1)


def test_a_function_may_embed_beside_vectors_that_rows_bring(docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "banana", "vectors": {"small": [0, 1, 0]}})
    assert docs.search(vector=[0, 1, 0])[0].score == pytest.approx(1)


def test_a_long_text_comes_back_whole(docs: aidre.Collection) -> None:
    text = "\n\n".join(f"Paragraph {number} says something about the number {number}." for number in range(200))
    docs.add({"id": "long", "text": text})
    reader = docs.reader
    assert reader is not None
    assert reader.chunks > 1
    assert docs["long"].text == text


def test_a_writer_commits_once_at_its_end(docs: aidre.Collection) -> None:
    with docs.writer() as writer:
        for number in range(1_500):
            writer.add({"id": str(number), "text": f"text {number}"})
        assert len(docs) == 0
    assert len(docs) == 1_500


def test_a_writer_commits_when_it_is_told_to(docs: aidre.Collection) -> None:
    with docs.writer() as writer:
        writer.add("one")
        writer.commit()
        assert len(docs) == 1
        writer.add("two")
    assert len(docs) == 2


def test_an_error_inside_a_writer_discards_what_was_not_committed(docs: aidre.Collection) -> None:
    with pytest.raises(KeyError), docs.writer() as writer:
        writer.add("one")
        raise KeyError
    assert len(docs) == 0
    docs.add("two")  # the lock was released
    assert len(docs) == 1


def test_nothing_is_stored_where_one_row_is_refused(docs: aidre.Collection) -> None:
    with pytest.raises(aidre.InvalidDocument, match="document 1: has no text"):
        docs.add(["good", {"id": "bad"}])
    assert len(docs) == 0


# -- searching -------------------------------------------------------------------------------------------------


def test_a_hit_has_the_members_of_its_chunk(docs: aidre.Collection) -> None:
    docs.add({"id": "b", "text": "lentil soup", "title": "Soup", "url": "https://example.com/b", "price": 3})
    (hit,) = docs.search("lentil")
    assert (hit.id, hit.document_id, hit.text) == ("b#chunk_1", "b", "lentil soup")
    assert (hit.title, hit.url, hit.metadata) == ("Soup", "https://example.com/b", {"price": 3})
    assert repr(hit).startswith("<Hit 'b#chunk_1', score 0.")


@pytest.mark.needs("lexical")
def test_search_takes_filter_mode_offset_and_a_least_score(docs: aidre.Collection) -> None:
    docs.add([{"id": str(price), "text": f"soup {'a' * price}", "price": price} for price in range(6)])
    assert {hit.document_id for hit in docs.search("soup", filter={"price": {"lt": 2}})} == {"0", "1"}
    every = docs.search("soup", k=6, mode="lexical")
    assert told(docs.search("soup", k=2, offset=3, mode="lexical")) == told(every[3:5])
    best = docs.search("soup aaa", mode="dense")
    assert [hit.score for hit in best] == sorted((hit.score for hit in best), reverse=True)
    assert told(docs.search("soup aaa", mode="dense", min_score=best[2].score)) == told(best[:3])


def test_search_many_answers_as_single_searches_do(db: aidre.Database) -> None:
    collection = vectors_of(db)
    queries = RNG.standard_normal((5, 8))
    many = collection.search_many(queries, k=3)
    assert [told(hits) for hits in many] == [told(collection.search(vector=query, k=3)) for query in queries]
    table = many.to_arrow()
    assert table.num_rows == 15
    assert table["query"].to_pylist() == [number for number in range(5) for _ in range(3)]
    assert table["id"].to_pylist()[:3] == [hit.id for hit in many[0]]


def test_search_many_takes_texts(docs: aidre.Collection) -> None:
    docs.add(["aaa", "eee"])
    assert [hits[0].text for hits in docs.search_many(["a", "e"], k=1, mode="dense")] == ["aaa", "eee"]
    assert len(docs.search_many([])) == 0


@pytest.mark.needs("lexical")
def test_a_text_is_searched_lexically_where_no_space_has_a_model(db: aidre.Database) -> None:
    assert vectors_of(db).search("17")[0].document_id == "17"


def test_the_space_of_a_search_can_be_named(db: aidre.Database) -> None:
    spaces = [aidre.EmbeddingSpace("one", 2, "cosine"), aidre.EmbeddingSpace("two", 2, "cosine")]
    collection = db.collection("two", space=spaces)
    collection.add(["a", "b"], vectors={"one": [[1, 0], [0, 1]], "two": [[0, 1], [1, 0]]})
    assert collection.search(vector=[1, 0], k=1)[0].text == "a"
    assert collection.search(vector=[1, 0], k=1, space="two")[0].text == "b"


# -- looking up ------------------------------------------------------------------------------------------------


def test_documents_are_found_by_id(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
    found = docs.get(["b", "none", "a"])
    assert [None if one is None else one.text for one in found] == ["two", None, "one"]
    assert ("a" in docs, "none" in docs, 3 in docs, len(docs)) == (True, False, False, 2)
    with pytest.raises(KeyError):
        docs["none"]


def test_documents_are_counted_and_scanned_by_filter(docs: aidre.Collection) -> None:
    docs.add([{"id": str(n), "text": f"text {n}", "n": n} for n in range(10)])
    docs.delete(["7"])
    assert docs.count() == 9
    assert docs.count({"n": {"gte": 5}}) == 4
    assert [document.id for document in docs.scan({"n": {"gte": 5}})] == ["5", "6", "8", "9"]


def test_a_scan_reads_the_state_of_its_call(docs: aidre.Collection) -> None:
    docs.add(["one", "two"])
    scan = docs.scan()
    docs.delete(filter={"document_id": {"exists": True}})
    assert (len(list(scan)), len(docs)) == (2, 0)


@pytest.mark.needs("generations")
def test_an_older_state_is_read_by_its_generation(docs: aidre.Collection) -> None:
    docs.add({"id": "a", "text": "one"})
    docs.add({"id": "a", "text": "two"})
    old = docs.at(generation=1)
    assert (old["a"].text, old.generation, docs["a"].text) == ("one", 1, "two")
    with pytest.raises(aidre.GenerationMissing):
        docs.at(generation=99)


def test_a_scan_of_named_fields_reads_these_alone(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "one", "title": "One", "price": 3}, {"id": "b", "text": "two"}])
    assert list(docs.scan(fields=["price", "title", "none"])) == [{"id": "a", "price": 3, "title": "One"}, {"id": "b"}]
    assert list(docs.scan({"price": 3}, fields=["text"])) == [{"id": "a", "text": "one"}]
    with pytest.raises(aidre.InvalidInput, match="list of names"):
        docs.scan(fields="price")


def test_facets_count_documents_and_not_chunks(docs: aidre.Collection) -> None:
    long = "\n\n".join(f"Paragraph {number} says something about {number}." for number in range(200))
    docs.add(
        [
            {"id": "a", "text": long, "brand": "x", "price": 3, "tags": ["red", "blue", "red"]},
            {"id": "b", "text": "two", "brand": "y", "price": 1.5, "tags": ["red"]},
            {"id": "c", "text": "three", "brand": "x", "price": True},
            {"id": "d", "text": "four", "brand": 7},
        ]
    )
    facets = docs.facets("brand", "price", "tags", "none")
    assert facets["brand"].counts == (("x", 2), (7, 1), ("y", 1))
    assert (facets["price"].counts, facets["price"].minimum, facets["price"].maximum) == (
        ((True, 1), (1.5, 1), (3, 1)),
        1.5,
        3,
    )
    assert (facets["tags"].counts, facets["tags"].missing) == ((("red", 2), ("blue", 1)), 2)
    assert facets["none"] == aidre.Facet((), 4, 4, None, None)
    assert [facets[name].distinct for name in ("brand", "price", "tags", "none")] == [3, 3, 2, 0]
    (limited,) = docs.facets("brand", limit=1).values()
    assert (limited.counts, limited.distinct, limited.minimum) == ((("x", 2),), 3, 7)
    assert docs.facets("brand", filter={"price": {"gt": 2}})["brand"].counts == (("x", 1),)


def test_facets_are_those_of_the_live_documents_of_all_segments(docs: aidre.Collection) -> None:
    rng = np.random.default_rng(3)
    model: dict[str, Any] = {}
    values = [1, 2.5, "a", "b", True, ["a", "b"], [1, "a"], None, "2026-04-01"]
    for _ in range(12):
        batch = {str(rng.integers(40)): values[rng.integers(len(values))] for _ in range(8)}
        docs.add([{"id": one, "text": f"text {one}", "v": value} for one, value in batch.items()])
        model |= batch
        doomed = [str(one) for one in rng.integers(40, size=3)]
        docs.delete(doomed)
        model = {one: value for one, value in model.items() if one not in doomed}
        counts: Counter[tuple[type, Any]] = Counter()
        for value in model.values():
            counts.update(
                {(type(one), one) for one in (value if isinstance(value, list) else [value]) if one is not None}
            )
        (facet,) = docs.facets("v").values()
        assert {(type(value), value): number for value, number in facet.counts} == counts
        assert (facet.documents, facet.missing) == (len(model), sum(value is None for value in model.values()))
        assert [number for _, number in facet.counts] == sorted(counts.values(), reverse=True)


def test_dates_have_a_least_and_a_greatest(docs: aidre.Collection) -> None:
    docs.add([{"id": str(day), "text": "x", "updated_at": f"2026-04-0{day}T10:00:00Z"} for day in (3, 1, 2)])
    facet = docs.facets("updated_at")["updated_at"]
    assert (facet.minimum, facet.maximum) == ("2026-04-01T10:00:00Z", "2026-04-03T10:00:00Z")
    assert facet.counts[0] == ("2026-04-01T10:00:00Z", 1)


# -- deleting --------------------------------------------------------------------------------------------------


def test_documents_are_deleted_by_id_and_by_filter(docs: aidre.Collection) -> None:
    docs.add([{"id": str(n), "text": f"text {n}", "n": n} for n in range(10)])
    assert docs.delete(["1", "none"]) == 1
    assert docs.delete(filter={"n": {"gt": 4}}) == 5
    assert [document.id for document in docs.scan()] == ["0", "2", "3", "4"]


def test_delete_wants_ids_or_a_filter(docs: aidre.Collection) -> None:
    docs.add("one")
    wrongs: list[Callable[[], int]] = [
        docs.delete,
        lambda: docs.delete(["a"], filter={"x": 1}),
        lambda: docs.delete("a"),
    ]
    for wrong in wrongs:
        with pytest.raises(aidre.InvalidInput, match="delete needs"):
            wrong()


# -- patching --------------------------------------------------------------------------------------------------


def stored_vectors(collection: aidre.Collection) -> dict[str, tuple[str, bytes]]:
    """By chunk, its hash and the bytes of its vectors as they are stored."""
    reader = collection.reader
    assert reader is not None
    return {
        chunk.id: (chunk.content_hash, b"".join(vector.tobytes() for vector in chunk.vectors().values()))
        for chunk in reader.scan()
    }


def test_a_patch_changes_metadata_and_nothing_else(docs: aidre.Collection) -> None:
    long = "\n\n".join(f"# Part {number}\n\nIt is about {number}." for number in range(120))
    docs.add([{"id": "a", "text": long, "title": "Long", "price": 3, "old": 1}, {"id": "b", "text": "two", "price": 1}])
    before, found = stored_vectors(docs), told(docs.search("about 7", k=5))
    changes = {"a": {"price": 4, "old": None, "url": "https://example.com/a", "updated_at": "2026-01-02"}}
    assert docs.patch(changes) == 1
    generation = docs.generation
    document = docs["a"]
    assert (document.metadata, document.url, document.updated_at) == (
        {"price": 4},
        "https://example.com/a",
        "2026-01-02T00:00:00Z",
    )
    assert (document.title, document.text[:10]) == ("Long", long[:10])
    assert stored_vectors(docs) == before
    assert told(docs.search("about 7", k=5)) == found
    assert docs.count({"price": 4}) == 1
    assert docs.patch(changes) == 0
    assert docs.generation == generation


def test_a_patch_keeps_vectors_that_came_with_rows_to_the_bit(db: aidre.Database) -> None:
    rows = db.collection("rows", space=aidre.EmbeddingSpace("mine", 96, "cosine"))
    rows.add([{"id": str(one), "text": f"text {one}"} for one in range(50)], vectors=RNG.standard_normal((50, 96)) * 7)
    before = stored_vectors(rows)
    assert rows.patch({str(one): {"n": np.int64(one)} for one in range(0, 50, 3)}) == 17
    assert stored_vectors(rows) == before
    assert [one["n"] for one in rows.scan({"n": {"gte": 45}}, fields=["n"])] == [45, 48]


def test_random_patches_leave_what_a_dict_says(docs: aidre.Collection) -> None:
    rng = np.random.default_rng(11)
    model: dict[str, dict[str, Any]] = {}
    for _ in range(10):
        added = {str(rng.integers(30)): {"n": int(rng.integers(9))} for _ in range(6)}
        docs.add([{"id": one, "text": f"text {one}", **members} for one, members in added.items()])
        model |= added
        chosen = [str(one) for one in rng.choice(sorted(model), 4, replace=False)]
        changes = {one: {"n": int(rng.integers(9)), "m": [None, "x", 2][rng.integers(3)]} for one in chosen}
        docs.patch(changes)
        for one, change in changes.items():
            model[one] = {name: value for name, value in {**model[one], **change}.items() if value is not None}
        assert {document.id: dict(document.metadata) for document in docs.scan()} == model


@pytest.mark.needs("lexical")
def test_a_new_title_is_embedded_again_and_found_by_words(docs: aidre.Collection) -> None:
    long = "\n\n".join(f"# Part {number}\n\nIt is about {number}." for number in range(120))
    rows = [{"id": "a", "text": long, "title": "One", "n": 1}, {"id": "b", "text": "two", "title": "B"}]
    docs.add(rows)
    before = stored_vectors(docs)
    assert docs.patch({"a": {"title": "Aardvarks"}}) == 1
    after = stored_vectors(docs)
    kept = {one for one in before if before[one] == after[one]}
    assert kept == {"b#chunk_1"}
    assert [one[0] for one in before.values()] == [after[one][0] for one in before]
    assert (docs["a"].title, docs["a"].metadata) == ("Aardvarks", {"n": 1})
    assert docs.search("aardvarks", mode="lexical")[0].document_id == "a"
    generation = docs.generation
    assert docs.patch({"a": {"title": "Aardvarks"}, "b": {"title": "B"}}) == 0
    assert docs.generation == generation
    docs.patch({"a": {"title": None}})
    assert docs["a"].title is None


def test_a_new_title_gives_the_vectors_that_adding_the_document_again_gives(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "one", "title": "A"}, {"id": "b", "text": "two", "title": "B"}])
    docs.patch({"b": {"title": "Banana", "n": 1}, "a": {"n": 2}})
    patched = stored_vectors(docs)
    docs.add([{"id": "a", "text": "one", "title": "A", "n": 2}, {"id": "b", "text": "two", "title": "Banana", "n": 1}])
    assert stored_vectors(docs) == patched


def test_a_new_title_leaves_vectors_that_the_row_brought(docs: aidre.Collection, db: aidre.Database) -> None:
    docs.add([{"id": "a", "text": "one", "title": "A", "vectors": {"small": [1, 0, 0]}}, {"id": "b", "text": "two"}])
    rows = db.collection("rows", space=aidre.EmbeddingSpace("mine", 2, "cosine"))
    rows.add([{"id": "a", "text": "one", "title": "A"}], vectors=[[1, 0]])
    for collection in (docs, rows):
        before = stored_vectors(collection)
        assert collection.patch({"a": {"title": "Aaa"}}) == 1
        assert stored_vectors(collection) == before
        assert collection["a"].title == "Aaa"


def test_a_patch_that_is_refused_changes_nothing(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "one", "n": 1}])
    refused: list[tuple[Any, type[aidre.AidreError], str]] = [
        ({"a": {"n": 2}, "none": {"n": 2}}, aidre.Missing, "'none'"),
        ({"a": {"text": None}}, aidre.InvalidDocument, "text must be a string"),
        ({"a": {"title": True}}, aidre.InvalidDocument, "title"),
        ({"a": {"section": "S"}}, aidre.InvalidDocument, "add the document again"),
        ({"a": {"etag": "x"}}, aidre.InvalidDocument, "reserved"),
        ({"a": {"n": object()}}, aidre.InvalidDocument, "n "),
        ({"a": {"url": 7}}, aidre.InvalidDocument, "url"),
        ({"a": {"updated_at": "soon"}}, aidre.InvalidDocument, "updated_at"),
        ({"a": 3}, aidre.InvalidInput, "mapping"),
        ([("a", {})], aidre.InvalidInput, "mapping"),
    ]
    for changes, kind, words in refused:
        with pytest.raises(kind, match=words):
            docs.patch(changes)
    assert (docs["a"].metadata, docs.generation) == ({"n": 1}, 1)


def test_an_ingest_restores_what_was_patched_and_still_knows_its_documents(
    docs: aidre.Collection, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("---\nprice: 3\n---\n# Soup\n\nLentil soup is good.\n")
    docs.ingest(folder)
    (name,) = [document.id for document in docs.scan()]
    docs.patch({name: {"price": 9}})
    assert docs[name].metadata == {"price": 9}
    assert docs.ingest(folder).updated == 1
    assert docs[name].metadata == {"price": 3}
    docs.patch({name: {"price": 9}})
    (folder / "a.md").unlink()
    (folder / "b.md").write_text("Bread.\n")
    assert docs.ingest(folder, mirror=True, force=True).deleted == 1


# -- ingesting -------------------------------------------------------------------------------------------------


def test_a_folder_is_ingested_and_mirrored(docs: aidre.Collection, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Soup\n\nLentil soup is good.\n")
    (folder / "b.md").write_text("# Bread\n\nBread is good too.\n")
    assert docs.ingest(folder).documents == 2
    (folder / "b.md").unlink()
    assert docs.ingest(folder, mirror=True).deleted == 1
    assert [document.title for document in docs.scan()] == ["Soup"]


# -- misuse ----------------------------------------------------------------------------------------------------


def test_each_misuse_is_one_clear_error_with_a_code(db: aidre.Database, docs: aidre.Collection) -> None:
    rows = vectors_of(db)
    docs.add("one")
    wide = aidre.EmbeddingSpace("small", 4, "cosine")
    misuses: list[tuple[Callable[[], Any], type[aidre.AidreError], str, str]] = [
        (lambda: rows.add("x"), aidre.InvalidDocument, "invalid_document", "no vector for the space 'mine'"),
        (lambda: rows.add("x", vectors=np.ones((1, 9))), aidre.DimensionMismatch, "dimension_mismatch", "8 dimensions"),
        (lambda: rows.add("x", vectors=np.ones(8)), aidre.InvalidInput, "invalid_input", "1 axes, not 2"),
        (lambda: rows.add("x", vectors=[["a"] * 8]), aidre.InvalidInput, "invalid_input", "are not numbers"),
        (lambda: rows.add("x", vectors=np.zeros((1, 8))), aidre.InvalidVector, "invalid_vector", "zero"),
        (lambda: rows.add(["x", "y"], vectors=np.ones((1, 8))), aidre.InvalidInput, "invalid_input", "1 vectors for 2"),
        (lambda: rows.add("x", vectors={"other": np.ones((1, 8))}), aidre.InvalidDocument, "invalid_document", "no "),
        (lambda: rows.search(vector=[1.0]), aidre.DimensionMismatch, "dimension_mismatch", "length 1"),
        (lambda: rows.search("x", mode="dense"), Unanswerable, "unsupported", "no embedding model"),
        (lambda: rows.search("x", mode="fuzzy"), aidre.InvalidInput, "invalid_input", "hybrid, dense or lexical"),  # type: ignore[arg-type]
        (lambda: rows.search(vector=[1] * 8, space="none"), aidre.SpaceMissing, "space_missing", "'none'"),
        (lambda: rows.search("x", k=0), aidre.InvalidInput, "invalid_input", "k must be"),
        (lambda: rows.search(" "), aidre.InvalidInput, "invalid_input", "blank"),
        (rows.search, aidre.InvalidInput, "invalid_input", "a text or vector="),
        (lambda: rows.search_many("text"), aidre.InvalidInput, "invalid_input", "list of texts"),
        (lambda: rows.get("text"), aidre.InvalidInput, "invalid_input", "list of ids"),
        (lambda: docs.add({"a": 1}), aidre.InvalidDocument, "invalid_document", "no text"),
        (lambda: docs.add(3), aidre.InvalidInput, "invalid_input", "not int"),
        (lambda: docs.add([3]), aidre.InvalidDocument, "invalid_document", "is int"),
        (lambda: docs.add("  "), aidre.InvalidDocument, "invalid_document", "no text"),
        (lambda: docs.add({"text": "a", "id": ""}), aidre.InvalidDocument, "invalid_document", "non-empty"),
        (lambda: docs.add({"text": "a", "x": object()}), aidre.InvalidDocument, "invalid_document", "x"),
        (lambda: docs.add({"text": "a", "etag": 1}), aidre.InvalidDocument, "invalid_document", "etag"),
        (
            lambda: docs.add(aidre.Document("d", "a", metadata={"etag": 1})),
            aidre.InvalidDocument,
            "invalid_document",
            "metadata.etag is a reserved name",
        ),
        (
            lambda: docs.add(aidre.Document("d", "a", metadata={"x": object()})),
            aidre.InvalidDocument,
            "invalid_document",
            "metadata.x",
        ),
        (lambda: docs.search("a", filter={"x": {"foo": 1}}), aidre.InvalidFilter, "invalid_filter", "one of eq"),
        (lambda: docs.ingest("/does/not/exist"), aidre.ConfigurationError, "configuration_error", "exist"),
        (lambda: db.collection("docs", space=wide).add("x"), aidre.SpaceConflict, "space_conflict", "small"),
    ]
    for number, (misuse, kind, code, words) in enumerate(misuses):
        with pytest.raises(kind, match=words) as caught:
            misuse()
            pytest.fail(f"misuse {number} ({words}) was taken")
        assert caught.value.code == code
    assert (len(rows), len(docs)) == (100, 1)


def test_a_function_that_is_not_brought_again_is_named(db: aidre.Database, docs: aidre.Collection) -> None:
    docs.add("one")
    other = db.collection("docs")
    with pytest.raises(aidre.ModelUnavailable, match="pass it as embed="):
        other.search("one", mode="dense")


def test_a_function_of_other_dimensions_is_named(db: aidre.Database) -> None:
    collection = db.collection("wide", space=SMALL, embed=lambda texts: [[1.0] * 4 for _ in texts])
    with pytest.raises(aidre.DimensionMismatch, match=r"shape \(1, 4\), not \(1, 3\)"):
        collection.add("one")


def hold_lock(path: str, held: Any, release: Any) -> None:
    with aidre.open(path).collection("docs", embed=letters).writer():
        held.set()
        release.wait(WAIT_SECONDS)


@pytest.mark.needs("segments")
def test_a_second_writer_waits_and_is_then_refused_with_the_process_of_the_first(
    db: aidre.Database, docs: aidre.Collection
) -> None:
    docs.add("one")
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=hold_lock, args=(str(db.path), held, release))
    process.start()
    try:
        assert held.wait(WAIT_SECONDS)
        impatient = db.collection("docs", space=SMALL, embed=letters, wait=0.1)
        with pytest.raises(aidre.StoreLocked, match=str(process.pid)) as caught:
            impatient.add("two")
        assert caught.value.code == "store_locked"
        assert [hit.text for hit in impatient.search("one")] == ["one"]
        release.set()
        docs.add("two")
    finally:
        release.set()
        process.join(WAIT_SECONDS)
    assert len(docs) == 2


def test_vectors_come_back_where_they_are_asked_for(db: aidre.Database) -> None:
    collection = db.collection("rows", space=aidre.EmbeddingSpace("mine", 8, "cosine", precision="float32"))
    vectors = (RNG.standard_normal((3, 8)) * 5).astype(np.float32)
    collection.add([{"id": str(row), "text": f"text {row}"} for row in range(3)], vectors=vectors)
    for row, document in enumerate(collection.scan(vectors=True)):
        assert document.vectors is not None
        np.testing.assert_allclose(document.vectors["mine"], vectors[row], rtol=1e-6)
    [found, missing] = collection.get(["2", "3"], vectors=True)
    assert found is not None
    assert found.vectors is not None
    np.testing.assert_allclose(found.vectors["mine"], vectors[2], rtol=1e-6)
    assert missing is None
    assert all(document.vectors is None for document in collection.scan())


def test_a_document_of_several_chunks_has_no_vector_of_its_own(docs: aidre.Collection) -> None:
    docs.add({"id": "long", "text": "A sentence of some words. " * 400})
    [document] = docs.get(["long"], vectors=True)
    assert document is not None
    assert document.vectors is None


@pytest.mark.needs("hybrid")
def test_a_text_and_its_vector_are_searched_hybrid_without_a_model(db: aidre.Database) -> None:
    collection = vectors_of(db)
    vector = collection.get(["7"], vectors=True)[0].vectors["mine"]  # type: ignore[union-attr,index]
    found = collection.search("text 7", vector=vector, k=3)
    assert found[0].document_id == "7"
    lexical = {hit.document_id: hit.score for hit in collection.search("text 7", mode="lexical", k=100)}
    dense = {hit.document_id: hit.score for hit in collection.search(vector=vector, k=100)}
    assert found[0].score not in {lexical["7"], dense["7"]}
    assert told(collection.search("text 7", vector=vector, k=3, mode="hybrid")) == told(found)
    with pytest.raises(aidre.InvalidInput, match="not both"):
        collection.search("text", vector=vector, mode="dense")
    dot = db.collection("dots", space=aidre.EmbeddingSpace("mine", 8, "dot"))
    dot.add({"id": "a", "text": "text"}, vectors=np.ones((1, 8)))
    with pytest.raises(aidre.InvalidInput, match="cannot be fused"):
        dot.search("text", vector=np.ones(8))
