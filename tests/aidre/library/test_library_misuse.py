"""Each misuse of the library is one exception with a code; its message is one line that names the cure."""

from __future__ import annotations

import errno
import os
import site
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aidre
from aidre.engine.errors import Unanswerable
from aidre.engine.storage import WriterLock
from tests import ROOT
from tests.aidre.library.conftest import SMALL, letters

MINE = aidre.EmbeddingSpace("mine", 3, "cosine")
OTHER = aidre.EmbeddingSpace("mine", 4, "cosine")
NAN = float("nan")
INVALID, VECTOR, FILTER = "invalid_input", "invalid_vector", "invalid_filter"
DOCUMENT, DIMENSION, SPACE = "invalid_document", "dimension_mismatch", "space_missing"
CLASSES = {
    INVALID: aidre.InvalidInput,
    VECTOR: aidre.InvalidVector,
    FILTER: aidre.InvalidFilter,
    DOCUMENT: aidre.InvalidDocument,
    DIMENSION: aidre.DimensionMismatch,
    SPACE: aidre.SpaceMissing,
    "unsupported": Unanswerable,
    "missing": aidre.Missing,
    "document_missing": aidre.DocumentMissing,
    "generation_missing": aidre.GenerationMissing,
    "collection_missing": aidre.CollectionMissing,
    "space_conflict": aidre.SpaceConflict,
    "store_locked": aidre.StoreLocked,
    "storage_failed": aidre.StorageFailed,
    "model_unavailable": aidre.ModelUnavailable,
    "configuration_error": aidre.ConfigurationError,
    "closed": aidre.Closed,
}


