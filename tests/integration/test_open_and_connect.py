"""The same programs over `aidre.open` and over `aidre.connect`: the same values come back, and the same exceptions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import aidre
import aidre_client
from tests.support.clients import TEXT
from tests.support.fault_proxy import faulty

pytestmark = pytest.mark.process

SECRET = "w" * 32
OWN = aidre.EmbeddingSpace("own", 3, "cosine")
PROGRAMS: dict[str, Callable[[Any], Any]] = {}
"""By name; each gets an empty collection, that of the names in `OF_VECTORS` one whose vectors come with the rows."""
OF_VECTORS: set[str] = set()
SHOP = [
    {"id": "pie", "text": "Leek pie with butter", "title": "Pie", "price": 3, "tags": ["warm", "green"]},
    {"id": "soup", "text": "Beet soup, cold", "title": "Soup", "price": 7.5, "tags": ["cold"]},
    {"id": "tart", "text": "Apple tart", "price": 3, "stock": {"berlin": 2}, "url": "https://example.com/tart"},
    {"id": "salt", "text": "Salt", "title": "Salt"},
]


def program(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[run.__name__] = run
    return run


def of_vectors(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    OF_VECTORS.add(run.__name__)
    return program(run)


def seen(value: Any) -> Any:
    """A value that can be compared: without the time at which a document came first."""
    if isinstance(value, aidre.Document):
        dated = value.updated_at if value.updated_at is not None and value.updated_at.startswith("2001") else None
        vectors = None if value.vectors is None else {name: one.tolist() for name, one in value.vectors.items()}
        members = (value.text, value.title, value.url, value.type, dict(value.metadata), value.schema_object)
        return value.id, *members, dated, vectors
    if isinstance(value, aidre.Hit):
        return value.id, round(value.score, 4), value.text, value.title, value.url, dict(value.metadata)
    if isinstance(value, dict):
        return {name: seen(one) for name, one in value.items()}
    if isinstance(value, list | tuple) or hasattr(value, "__next__"):
        return [seen(one) for one in value]
    return value


# -- documents in ------------------------------------------------------------------------------------------------


@program
def a_text_gets_an_id_of_its_content(docs: Any) -> Any:
    return docs.add("a note"), docs.add("a note"), docs.count(), docs.get(docs.add("a note"))


@program
def a_row_without_an_id_gets_one_of_its_content(docs: Any) -> Any:
    rows = [
        {"text": "a", "n": 1.5, "m": 1e16, "s": 'é"\\\n\x7f\u2028😀', "d": {"z": [1, 2.0, -0.0], "a": None}, "b": True},
        {"b": True, "text": "b", "deep": {"ü": {"y": 1e-7, "x": 123456789.125}}},
    ]
    return docs.add(rows), docs.count()


@program
def texts_mappings_and_documents_in_one_call(docs: Any) -> Any:
    document = aidre.Document("d", "Backups", title="Title", url="https://example.com", metadata={"price": 9})
    return docs.add(["a text", {"id": "m", "text": "b"}, document]), docs.get(["m", "d"])


@program
def a_document_with_all_members(docs: Any) -> Any:
    item = {"@type": "Recipe", "name": "Pie", "cookTime": "PT1H"}
    docs.add(aidre.Document("r", "Pie", updated_at="2001-02-03T04:05:06Z", type="Recipe", schema_object=item))
    return docs.get(["r"]), docs.count({"type": "Recipe"}), docs.count({"updated_at": {"lt": "2002-01-01"}})


@program
def rows_of_a_generator(docs: Any) -> Any:
    return docs.add({"id": f"n{number}", "text": f"Note {number}"} for number in range(20)), docs.count()


@program
def rows_of_an_arrow_table(docs: Any) -> Any:
    table = pa.table({"id": ["a", "b"], "text": ["x", "y"], "year": [2020, None], "ok": [True, False]})
    return docs.add(table), docs.get(["a", "b"])


@program
def nothing_at_all(docs: Any) -> Any:
    return docs.add([]), docs.count(), docs.get(["a"]), docs.scan(), docs.delete([]), docs.patch({})


@program
def a_known_id_is_replaced(docs: Any) -> Any:
    docs.add({"id": "a", "text": "first", "price": 1, "old": True})
    docs.add({"id": "a", "text": "second", "price": 2})
    return docs.get(["a"]), docs.count()


@program
def upsert_is_add(docs: Any) -> Any:
    return docs.upsert(SHOP), docs.upsert(SHOP[:1]), docs.count()


@program
def ids_of_all_kinds(docs: Any) -> Any:
    ids = ["a/b", "ä ü", "x#chunk_1", "100%", "?q=1&r", "..", "a//b", "日本", "query", "delete", 7]
    docs.add([{"id": one, "text": f"text of {one}", "n": 1} for one in ids])
    named = [str(one) for one in ids]
    changed = [docs.patch({one: {"n": 2}}) for one in named]
    return docs.get(named), changed, [docs.delete([one]) for one in named], docs.count()


@program
def times_dates_and_numbers_of_python(docs: Any) -> Any:
    zone = timezone(timedelta(hours=2))
    values = {
        "instant": datetime(2026, 4, 1, 12, 30, 15, 250_000, zone),
        "utc": datetime(2026, 4, 1, tzinfo=UTC),
        "day": date(2026, 4, 1),
        "exact": Decimal("9.99"),
        "uuid": UUID(int=7),
        "path": PurePosixPath("/a/b"),
        "pair": (1, "two"),
        "nested": {"list": [date(2026, 1, 1), None, True], "empty": {}},
        "none": None,
    }
    docs.add({"id": "v", "text": "values", **values})
    return docs.get(["v"])


@program
def numbers_of_numpy(docs: Any) -> Any:
    values = {
        "integer": np.int64(5),
        "real": np.float32(0.5),
        "truth": np.bool_(True),
        "array": np.arange(3),
        "day": np.datetime64("2026-04-01"),
    }
    docs.add({"id": "v", "text": "values", **values})
    return docs.get(["v"])


# -- documents out -----------------------------------------------------------------------------------------------


@program
def get_keeps_the_order_of_its_ids(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.get(["soup", "none", "pie", "soup"]), docs.get([]), docs.get(iter(["tart"]), limit=1)


@program
def get_some_of_its_ids(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.get(["soup", "none", "pie", "tart"], offset=1, limit=2)


@program
def get_by_a_filter(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.get(filter={"price": {"lt": 5}}, order_by="id"), docs.get(order_by="-price", limit=1)


@program
def scan_everything(docs: Any) -> Any:
    docs.add(SHOP)
    return sorted(seen(docs.scan())), len(list(docs.scan(limit=3))), list(docs.scan(offset=4))


@program
def scan_by_a_filter(docs: Any) -> Any:
    docs.add(SHOP)
    filters = [{"tags": "green"}, {"not": {"price": 3}}, {"or": [{"title": "Pie"}, {"stock.berlin": 2}]}, {"x": 1}]
    return [sorted(one.id for one in docs.scan(filter)) for filter in filters]


@program
def scan_in_an_order(docs: Any) -> Any:
    docs.add(SHOP)
    orders = ["price", "-price", "title", ["price", "-id"], "stock.berlin", "absent"]
    return [[one.id for one in docs.scan(order_by=order)] for order in orders]


@program
def scan_some_fields(docs: Any) -> Any:
    docs.add(SHOP)
    return list(docs.scan(fields=["price", "title", "text", "absent"], order_by="id")), list(docs.scan(fields=[]))[:1]


@program
def pages_by_offset_have_each_document_once(docs: Any) -> Any:
    docs.add([{"id": f"n{number}", "text": f"Note {number}", "even": number % 2 == 0} for number in range(25)])
    pages = [docs.get(order_by="even", limit=4, offset=offset) for offset in range(0, 25, 4)]
    return [one.id for page in pages for one in page]


@program
def a_long_text_comes_back(docs: Any) -> Any:
    docs.add({"id": "long", "text": "\n\n".join(f"Paragraph {number}. " + "word " * 60 for number in range(40))})
    return docs.get(["long"]), docs.count()


@program
def values_of_filters(docs: Any) -> Any:
    docs.add([{"id": "a", "text": "x", "day": "2026-04-01", "ref": str(UUID(int=7)), "price": 2.5}])
    filters = [
        {"ref": str(UUID(int=7))},
        {"price": {"gte": 2, "lt": 3}},
        {"price": {"in": [2.5, 9]}},
        {"day": "2026-04-01"},
    ]
    return [docs.count(filter) for filter in filters]


@program
def counts(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.count(), docs.count({"price": {"exists": True}}), docs.count({"tags": {"contains": "cold"}})


@program
def values_of_fields(docs: Any) -> Any:
    docs.add(SHOP)
    return (
        docs.facets("price", "tags", "absent"),
        docs.facets("tags", filter={"price": 3}),
        docs.facets("tags", limit=1),
    )


@program
def a_search_by_words(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.search("soup", mode="lexical"), docs.search("pie", mode="lexical", filter={"price": 3}, k=1)


@program
def a_search_by_meaning(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.search("apple tart", mode="dense", k=2), docs.search("apple tart", k=2)


# -- changes and deletions ---------------------------------------------------------------------------------------


@program
def metadata_are_changed(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.patch({"pie": {"price": 4, "new": [1, {"a": None}], "tags": None}}), docs.get(["pie"])


@program
def members_are_changed(docs: Any) -> Any:
    docs.add(SHOP)
    changes = {"title": None, "url": "https://example.com/new", "type": "Food", "updated_at": "2001-01-01T00:00:00Z"}
    return docs.patch({"pie": changes}), docs.get(["pie"]), docs.patch({"pie": changes})


@program
def several_documents_are_changed(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.patch({one: {"price": 3} for one in ("pie", "soup", "tart")}), docs.get(
        filter={"price": 3}, order_by="id"
    )


@program
def a_new_text_is_found(docs: Any) -> Any:
    docs.add(SHOP)
    changed = docs.patch({"soup": {"text": "Lentils, warm", "price": 8}})
    return changed, docs.get(["soup"]), docs.search("lentils", mode="lexical"), docs.search("beet", mode="lexical")


@of_vectors
def a_new_text_with_its_vector(docs: Any) -> Any:
    docs.add({"id": "a", "text": "x", "n": 1}, vectors=[[1, 0, 0]])
    changed = docs.patch({"a": {"text": "y", "vectors": {"own": np.array([0, 1, 0])}}})
    return changed, docs.get(["a"], vectors=True), docs.search(vector=[0, 1, 0], space="own", k=1)


@of_vectors
def a_row_with_a_vector_and_no_text(docs: Any) -> Any:
    ids = docs.add([{"n": 1}, {"id": "b", "text": ""}], vectors=[[1, 0, 0], [0, 1, 0]])
    return ids, docs.get(ids), docs.count(), docs.search(vector=[0, 1, 0], space="own", k=1)


@program
def numbers_that_no_json_has(docs: Any) -> Any:
    values = [2**63, -(2**63) - 1, float("nan"), float("inf"), Decimal("1.00000000000000000001"), np.float64("nan")]
    found = [failing(docs.add, {"text": "x", "deep": [{"n": one}]}) for one in values]
    docs.add({"id": "a", "text": "x", "n": 2**63 - 1, "m": -(2**63)})
    return found, docs.get(["a"]), docs.count({"n": 2**63 - 1}), docs.count({"n": 2**63 - 2})


@program
def values_of_python_in_filters(docs: Any) -> Any:
    moment = datetime(2026, 4, 1, 12, tzinfo=UTC)
    docs.add({"id": "a", "text": "x", "ref": UUID(int=7), "price": Decimal("2.5"), "at": moment, "n": np.int64(3)})
    filters = [{"ref": UUID(int=7)}, {"price": Decimal("2.5")}, {"n": {"in": (np.int64(3), 4)}}, {"n": {"in": {3, 9}}}]
    dates = [{"updated_at": {"gt": datetime(2001, 1, 1, tzinfo=UTC)}}, {"at": {"exists": True}}]
    return [docs.count(filter) for filter in (*filters, *dates)]


@program
def a_new_title_is_found(docs: Any) -> Any:
    docs.add(SHOP)
    docs.patch({"salt": {"title": "Zanzibar"}})
    return docs.search("zanzibar", mode="lexical"), docs.get(["salt"])


@program
def no_document_is_changed_where_one_is_missing(docs: Any) -> Any:
    docs.add(SHOP)
    return failing(lambda: docs.patch({"pie": {"price": 9}, "none": {"price": 9}})), docs.get(["pie"])


@program
def documents_are_deleted(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.delete(["pie", "none", "pie"]), docs.count(), docs.delete(iter(["soup"])), docs.get(["soup"])


@program
def documents_are_deleted_by_a_filter(docs: Any) -> Any:
    docs.add(SHOP)
    return docs.delete(filter={"price": {"gt": 3}}), docs.delete(filter={"sku": 1}, allow_unknown=True), docs.count()


@program
def a_deletion_that_could_take_everything_is_refused(docs: Any) -> Any:
    docs.add(SHOP)
    return failing(lambda: docs.delete(filter={"sku": {"ne": 1}})), docs.count()


@program
def a_document_is_deleted_and_comes_again(docs: Any) -> Any:
    docs.add(SHOP)
    docs.delete(["pie"])
    docs.add(SHOP[:1])
    return docs.get(["pie"]), docs.count(), docs.search("leek", mode="lexical", k=1)


# -- vectors -----------------------------------------------------------------------------------------------------


@of_vectors
def a_matrix_of_vectors(docs: Any) -> Any:
    docs.add([{"id": "a", "text": "x"}, {"id": "b", "text": "y"}], vectors=np.eye(3, dtype=np.float32)[:2])
    return docs.search(vector=[1, 0.1, 0], space="own", k=2), docs.count()


@of_vectors
def vectors_of_the_rows(docs: Any) -> Any:
    docs.add(
        [
            {"id": "a", "text": "x", "vectors": {"own": [0, 0, 2]}},
            {"id": "b", "text": "y", "vectors": {"own": (1, 1, 0)}},
        ]
    )
    return docs.search(vector=np.array([0, 0, 1.0]), space="own", k=1), docs.get(["a", "b"], vectors=True)


@of_vectors
def vectors_by_space(docs: Any) -> Any:
    return docs.add(["x", "y"], vectors={"own": [[1, 0, 0], [0, 1, 0]]}), docs.count()


# -- misuse ------------------------------------------------------------------------------------------------------


class Failure(NamedTuple):
    kind: str
    code: str


def failing(call: Callable[..., Any], *arguments: Any, **named: Any) -> Failure:
    try:
        value = seen(call(*arguments, **named))
    except aidre.AidreError as error:
        assert "\n" not in str(error) and str(error)
        return Failure(type(error).__name__, error.code)
    raise AssertionError(f"nothing was raised, but {value!r} returned")


@program
def rows_that_cannot_be_stored(docs: Any) -> Any:
    rows: list[Any] = [
        {"id": "a"},
        {"id": "a", "text": " "},
        {"id": "a", "text": 7},
        {"id": " ", "text": "x"},
        {"id": "x" * 2_000, "text": "x"},
        {"id": "a", "text": "x", "blob": b"1"},
        {"id": "a", "text": "x", "when": datetime(2026, 4, 1)},
        {"id": "a", "text": "x", "updated_at": "soon"},
        {"id": "a", "text": "x", "metadata": {"etag": 1}},
        {"id": "a", "text": "x", "metadata": 7},
        {"id": "a", "text": "x", 7: "x"},
        {"id": "a", "text": "x\ud800"},
        7,
    ]
    return [failing(docs.add, [{"id": "good", "text": "y"}, row]) for row in rows], docs.count()


@program
def rows_that_are_none(docs: Any) -> Any:
    return [failing(docs.add, rows) for rows in (7, None, b"text", object())]


@program
def changes_that_cannot_be_made(docs: Any) -> Any:
    docs.add(SHOP)
    changes: list[Any] = [
        {"none": {"a": 1}},
        {"pie": {"etag": 1}},
        {"pie": {"text": 7}},
        {"pie": {"vectors": {"none": [1.0]}}},
        {"pie": {"updated_at": "soon"}},
        {"pie": {"title": ["x"]}},
        {"pie": {"blob": b"1"}},
        {"pie": {"when": datetime(2026, 4, 1)}},
        {"pie": 7},
        7,
    ]
    return [failing(docs.patch, one) for one in changes], docs.get(["pie"])


@program
def arguments_of_a_wrong_kind(docs: Any) -> Any:
    docs.add(SHOP)
    calls: list[Callable[[], Any]] = [
        lambda: docs.get("pie"),
        lambda: docs.get([7]),
        lambda: docs.get(["pie"], limit=0),
        lambda: docs.get(["pie"], offset=-1),
        lambda: docs.get(["pie"], filter={"a": 1}),
        lambda: list(docs.scan(limit="5")),
        lambda: list(docs.scan(order_by=7)),
        lambda: list(docs.scan(order_by="-")),
        lambda: list(docs.scan(fields="price")),
        docs.delete,
        lambda: docs.delete(["pie"], filter={"price": 3}),
        lambda: docs.delete("pie"),
        docs.facets,
        lambda: docs.facets("price", limit=0),
        lambda: docs.facets(7),
    ]
    return [failing(call) for call in calls], docs.count()


@program
def filters_outside_the_grammar(docs: Any) -> Any:
    docs.add(SHOP)
    filters: list[Any] = [{"price": {"near": 1}}, {"and": 7}, {"price": {"in": 7}}, [], {"text": "x"}, {"price": None}]
    return [[failing(docs.count, one), failing(docs.scan, one)] for one in filters]


@of_vectors
def vectors_that_do_not_fit(docs: Any) -> Any:
    vectors: list[Any] = [
        [[1.0, 0.0]],
        [[float("nan"), 0.0, 0.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        {"other": [[1.0, 0.0, 0.0]]},
        [["a", "b", "c"]],
        7,
    ]
    found = [failing(docs.add, ["x"], vectors=one).kind for one in vectors]
    return [bool(kind) for kind in found], failing(lambda: docs.add("no vector")), docs.count()


# -- the two doors -----------------------------------------------------------------------------------------------


def name_of(program_name: str) -> str:
    return re.sub(r"[^a-z0-9]", "-", program_name)[:64]


def configuration() -> str:
    sections = "".join(
        f"""
[collections.{name_of(name)}]
spaces = ["{"own" if name in OF_VECTORS else TEXT.id}"]
return_vectors = true
"""
        for name in PROGRAMS
    )
    return f"""
[server]
base_url = "{{base}}"
writes = true
[[spaces]]
id = "{TEXT.id}"
dimensions = 64
distance = "cosine"
normalized = true
provider = "aidre"
model = "hashing"
[[spaces]]
id = "own"
dimensions = 3
distance = "cosine"
[[keys]]
name = "program"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
scopes = ["search", "write", "vectors"]
{sections}"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aidre_client.Client]:
    with (
        faulty(tmp_path_factory.mktemp("remote"), configuration()) as (proxy, _),
        aidre.connect(proxy.url, key=SECRET) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aidre.Database]:
    with aidre.open(tmp_path_factory.mktemp("local")) as opened:
        yield opened


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_over_both_doors(
    name: str, database: aidre.Database, client: aidre_client.Client
) -> None:
    space = OWN if name in OF_VECTORS else TEXT
    local = seen(PROGRAMS[name](database.collection(name_of(name), space=space)))
    assert seen(PROGRAMS[name](client.collection(name_of(name)))) == local


def test_there_are_forty() -> None:
    assert len(PROGRAMS) >= 40
