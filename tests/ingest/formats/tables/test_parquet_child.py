"""Parquet that was made to cost its reader memory: what comes of it is bounded, in the child and beyond it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.tables import parquet, parquet_child as module
from aidre.ingest.formats.tables.parquet_child import REJECTED, read_batches, read_schema
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.sandbox.parent import TABLES, Sandbox, SandboxLimits
from tests.support.ingests import Bench
from tests.support.rows import RULES, documents

ALL: dict[str, Any] = {"rows": 8192, "skip": 0, "columns": None}
MEMORY = 450 << 20


def same(value: Any, count: int) -> pa.DictionaryArray:
    """One value so many times, stored once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


def ids(count: int) -> list[str]:
    return [f"d{number}" for number in range(count)]


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd", **options)
    return path


def parts(path: Path, **options: Any) -> list[pa.RecordBatch]:
    """What the child would send, read in this process."""
    return [pa.ipc.open_stream(part).read_next_batch() for part in streamed(path, **options)]


def streamed(path: Path, **options: Any) -> Iterator[pa.Buffer]:
    with path.open("rb") as file:
        yield from read_batches(b"", ALL | options | {"descriptor": file.fileno()})


def schema(path: Path) -> Any:
    with path.open("rb") as file:
        return read_schema(b"", {"descriptor": file.fileno()})


def read(path: Path) -> Iterator[Item]:
    return parquet.read_parquet(File(path, "src", path.name), RULES)


# -- the memory of the processes -----------------------------------------------------------------------------------


def hostile(folder: Path) -> None:
    """Small files, each of which stands for more than 100 MiB."""
    long = "x" * (8 << 20)
    written(folder / "a-repeated.parquet", {"id": ids(16), "text": same(long, 16)}, store_schema=False)
    written(folder / "b-category.parquet", {"id": ids(256), "text": same(long[: 1 << 19], 256)})
    prefixed = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY", "id": "PLAIN"}}
    written(folder / "c-prefixed.parquet", {"id": ids(16), "text": [long] * 16}, write_statistics=False, **prefixed)
    size = 200 << 20
    offsets = pa.array([0, size], pa.int64()).buffers()[1]
    page = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(bytes(size))])
    written(folder / "d-page.parquet", {"id": ["a"], "text": page}, use_dictionary=False, write_statistics=False)
    nulls = pa.ListArray.from_arrays(pa.array([0, 1 << 25], pa.int32()), pa.nulls(1 << 25))
    written(folder / "e-nulls.parquet", {"id": ["a"], "text": ["x"], "tags": nulls})
    flags = pa.ListArray.from_arrays(pa.array([0, 1 << 21], pa.int32()), pa.nulls(1 << 21, pa.bool_()))
    written(folder / "f-flags.parquet", {"id": ["a"], "text": ["x"], "tags": flags})