class Store:
    """A database with texts (`docs`, embedded by a function) and vectors (`vec`, brought)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = aidre.open(folder / "store")
        self.docs = self.db.collection("docs", space=SMALL, embed=letters)
        self.docs.add([{"id": "a", "text": "one", "price": 3}, {"id": "b", "text": "two"}])
        self.vec = self.db.collection("vec", space=MINE)
        self.vec.add([{"id": "a", "text": "one"}], vectors=[[1, 0, 0]])
        self.file = folder / "file"
        self.file.write_text("x")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("misuse"))
    yield store
    store.db.close()


def refused(code: str, words: str, verb: Callable[[], object]) -> aidre.AidreError:
    with pytest.raises(aidre.AidreError) as caught:
        verb()
    error, message = caught.value, str(caught.value)
    assert type(error) is CLASSES[code]
    assert (error.code, error.message) == (code, message)
    assert words in message, message
    assert "\n" not in message
    assert len(message) < 1_000
    for place in (str(ROOT), *site.getsitepackages(), "Traceback", "0x"):
        assert place not in message
    return error


Case = tuple[str, str, Callable[[Store], object]]


def with_member(name: str, value: Any) -> aidre.Document:
    members: dict[str, Any] = {name: value}
    return replace(aidre.Document("q", "x"), **members)


def ragged() -> list[Any]:
    return [[1, 0, 0], [1, 0]]


VECTORS: list[tuple[Any, str, str]] = [
    (b"abc", INVALID, "not numbers"),
    ("abc", INVALID, "not numbers"),
    (["1", "0", "0"], INVALID, "not numbers"),
    ([True, False, True], INVALID, "not numbers"),
    ([1j, 0, 0], INVALID, "not numbers"),
    ([None, 0, 0], INVALID, "not numbers"),
    (ragged(), INVALID, "rows of one length"),
    ([[1, 0, 0]], INVALID, "2 axes, not 1"),
    (3, INVALID, "0 axes, not 1"),
    ({"a": 1}, INVALID, "not numbers"),
    ([NAN, 0, 0], VECTOR, "not finite"),
    ([1e300, 0, 0], VECTOR, "not finite"),
    ([0, 0, 0], VECTOR, "zero"),
    ([1, 0], DIMENSION, "requires 3"),
    ([], DIMENSION, "requires 3"),
]
MATRICES: list[tuple[Any, str, str]] = [
    (None, DOCUMENT, "bring one"),
    ("abc", INVALID, "not numbers"),
    (b"abc", INVALID, "not numbers"),
    ([1, 0, 0], INVALID, "1 axes, not 2"),
    (np.ones((2, 1, 3)), INVALID, "3 axes, not 2"),
    (ragged(), INVALID, "rows of one length"),
    ((row for row in ragged()), INVALID, "not numbers"),
    ([[1, 0, 0]], INVALID, "1 vectors for 2 documents: bring one each"),
    ([[1, 0, 0]] * 3, INVALID, "3 vectors for 2 documents: bring one each"),
    ([[1, 0], [1, 0]], DIMENSION, "3 dimensions"),
    ([[1, 0, 0], [NAN, 0, 0]], VECTOR, "not finite"),
    ([[0, 0, 0], [1, 0, 0]], VECTOR, "zero"),
    ({"nope": [[1, 0, 0]] * 2}, DOCUMENT, "mine"),
    ({"mine": None}, INVALID, "not numbers"),
]
FILTERS: list[tuple[Any, str]] = [
    ("x", "must be an object"),
    (3, "must be an object"),
    ([1], "must be an object"),
    ({"a": {"like": 1}}, "use one of eq"),
    ({"a": None}, '"exists": false'),
    ({"a": NAN}, "a number"),
    ({"a": {1}}, "for several values"),
    ({"a": b"x"}, "write one value"),
    ({"a": object()}, "write one value"),
    ({1: 2}, "not a string"),
    ({"price": {"in": 1}}, "must be a list"),
    ({"not": {"not": "x"}}, "must be an object"),
]
ROWS: list[tuple[Any, str, str]] = [
    (None, INVALID, "not NoneType"),
    (3, INVALID, "not int"),
    (b"x", INVALID, "not bytes"),
    ("", DOCUMENT, "has no text"),
    (" ", DOCUMENT, "has no text"),
    ({}, DOCUMENT, "document 0: has no text"),
    ({"text": 3}, DOCUMENT, "document 0: has no text"),
    (["x", None], DOCUMENT, "document 1: is NoneType"),
    ([["a"]], DOCUMENT, "document 0: is list"),
    ({"id": 3.5, "text": "x"}, DOCUMENT, "id must be a non-empty string"),
    ({"id": " ", "text": "x"}, DOCUMENT, "id must be a non-empty string"),
    ({"id": "x" * 2000, "text": "x"}, DOCUMENT, "at most 1024"),
    ({"id": "a\n", "text": "x"}, DOCUMENT, "control character"),
    ({"text": "x", 3: 4}, DOCUMENT, "must be strings"),
    ({"text": "x", "m": object()}, DOCUMENT, "m holds a value"),
    ({"text": "x", "m": b"x"}, DOCUMENT, "m holds a value"),
    ({"text": "x", "m": {"deep": [object()]}}, DOCUMENT, "m holds a value"),
    ({"text": "x", "m": "\ud800"}, DOCUMENT, "surrogate"),
    ("\ud800", DOCUMENT, "surrogate"),
    ({"text": "x", "etag": "y"}, DOCUMENT, "etag"),
    ({"text": "x", "title": [1]}, DOCUMENT, "title must be a string"),
    ({"text": "x", "updated_at": 3}, DOCUMENT, "RFC 3339"),
    ({"text": "x", "metadata": 3}, DOCUMENT, "metadata must be"),
    ({"text": "x", "vectors": [1, 2]}, DOCUMENT, "mapping of spaces"),
    ({"text": "x", "vectors": {"small": "abc"}}, DOCUMENT, "not numbers"),
    ({"text": "x", "vectors": {"nope": [1, 0, 0]}}, DOCUMENT, "not a space of this collection"),
    ({"text": "x", "vectors": {"small": [1]}}, DIMENSION, "3 dimensions"),
    ({"text": "x", "vectors": {"small": [NAN, 1, 1]}}, VECTOR, "not finite"),
    (aidre.Document("q", ""), DOCUMENT, "no text"),
    *(
        (with_member(name, value), DOCUMENT, name)
        for name, value in [
            ("id", b"q"),
            ("text", 3),
            ("title", 3),
            ("url", 3),
            ("type", 3),
            ("section", 3),
            ("source", 3),
            ("updated_at", "soon"),
            ("metadata", [1]),
            ("metadata", None),
            ("metadata", {"m": object()}),
            ("vectors", [1]),
        ]
    ),
]
SEARCHES: list[tuple[dict[str, Any], str, str]] = [
    ({}, INVALID, "needs a text or vector="),
    *(({"text": text}, INVALID, "not blank") for text in (3, b"abc", ["a"], "", "  ")),
    *(
        ({"text": "x", name: value}, INVALID, f"{name} must be a whole number from")
        for name in ("k", "offset")
        for value in (-1, 10**9, 1.5, "3", None, True, NAN)
    ),
    ({"text": "x", "k": 0}, INVALID, "from 1 to 10,000, not 0"),
    *(({"text": "x", "mode": mode}, INVALID, "use hybrid, dense or lexical") for mode in ("fuzzy", 3, ["dense"], "")),
    ({"vector": [1, 0, 0], "mode": "lexical"}, INVALID, "needs a text"),
    ({"text": "x", "vector": [1, 0, 0], "mode": "dense"}, INVALID, "not both"),
    ({"text": " ", "vector": [1, 0], "mode": "hybrid"}, INVALID, "not blank"),
    ({"text": "x", "space": "nope"}, SPACE, "the collection has: small"),
    *(({"text": "x", "space": space}, INVALID, "id of a space") for space in (3, ["a"], b"small")),
    *(
        ({"text": "x", "recall": recall}, INVALID, "recall must be a number above 0")
        for recall in (0, 1.5, NAN, "x", True)
    ),
    *(({"text": "x", "fusion": way}, INVALID, "use score or rrf") for way in ("ranks", 3, ["rrf"], "")),
    *(
        ({**asked, "fusion": "rrf"}, INVALID, "fusion= is for hybrid search, and this one is")
        for asked in ({"text": "x", "mode": "lexical"}, {"vector": [1, 0, 0]})
    ),
    *(({"text": "x", "min_score": score}, INVALID, "min_score must be a number") for score in ("high", [1], NAN)),
]
MANY: list[tuple[Any, str]] = [(None, "not NoneType"), (3, "not int"), ("x", "not str"), ({"a": 1}, "not dict")]
IDS: list[tuple[Any, str]] = [
    ("a", "list of ids"),
    (3, "not int"),
    (b"a", "list of ids"),
    ([3], "strings, not int"),
    ([None], "strings, not NoneType"),
    ([b"a"], "strings, not bytes"),
    ([["a"]], "strings, not list"),
]
PATCHES: list[tuple[Any, str, str]] = [
    (None, INVALID, "mapping of ids"),
    ("a", INVALID, "mapping of ids"),
    ([1], INVALID, "mapping of ids"),
    ({"a": 3}, INVALID, "mapping of ids"),
    ({"none": {"x": 1}}, "document_missing", "'none'"),
    ({"a": {"x": object()}}, DOCUMENT, "x holds a value"),
    ({"a": {"text": 3}}, DOCUMENT, "text must be a string"),
    ({b"a": {"x": 1}}, DOCUMENT, "id must be"),
]
SPACES: list[tuple[Any, str]] = [
    ("mine", "an aidre.EmbeddingSpace"),
    (3, "an aidre.EmbeddingSpace"),
    ([None], "an aidre.EmbeddingSpace"),
    ([], "at least one"),
    ([MINE, MINE], "an id of its own"),
    *((aidre.EmbeddingSpace(one, 3, "cosine"), "not blank") for one in (3, "", " ")),  # type: ignore[arg-type]
    *((aidre.EmbeddingSpace("m", size, "cosine"), "from 1 to") for size in (0, -1, "3", 3.0, True, 10**9)),  # type: ignore[arg-type]
    (aidre.EmbeddingSpace("m", 3, "manhattan"), "cosine, dot, euclidean"),  # type: ignore[arg-type]
    (aidre.EmbeddingSpace("m", 3, "cosine", precision="int8"), "float16, float32"),  # type: ignore[arg-type]
    (aidre.EmbeddingSpace("m", 3, "cosine", model=3), "the name of one"),  # type: ignore[arg-type]
]
NAMES = ("", "..", "A", "a/b", ".hidden", "a" * 65, "a\0", None, 3, b"a")
PATHS = (None, 3, b"x", "", "a\0b")
CASES: list[Case] = [
    *((code, words, lambda s, v=v: s.vec.search(vector=v)) for v, code, words in VECTORS),
    *((code, words, lambda s, v=v: s.vec.search("x", vector=v)) for v, code, words in VECTORS),
    *((code, words, lambda s, v=v: s.vec.add(["x", "y"], vectors=v)) for v, code, words in MATRICES),
    *(
        (FILTER, words, lambda s, v=v, verb=verb: verb(s.docs, v))
        for v, words in FILTERS
        for verb in (
            lambda docs, v: docs.search("x", filter=v),
            lambda docs, v: docs.search_many(["x"], filter=v),
            lambda docs, v: docs.count(v),
            lambda docs, v: docs.delete(filter=v),
            lambda docs, v: list(docs.scan(v)),
            lambda docs, v: docs.facets("price", filter=v),
        )
    ),
    *((code, words, lambda s, v=v: s.docs.add(v)) for v, code, words in ROWS),
    (INVALID, "not bytes", lambda s: s.docs.add(b"a text")),
    (DOCUMENT, "vectors are vectors=", lambda s: s.vec.add(np.eye(3))),
    *((DOCUMENT, f"in {n}: write \"vectors\"", lambda s, n=n: s.vec.add({n: [1, 0]})) for n in ("vector", "embedding")),
    (INVALID, "1 vectors for 2 documents", lambda s: s.vec.add([{"id": "x"}, {"id": "y"}], vectors=[[1, 0, 0]])),
    (INVALID, "takes rows without a name, and vectors= by name", lambda s: s.docs.add("a", "text")),  # type: ignore[call-arg]
    (INVALID, "takes text without a name, and vector=, k=", lambda s: s.docs.search("text", 3)),  # type: ignore[call-arg]
    (INVALID, "takes changes without a name, and nothing", lambda s: s.docs.patch("a", {})),  # type: ignore[call-arg, arg-type]
    (INVALID, "not list: a vector is vector=", lambda s: s.vec.search([1, 0, 0])),  # type: ignore[arg-type]
    (INVALID, "not int64: pass int(k)", lambda s: s.docs.search("x", k=np.int64(3))),  # type: ignore[arg-type]
    (INVALID, "scan() gives all", lambda s: list(s.docs)),  # type: ignore[call-overload]
    (INVALID, 'as in facets("price"', lambda s: s.docs.facets(["price"])),  # type: ignore[arg-type]
    *((code, words, lambda s, v=v: s.docs.search(**v)) for v, code, words in SEARCHES),
    *((INVALID, words, lambda s, v=v: s.docs.search_many(v)) for v, words in MANY),
    (INVALID, "not both in one", lambda s: s.docs.search_many(["a", 3])),
    (INVALID, "2 axes, not 1", lambda s: s.vec.search_many([[[1, 0, 0]]])),
    (DIMENSION, "requires 3", lambda s: s.vec.search_many(ragged())),
    *(
        (INVALID, words, lambda s, v=v, verb=verb: getattr(s.docs, verb)(v))
        for v, words in IDS
        for verb in ("get", "delete")
    ),
    *((INVALID, "takes the id of a document, not", lambda s, v=v: s.docs[v]) for v in (3, None, b"a", ["a"])),
    ("document_missing", "'none'", lambda s: s.docs["none"]),
    (INVALID, "ids or filter=", lambda s: s.docs.delete()),
    (INVALID, "not both", lambda s: s.docs.delete(["a"], filter={"price": 1})),
    *((code, words, lambda s, v=v: s.docs.patch(v)) for v, code, words in PATCHES),
    (INVALID, "names of fields", lambda s: s.docs.facets()),
    (INVALID, "names of fields", lambda s: s.docs.facets(3)),  # type: ignore[arg-type]
    *((INVALID, "limit must be", lambda s, v=v: s.docs.facets("price", limit=v)) for v in (0, -1, "3", 1.5)),
    *((INVALID, "list of names", lambda s, v=v: list(s.docs.scan(fields=v))) for v in ("price", 3, [3])),
    *((INVALID, "generation must be", lambda s, v=v: s.docs.at(v)) for v in (-1, "1", None, 1.5, 10**30)),
    ("generation_missing", "no generation 99", lambda s: s.docs.at(99)),
    *((INVALID, "collection name", lambda s, v=v: s.db.collection(v)) for v in NAMES),
    *((INVALID, "collection name", lambda s, v=v: s.db.drop(v)) for v in NAMES),
    ("collection_missing", "'none'", lambda s: s.db.drop("none")),
    ("collection_missing", "'none'", lambda s: s.db.collection("none").at(1)),
    *((INVALID, words, lambda s, v=v: s.db.collection("new", space=v)) for v, words in SPACES),
    *((INVALID, "seconds", lambda s, v=v: s.db.collection("docs", wait=v)) for v in (-1, "3", NAN, None)),
    *((INVALID, "seconds", lambda s, v=v: s.db.drop("docs", wait=v)) for v in (-1, "3", NAN, None)),
    *((INVALID, "path", lambda s, v=v: aidre.open(v)) for v in PATHS),
    *((INVALID, "path", lambda s, v=v: aidre.open_async(v)) for v in PATHS),
    *((INVALID, "path", lambda s, v=v: s.db.backup(v)) for v in PATHS),
    *((INVALID, "path", lambda s, v=v: s.docs.ingest(v)) for v in PATHS),
    (INVALID, "home of a user", lambda s: aidre.open("~nobody-of-that-name/x")),
    ("missing", "is a file: name a folder", lambda s: aidre.open(s.file)),
    ("missing", "is a file: name a folder", lambda s: aidre.open(str(s.file))),
    (INVALID, "name a new file", lambda s: s.db.backup(s.file)),
    (INVALID, "outside of it", lambda s: s.db.backup(s.db.path / "b.tar")),
    ("storage_failed", "cannot write", lambda s: s.db.backup(s.folder / "none" / "b.tar")),
    (INVALID, "path or address", lambda s: s.docs.ingest()),
    (INVALID, "no option nope: it has", lambda s: s.docs.ingest(s.file, nope=1)),
    ("configuration_error", "cannot be read", lambda s: s.docs.ingest(s.folder / "none")),
    ("space_conflict", "dimensions 3", lambda s: s.db.collection("vec", space=OTHER).add("x")),
    ("unsupported", "no embedding model", lambda s: s.vec.search("x", mode="dense")),
    ("model_unavailable", "pass it as embed=", lambda s: s.db.collection("docs").search("x", mode="hybrid")),
    ("model_unavailable", "pass it as embed=", lambda s: s.db.collection("docs").add("x")),
    (DIMENSION, "not (1, 3)", lambda s: s.db.collection("docs", embed=lambda texts: None).add("x y")),
    (DIMENSION, "not (1, 3)", lambda s: s.db.collection("docs", embed=lambda texts: [[1]]).search("x y")),
    (INVALID, "no matrix", lambda s: s.db.collection("docs", embed=lambda texts: "x").search("x y")),
    (VECTOR, "not finite", lambda s: s.db.collection("docs", embed=lambda texts: [[NAN] * 3]).add("x y")),
    ("closed", "with collection.writer()", lambda s: s.docs.writer().add("x")),
    ("closed", "with collection.writer()", lambda s: s.docs.writer().add_all(["x"])),
    ("closed", "with collection.writer()", lambda s: s.docs.writer().delete(["a"])),
    ("closed", "with collection.writer()", lambda s: s.docs.writer().patch({"a": {"x": 1}})),
    ("closed", "with collection.writer()", lambda s: s.docs.writer().commit()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{code}" for number, (code, _, _) in enumerate(CASES)])
def test_a_misuse_is_one_exception_and_changes_nothing(store: Store, case: Case) -> None:
    code, words, verb = case
    before = store.docs.generation, store.vec.generation, store.db.collections()
    refused(code, words, lambda: verb(store))
    assert (store.docs.generation, store.vec.generation, store.db.collections()) == before


def test_a_writer_that_has_ended_is_closed(store: Store) -> None:
    with store.docs.writer() as writer:
        pass
    refused("closed", "with collection.writer()", lambda: writer.add("x"))


def test_a_second_writer_is_refused_with_the_process_that_writes(store: Store) -> None:
    second = store.db.collection("docs", embed=letters, wait=0)
    with WriterLock(store.db.path / "docs", "docs"):
        for verb in (lambda: second.add("x"), lambda: store.db.drop("docs", wait=0), lambda: second.delete(["a"])):
            error = refused("store_locked", "wait until it ends or stop it", verb)
            assert error.details["pid"] == os.getpid()


def test_a_missing_document_is_a_key_error_too(store: Store) -> None:
    with pytest.raises(KeyError, match=r"^there is no document 'none'$"):
        store.docs["none"]


def test_nothing_to_add_is_no_error(store: Store) -> None:
    generation = store.docs.generation
    assert (store.docs.add([]), store.docs.patch({}), store.docs.get([]), store.docs.delete([])) == ([], 0, [], 0)
    assert store.docs.generation == generation


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_a_folder_that_is_read_only_or_full_is_a_storage_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with aidre.open(tmp_path / "store") as db:
        docs = db.collection("docs", space=MINE)
        docs.add("one", vectors=[[1, 0, 0]])

        def fails(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fails)
            refused("storage_failed", os.strerror(number), lambda: docs.add("two", vectors=[[1, 0, 0]]))
        assert len(docs) == 1
        docs.add("two", vectors=[[1, 0, 0]])
        assert len(docs) == 2


def test_a_place_where_no_folder_can_be_made_is_a_storage_failure() -> None:
    db = aidre.open("/proc/none/store")
    assert db.collections() == []
    refused("storage_failed", "cannot", lambda: db.collection("docs", space=MINE).add("x", vectors=[[1, 0, 0]]))


def test_what_a_function_or_an_iterator_of_the_program_raises_comes_through(store: Store) -> None:
    def broken(texts: list[str]) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.db.collection("docs", embed=broken).add("never seen before")
    with pytest.raises(ZeroDivisionError):
        store.docs.add(1 / 0 for _ in "x")
    assert store.docs.add({"id": "a", "text": "one", "price": 3}) == ["a"]
