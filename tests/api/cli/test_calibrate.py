"""`aidre calibrate`: queries from files of several kinds, and what was promised before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aidre.api.cli.calibrate import read_queries
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from tests.support.shell import Shell, one_line
from tests.support.stores import Vectors, fill, normal, space_of, structured

VECTORS = normal(3, 4)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(folder: Path, array: Any, name: str = "queries.npy") -> Path:
    np.save(folder / name, array)
    return folder / name


def arrow(folder: Path, vectors: Any, name: str = "vector", stream: bool = False) -> Path:
    table = pa.table({name: pa.array(vectors, pa.list_(pa.float32()))})
    path = folder / "queries.arrow"
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table)
    return path


# -- files ---------------------------------------------------------------------------------------------------


def test_lines_of_a_text_file_are_queries(tmp_path: Path) -> None:
    path = written(tmp_path, "queries.txt", "\ufeffgreen tea\r\n\n  a jacket \nwo Tee wächst")
    assert read_queries(path).texts == ("green tea", "a jacket", "wo Tee wächst")


def test_json_lines_have_a_text_or_a_query(tmp_path: Path) -> None:
    path = written(tmp_path, "queries.jsonl", '{"text": "tea", "id": 1}\n{"query": "rain"}\n"bread"\n')
    assert read_queries(path).texts == ("tea", "rain", "bread")


@pytest.mark.parametrize("kind", ["npy", "npy64", "arrow", "arrow stream", "jsonl"])
def test_vectors_come_as_npy_as_arrow_or_as_json_lines(tmp_path: Path, kind: str) -> None:
    path = {
        "npy": lambda: npy(tmp_path, VECTORS),
        "npy64": lambda: npy(tmp_path, VECTORS.astype(np.float64)),
        "arrow": lambda: arrow(tmp_path, VECTORS.tolist()),
        "arrow stream": lambda: arrow(tmp_path, VECTORS.tolist(), stream=True),
        "jsonl": lambda: written(
            tmp_path, "queries.jsonl", "\n".join(json.dumps({"vector": row.tolist()}) for row in VECTORS)
        ),
    }[kind]()
    found = read_queries(path)
    assert found.texts == ()
    assert found.vectors is not None
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.vectors, VECTORS)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("queries.txt", " \n\n", "has no queries"),
        ("queries.txt", b"\xff\xfe\x00", "is neither UTF-8 text nor"),
        ("queries.jsonl", '{"text": "tea"}\n{', "line 2 is not JSON"),
        ("queries.jsonl", '{"title": "tea"}', "line 1 has no text, query or vector"),
        ("queries.jsonl", '{"text": 5}', "line 1 has no text, query or vector"),
        ("queries.jsonl", '{"text": "tea"}\n{"vector": [1]}', "has texts and vectors"),
        ("queries.jsonl", '{"vector": ["a"]}', "the vector of line 1 is not a list of numbers"),
        ("queries.jsonl", '{"vector": [1, 2]}\n\n{"vector": [1]}', "the vector of line 3 is not as long as the first"),
        ("queries.npy", b"text", "is no .npy file"),
        ("queries.npy", b"", "is no .npy file"),
        ("queries.arrow", b"text", "is not an Arrow file with a column named vector"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, problem: str
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(ConfigurationError, match=problem) as raised:
        read_queries(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros(4, np.float32), "holds 4 values of type float32"),
        (np.zeros((2, 2, 2), np.float32), "holds 2 x 2 x 2 values"),
        (np.array([["a", "b"]]), "values of type <U1"),
        (np.zeros((0, 4), np.float32), "has no queries"),
    ],
)
def test_an_array_of_another_shape_or_type_is_refused(tmp_path: Path, array: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_queries(npy(tmp_path, array))


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "queries.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(ConfigurationError, match=r"is no \.npy file of numbers"):
        read_queries(tmp_path / "queries.npy")


def test_an_arrow_file_needs_a_column_of_vectors_of_one_length(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="column named vector"):
        read_queries(arrow(tmp_path, [[1.0]], name="other"))
    with pytest.raises(ConfigurationError, match="row 2 is not as long"):
        read_queries(arrow(tmp_path, [[1.0], [1.0, 2.0]]))
    with pytest.raises(ConfigurationError, match="row 1 is not a list of numbers"):
        read_queries(arrow(tmp_path, [None]))


# -- the command ---------------------------------------------------------------------------------------------


def test_a_collection_is_calibrated_with_texts(filled: Shell, tmp_path: Path) -> None:
    queries = written(tmp_path, "queries.txt", "green tea\na rain jacket\n")
    generation = filled.json("generations")[0]["generation"]
    [facts] = filled.json("calibrate", "--queries", queries)
    exact = {"kind": "exact", "found": 1.0, "depths": []}
    assert facts == {
        "collection": "docs",
        "space": "words",
        "generation": generation + 1,
        "queries": 2,
        "before": exact,
        "after": exact,
    }
    status, out, _ = filled.run("calibrate", "--store", filled.store, "--queries", queries)
    assert status == 0
    assert "docs: space words calibrated with 2 queries" in out
    assert out.count("found 1.0000 of their ten nearest") == 2


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_a_scanned_space_shows_what_was_promised_before_and_after(shell: Shell, tmp_path: Path) -> None:
    space = space_of("cosine", 384)
    fill(shell.store, space, structured(3_400, 384))
    queries: Vectors = structured(40, 384, 7)
    [facts] = shell.json("calibrate", "--queries", npy(tmp_path, queries), "--space", space.id)
    assert facts["before"]["kind"] == facts["after"]["kind"] == "scan"
    for calibration in (facts["before"], facts["after"]):
        assert calibration["depths"][0]["results"] == 10
        assert calibration["depths"][0]["recall"] <= calibration["found"] + 0.01
    status, out, _ = shell.run("calibrate", "--store", shell.store, "--queries", npy(tmp_path, queries))
    assert status == 0
    assert out.count("before:") == out.count("after:") == 1
    assert out.count("promised with") >= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queries", "none.txt"], "No such file"),
        (["--queries", "good.npy", "--space", "other"], "has no space 'other': words"),
        (["--queries", "good.npy", "--collection", "other"], "other is not in the store"),
        (["--queries", "good.npy"], "have 4 dimensions, but space 'words' has 64"),
        (["--queries", "nan.npy"], "--queries: query 2: "),
        ([], "Missing option '--queries'"),
    ],
)
def test_what_cannot_be_calibrated_is_said_in_one_line(
    filled: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    npy(tmp_path, VECTORS, "good.npy")
    bad = normal(3, 64)
    bad[1, 1] = np.inf
    npy(tmp_path, bad, "nan.npy")
    generation = filled.json("generations")[0]["generation"]
    status, out, err = filled.run("calibrate", "--store", filled.store, *words)
    assert status == (1 if "No such file" in message else 2)
    assert out == ""
    assert one_line(err)
    assert message in err
    assert filled.json("generations")[0]["generation"] == generation


def test_texts_need_a_model_and_vectors_a_space(shell: Shell, tmp_path: Path) -> None:
    with Store(shell.store).writer("docs", spaces=[space_of("dot", 3), space_of("dot", 4)]):
        pass
    fill(shell.store, space_of("dot", 4), VECTORS)
    texts = written(tmp_path, "queries.txt", "tea")
    for words in ([], ["--space", "test:dot:4"]):
        status, _, err = shell.run("calibrate", "--store", shell.store, "--queries", texts, *words)
        assert status == 2
        assert "give vectors" in err


def test_a_collection_that_is_being_written_is_not_calibrated(filled: Shell, tmp_path: Path) -> None:
    queries = written(tmp_path, "queries.txt", "green tea")
    with Store(filled.store).writer("docs", spaces=None):
        status, _, err = filled.run("calibrate", "--store", filled.store, "--queries", queries)
    assert status == 2
    assert "is being written by process" in err
