"""The client without an engine: what it must not load, and its tests in an environment that has nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import aidre
import aidre_client
from tests import ROOT
from tests.support.environments import environment, link, needed
from tests.support.own_wheels import wheel_beside
from tests.support.remote import DOCUMENTS, SPACE, signing

HEAVY = ("aidre", "faiss", "numpy", "onnxruntime", "orjson", "pyarrow", "starlette", "torch", "xxhash")
PROGRAM = f"""
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refused())
import aidre_client
with aidre_client.connect(sys.argv[1], verify="required") as client:
    docs = client.collection("docs")
    [hit] = docs.search("alpha word 7", k=1, facets="even", highlight=True)
    assert (hit.text, hit.title, hit.metadata["n"]) == ("alpha word 7", "T7", 7), hit
    assert docs.search(vector=[0.5] * 64, space={SPACE!r}, mode="dense", k=3)
    assert docs.chunk(hit.id).provenance
    assert len(list(docs.changes())) == {DOCUMENTS}
    assert client.nlweb.ask("alpha word 7").items
    many = docs.search_many(["alpha"])
    for verb in (lambda: docs.search("alpha", vectors=True), many.to_arrow):
        try:
            verb()
        except aidre_client.ConfigurationError as error:
            print(error)
"""
MISSING = """vectors of chunks need numpy: pip install 'aidre-client[numpy]'
to_arrow makes an Arrow table: pip install pyarrow
"""
MOST_BYTES = {(): 30_000_000, ("numpy",): 100_000_000}
TIMEOUT_SECONDS = 900
INI = "[pytest]\nmarkers =\n  network: a\n  process: b\n  slow: c\nfilterwarnings = error\n"


def run(*command: str, folder: Path, **variables: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**inherited, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_it_connects_searches_and_verifies_without_the_libraries_of_the_engine(
    store: Path, key_file: Path, tmp_path: Path
) -> None:
    with signing(store, key_file) as (proxy, _):
        said = run(sys.executable, "-c", PROGRAM, proxy.url, folder=tmp_path, PYTHONPATH=str(ROOT / "packages/client"))
        assert said == MISSING
        assert any(asked.target.endswith("aidre-keys.json") for asked in proxy.asked), "nothing was verified"


def test_aidre_has_the_same_objects() -> None:
    from aidre.engine import errors, model, types

    shared = {name for name in set(dir(aidre_client)) & set(dir(aidre)) if not name.startswith("_")}
    assert shared >= {"AidreError", "Client", "Facet", "Hit", "Hits", "RequestFailed", "connect", "connect_async"}
    for name in shared:
        assert getattr(aidre, name) is getattr(aidre_client, name), name
    assert errors.AidreError is aidre_client.AidreError
    assert (model.HighlightLimits, types.Hit) == (aidre_client.HighlightLimits, aidre_client.Hit)
    assert issubclass(aidre.StoreLocked, aidre_client.Conflict)


# -- an environment of its own ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MOST_BYTES, ids=lambda extras: ",".join(("client", *extras)))
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """An environment with the client, what it needs, and an extra or none."""
    extras, folder = request.param, tmp_path_factory.mktemp("alone")
    names = needed(f"aidre-client[{','.join(extras)}]") - {"aidre-client"}
    environment(folder / "environment", names, wheel_beside(tmp_path_factory, "client"))
    return folder, extras


def sizes(folder: Path) -> Mapping[str, int]:
    """Bytes of what is installed, without what Python compiled of it."""
    [packages] = folder.glob("environment/lib/python3*/site-packages")

    def size(path: Path) -> int:
        files = (one for one in (path, *path.rglob("*")) if one.is_file() and one.suffix != ".pyc")
        return sum(one.stat().st_size for one in files)

    return {path.name: size(path) for path in packages.iterdir() if path.name != "__pycache__"}


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_it_is_small(installed: tuple[Path, tuple[str, ...]]) -> None:
    folder, extras = installed
    found = sizes(folder)
    assert {"aidre_client", "cryptography", "httpx"} <= found.keys()
    assert ("numpy" in found) == ("numpy" in extras)
    assert found.keys().isdisjoint(set(HEAVY) - {"numpy"})
    assert sum(found.values()) <= MOST_BYTES[extras], sorted(found.items(), key=lambda one: -one[1])[:9]


@pytest.mark.network
@pytest.mark.process
@pytest.mark.slow
def test_its_tests_pass_where_it_alone_is_installed(installed: tuple[Path, tuple[str, ...]]) -> None:
    """Those that need no engine beside them; servers run in the Python of this process."""
    folder, extras = installed
    for name in needed("pytest") - needed(f"aidre-client[{','.join(extras)}]"):
        link(name, folder / "environment")
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    shutil.copytree(Path(__file__).parent, folder / "of_client", ignore=shutil.ignore_patterns("__pycache__"))
    chosen = ["of_client"] if not extras else ["of_client/test_client_vectors.py", "of_client/test_search.py"]
    words = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--confcutdir=of_client")
    printed = run(
        *("environment/bin/python", "-P", "-m", "pytest", *words, *chosen),
        folder=folder,
        PYTHONPATH=str(folder),
        AIDRE_TEST_PYTHON=sys.executable,
    )
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None and int(passed[1]) > (300 if not extras else 60), printed
