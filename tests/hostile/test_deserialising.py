"""Nothing that is read can become code, and FAISS, whose readers trust what they read, sees only what was checked."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import faiss
import pytest

from aidre.engine.collection.store import Store
from tests import ROOT
from tests.support.stores import NAME, fill, space_of, structured

FORBIDDEN_MODULES = frozenset({"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"})
FORBIDDEN_CALLS = frozenset(
    {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "torch.load"}
)
FORBIDDEN_CALLS |= {"yaml.unsafe_load", "yaml.full_load", "numpy.fromregex", "np.fromregex"}
TRUSTING_WORDS = frozenset({"allow_pickle", "trust_remote_code", "shell", "weights_only"})
"""Arguments that let what is read run; `weights_only` may be true alone."""
NAMING_A_SHELL = frozenset({"_scripts().get_completion_script", "_scripts().install"})
"""Functions of typer that take the name of a shell."""
FAISS_READERS = frozenset({"read_index", "deserialize_index", "read_VectorTransform", "read_ProductQuantizer"})


@cache
def _trees() -> Sequence[tuple[str, ast.AST]]:
    """The names and syntax trees of all modules."""
    paths = [path for package in ("engine", "ingest", "api") for path in sorted((ROOT / package).rglob("*.py"))]
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def _faults(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = {each.name.partition(".")[0] for each in names}
            case ast.ImportFrom(module=str(module)):
                modules = {module.partition(".")[0]}
            case ast.Call(func=func, keywords=words):
                modules = set()
                if ast.unparse(func) in FORBIDDEN_CALLS:
                    yield f"{name}:{node.lineno} calls {ast.unparse(func)}"
                for word in words:
                    safe = isinstance(word.value, ast.Constant) and word.value.value is (word.arg == "weights_only")
                    names_shell = word.arg == "shell" and ast.unparse(func) in NAMING_A_SHELL
                    if word.arg in TRUSTING_WORDS and not (safe or names_shell):
                        yield f"{name}:{node.lineno} passes {word.arg}"
            case _:
                continue
        for module in sorted(modules & FORBIDDEN_MODULES):
            yield f"{name}:{node.lineno} imports {module}"


def test_no_code_comes_out_of_what_is_read() -> None:
    assert len(_trees()) > 200
    assert [fault for name, tree in _trees() for fault in _faults(name, tree)] == []


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from joblib import load", "eval(x)", "yaml.load(x)", "np.load(x, allow_pickle=True)",
     "model(x, trust_remote_code=flag)", "run(x, shell=True)", "torch.load(x)"],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert list(_faults("here", ast.parse(source)))


def test_only_the_modules_of_the_index_know_the_readers_of_faiss() -> None:
    using = {
        name
        for name, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in FAISS_READERS
    }
    assert using
    assert using <= {"engine/index/vectors/vector_index.py", "engine/index/vectors/quantizer.py"}


def test_faiss_sees_an_index_only_when_its_checksum_was_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, space_of("cosine", 768), structured(1700, 768), finish=True)
    (index,) = (tmp_path / NAME / "segments").glob("*/*.index.arrow")
    read: list[object] = []
    real = faiss.read_index

    def reading(*arguments: Any) -> Any:
        read.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(faiss, "read_index", reading)
    assert Store(tmp_path).open(NAME).warnings == ()
    assert read
    whole = index.read_bytes()
    for place in range(0, len(whole), len(whole) // 20):
        read.clear()
        altered = bytearray(whole)
        altered[place] ^= 1
        index.unlink()
        index.write_bytes(altered)
        assert len(Store(tmp_path).open(NAME).warnings) == 1
        assert read == []


NESTED = """
import sys, orjson
nested = orjson.loads(open(sys.argv[1], "rb").read())
for padding in range(256):
    orjson.dumps(["x" * padding, nested])
"""


def test_what_is_nested_deep_is_written_within_its_buffer() -> None:
    """Python looks for bytes that were written beyond the memory it gave out. A fuzzer found these lists."""
    surroundings = {**os.environ, "PYTHONMALLOC": "debug"}
    command = [sys.executable, "-c", NESTED, str(Path(__file__).with_name("nested.json"))]
    done = subprocess.run(command, env=surroundings, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