@pytest.mark.process
@pytest.mark.slow
def test_small_files_that_stand_for_much_cost_neither_process_more_than_its_bound(tmp_path: Path) -> None:
    """In processes of their own, by their peaks: memory that is given back counts too."""
    hostile(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1 << 20
    script = f"""
        import resource, sys
        from pathlib import Path
        import orjson
        from aidre.ingest.formats.tables import parquet
        from aidre.ingest.records.source_items import Rejected
        from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
        from aidre.ingest.sources.folder import read_source
        from aidre.ingest.sources.locate import locate_sources
        from aidre.ingest.records.vectors import VectorRules

        def peak():
            return int(next(x for x in Path("/proc/self/status").open() if x.startswith("VmHWM")).split()[1]) >> 10

        before, rows, reasons = peak(), 0, {{}}
        with Sandbox(SandboxLimits(memory={MEMORY}, answer=96 << 20)) as parquet.TABLES:
            for found in read_source(locate_sources([Path(sys.argv[1])])[0], VectorRules([], []), print):
                rows += 1
                if isinstance(found, Rejected):
                    reasons[found.where] = found.reason
        child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        sys.stdout.buffer.write(orjson.dumps([peak() - before, child, rows, reasons]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, check=True
    )
    own, child, rows, reasons = orjson.loads(done.stdout)
    assert own < 96
    assert child < MEMORY >> 20
    lacking = f"needs more than {MEMORY >> 20} MiB of memory to read: write it with smaller row groups and pages"
    assert reasons == {
        "d-page.parquet": lacking,
        "e-nulls.parquet": lacking,
        "f-flags.parquet:1": "has more than 1,048,576 values: split it",
    }
    assert rows == 16 + 256 + 16 + 3
    assert done.stderr == b""


@pytest.mark.slow
def test_batches_are_made_smaller_until_they_fit_and_rows_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    class Watched(Sandbox):
        def stream(
            self, kind: str, content: bytes, options: Any = None, *, file: int | None = None
        ) -> Iterator[memoryview[int]]:
            asked.append((options["rows"], options["skip"]))
            return super().stream(kind, content, options, file=file)

    texts = pa.chunked_array([pa.array(["short"] * 9000), same("x" * (1 << 18), 900).cast(pa.string())])
    names = [*ids(9_899), None]
    path = written(tmp_path / "a.parquet", {"id": names, "text": texts, "url": names}, row_group_size=1000)
    with Watched(SandboxLimits(memory=MEMORY, answer=96 << 20)) as tables:
        monkeypatch.setattr(parquet, "TABLES", tables)
        found = list(read(path))
    assert asked[0] == (8192, 0) and asked[1][1] == 8192 and len(asked) <= 3
    assert [each[0] for each in found if isinstance(each, tuple)] == [f"a.parquet:{n}" for n in range(1, 9_901)]
    assert [document.id for document in documents(found)][:-1] == names[:-1]


@pytest.mark.slow
def test_the_child_of_tables_ends_with_the_run(bench: Bench, ends_children: None) -> None:
    bench.docs.mkdir()
    written(bench.docs / "a.parquet", {"id": ["a"], "text": ["words"]})
    assert bench.run().new == 1
    assert TABLES._child is None
    assert not TABLES._streaming


# -- what leaves the child -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        same("words", 3),
        pa.array(["words"] * 3, pa.string_view()),
        pa.array([b"words"] * 3, pa.binary_view()),
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), same("words", 3)),
        pa.StructArray.from_arrays([same("words", 3)], ["name"]),
        pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["k"] * 3), same("words", 3)),
        pa.FixedSizeListArray.from_arrays(same("words", 3), 1),
        pa.LargeListArray.from_arrays(pa.array([0, 1, 2, 3]), same("words", 3)),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_no_two_rows_share_a_value(tmp_path: Path, column: pa.Array) -> None:
    path = written(tmp_path / "a.parquet", {"id": ids(3), "c": column})
    [batch] = parts(path)
    sent = str(batch.schema.field("c").type)
    assert "dictionary" not in sent
    assert "view" not in sent
    assert batch.column("c").to_pylist() == column.to_pylist()


@pytest.mark.slow
def test_a_row_beyond_its_bound_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    texts = ["good", "x" * (65 << 20), "good", "good"]
    flags = [[], [], [None] * (1 << 20), []]
    columns = {"id": ids(4), "text": texts, "tags": pa.array(flags, pa.list_(pa.bool_()))}
    found = list(read(written(tmp_path / "a.parquet", columns)))
    assert [each.where if isinstance(each, Rejected) else documents([each])[0].id for each in found] == [
        "d0", "a.parquet:2", "a.parquet:3", "d3",
    ]  # fmt: skip
    reasons = [each.reason for each in found if isinstance(each, Rejected)]
    assert reasons == ["larger than 64 MiB: split it", "has more than 1,048,576 values: split it"]


@pytest.mark.parametrize("bound", ["MAX_BATCH_BYTES", "MAX_BATCH_VALUES"])
def test_batches_come_in_parts_that_are_within_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(module, bound, 4000)
    columns = {
        "id": ids(1000),
        "text": ["words"] * 1000,
        "vectors": pa.array([{"d": [1.0, 2.0]}] * 1000, pa.struct([("d", pa.list_(pa.float32(), 2))])),
        "tags": pa.array([{"a": [1, 2, 3]}] * 1000, pa.map_(pa.string(), pa.list_(pa.int64()))),
    }
    found = parts(written(tmp_path / "a.parquet", columns))
    assert len(found) >= 4
    assert pa.Table.from_batches(found).to_pydict() == pa.table(columns).to_pydict()
    for batch in found:
        values = 12 * len(batch)  # id, text; vectors, d, two numbers; tags, a key, a list, three numbers
        assert batch.nbytes <= 4000 if bound == "MAX_BATCH_BYTES" else values <= 4000


@pytest.mark.parametrize("skip", [0, 1, 99, 100, 101, 250, 299, 300])
def test_a_file_is_read_from_any_row(tmp_path: Path, skip: int) -> None:
    path = written(tmp_path / "a.parquet", {"id": range(300)}, row_group_size=100)
    found = [number for batch in parts(path, skip=skip, rows=30) for number in batch.column("id").to_pylist()]
    assert found == list(range(skip, 300))


def test_a_file_with_more_rows_than_bytes_is_refused_however_many_it_says(tmp_path: Path) -> None:
    nothing = pa.nulls(3_000_000, pa.string())
    path = written(tmp_path / "a.parquet", {"id": nothing, "text": nothing}, row_group_size=3_000_000)
    count = 0
    with pytest.raises(InvalidDocument, match="more rows than bytes"):
        for _ in streamed(path):
            count += 1
    assert 0 < count * 8192 <= max(module.MIN_ROWS_LIMIT, path.stat().st_size)


def test_a_file_that_comes_to_very_many_times_its_size_is_refused_after_what_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_DECODED_LIMIT", 1 << 20)
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1 << 17)
    path = written(tmp_path / "a.parquet", {"id": ids(1000), "text": same("x" * 10_000, 1000)})
    size = 0
    with pytest.raises(InvalidDocument, match="comes to more than 1000 times its size"):
        for part in streamed(path):
            size += len(part)
    assert 0 < size <= max(1 << 20, 1000 * path.stat().st_size)
    monkeypatch.setattr(module, "MIN_DECODED_LIMIT", 10 << 20)
    assert sum(map(len, parts(path))) == 1000


def test_a_file_of_too_many_columns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COLUMNS", 20)
    path = written(tmp_path / "a.parquet", {f"c{number}": [1] for number in range(20)})
    assert parts(path)[0].num_columns == 20
    path = written(tmp_path / "b.parquet", {f"c{number}": [1] for number in range(21)})
    with pytest.raises(InvalidDocument, match="more than 20 columns"):
        parts(path)
    with pytest.raises(InvalidDocument, match="more than 20 columns"):
        schema(path)


def test_what_a_file_says_of_itself_is_no_message_of_the_child(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"]}).replace_schema_metadata({REJECTED: b"a lie"})
    pq.write_table(table, tmp_path / "a.parquet")
    [batch] = parts(tmp_path / "a.parquet")
    assert (len(batch), batch.schema.metadata) == (1, None)


def test_only_the_columns_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"id": ["a"], "text": ["x"], "other": [1]})
    assert parts(path, columns=["id", "text", "missing"])[0].schema.names == ["id", "text"]
    assert schema(path) == {"columns": {"id": True, "text": True, "other": True}, "spaces": []}
    graph = written(tmp_path / "b.parquet", {"@type": ["Article"], "other": [1]})
    assert parts(graph, columns=["id"])[0].schema.names == ["@type", "other"]


@pytest.mark.parametrize("answer", [None, [], {"spaces": {}}, {"columns": []}])
def test_an_answer_about_columns_of_another_shape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(TABLES, "parse", lambda *_, **__: answer)
    file = File(written(tmp_path / "a.parquet", {"id": ["a"]}), "src", "a.parquet")
    for look in (parquet.find_parquet_spaces, parquet.find_parquet_columns):
        with pytest.raises(InvalidDocument, match="gave an invalid answer"):
            look(file)
