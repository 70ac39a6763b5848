"""A distributed ingest on real Ray clusters of this machine; `make scale` installs what it needs."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.checkout import search_path
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import Embedder
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.maintenance.verify import verify
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import Committed, DocumentProblem, Event, Summary
from aidre_ray.driver import ingest_distributed
from aidre_ray.job import LoadModels
from aidre_ray.ray_runner import connect
from tests import ROOT
from tests.support.clocks import until
from tests.support.distributed import (
    SPACES,
    WORDS,
    contents,
    load_models,
    searches,
    write_corpus,
    write_pages,
)

# `importorskip` would import it, and what it reads of the environment is to be set before.
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: `make scale` installs it"),
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

IMPORTED_FROM = os.pathsep.join((*search_path(ROOT), str(ROOT / "packages" / "ray" / "tests")))


@pytest.fixture(autouse=True)
def _workers_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)


def run(store: Path, docs: Path, load: LoadModels = load_models, **options: Any) -> tuple[Summary, list[Event]]:
    events: list[Event] = []
    with connect("ray") as runner:
        summary = ingest_distributed(
            Store(store),
            "c",
            [docs],
            spaces=SPACES,
            embedders=load_models(),
            load=load,
            options=IngestOptions(**options),
            report=events.append,
            runner=runner,
        )
    return summary, events


def run_locally(store: Path, docs: Path) -> tuple[Summary, list[Event]]:
    events: list[Event] = []
    summary = ingest(
        Store(store),
        "c",
        [docs],
        spaces=SPACES,
        embedders=load_models(),
        options=IngestOptions(),
        report=events.append,
    )
    return summary, events


def problems(events: Sequence[Event]) -> list[tuple[str, str]]:
    return sorted((event.where, event.reason) for event in events if isinstance(event, DocumentProblem))


def assert_equal(workers: Path, local: Path) -> None:
    mine, other = Store(workers).open("c"), Store(local).open("c")
    assert contents(mine) == contents(other)
    for space in SPACES:
        assert searches(mine, space) == searches(other, space)
    assert not [problem for report in verify(Store(workers)) for problem in report.problems]


def test_five_thousand_documents_are_those_of_a_local_ingest_and_a_second_run_writes_nothing(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write_corpus(docs)
    local, told_locally = run_locally(tmp_path / "local", docs)
    summary, told = run(tmp_path / "workers", docs)
    assert (summary.documents, summary.new, summary.failed) == (local.documents, 5_000, local.failed)
    assert problems(told) == problems(told_locally)
    assert [event.generation for event in told if isinstance(event, Committed)] == [1]
    assert_equal(tmp_path / "workers", tmp_path / "local")
    generation = Store(tmp_path / "workers").open("c").generation
    again, _ = run(tmp_path / "workers", docs)
    assert (again.updated, again.failed) == (0, local.failed)
    assert Store(tmp_path / "workers").open("c").generation == generation


@dataclass(frozen=True)
class Deadly:
    """Loads a model that ends its process the first time that it has embedded some texts, on this machine."""

    mark: Path

    def __call__(self) -> Mapping[str, Embedder]:
        return {WORDS.id: _DeadlyEmbedder(self.mark)}


class _DeadlyEmbedder(HashingEmbedder):
    def __init__(self, mark: Path) -> None:
        super().__init__(WORDS)
        self._mark = mark
        self._embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._embedded += len(texts)
        if self._embedded > 700 and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write_corpus(docs)
    run_locally(tmp_path / "local", docs)
    summary, _ = run(tmp_path / "workers", docs, Deadly(tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert (summary.new, summary.failed) == (5_000, 3)
    assert_equal(tmp_path / "workers", tmp_path / "local")
    first = Store(tmp_path / "workers").open("c", generation=1).manifest
    assert sum(entry.documents - entry.deleted_documents for entry in first.segments) == 5_000


def test_a_local_cluster_listens_on_the_loopback_interface_alone() -> None:
    with connect("ray") as runner:
        assert runner.workers >= 1
        addresses = _listening(_family(os.getpid()))
    assert addresses and all(address.startswith(("127.", "[::ffff:127.", "[::1]")) for address in addresses), addresses


def _listening(pids: set[int]) -> list[str]:
    """The addresses on which some processes listen."""
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[3] for line in lines if pids & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}]


def _family(root: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


# -- a cluster that runs already ---------------------------------------------------------------------------------------


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a cluster of one node on loopback, and the environment of its clients."""
    gcs, client, agent = _free_ports(3)
    environment = {
        **os.environ,
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PYTHONPATH": IMPORTED_FROM,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--node-ip-address=127.0.0.1"),
            *(f"--port={gcs}", f"--ray-client-server-port={client}", f"--runtime-env-agent-port={agent}"),
            *("--include-dashboard=false", "--num-cpus=2", "--object-store-memory=200000000"),
            *(f"--temp-dir={short}", "--disable-usage-stats"),
        ]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            until(lambda: _answers("127.0.0.1", client))
            yield f"ray://127.0.0.1:{client}", environment
            started = _family(process.pid)
            process.terminate()
            process.wait(60)
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def test_the_command_ingests_on_a_cluster_that_runs(tmp_path: Path, cluster: tuple[str, dict[str, str]]) -> None:
    address, environment = cluster
    docs = tmp_path / "docs"
    write_pages(docs, 60)
    config = tmp_path / "aidre.toml"
    config.write_text(
        f'[[spaces]]\nid = "{WORDS.id}"\ndimensions = {WORDS.dimensions}\ndistance = "cosine"\nnormalized = true\n'
        f'provider = "aidre"\nmodel = "hashing"\n[collections.c]\nspaces = ["{WORDS.id}"]\n'
    )

    def ingested(store: str, *options: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "aidre", "ingest", str(docs), "--store", str(tmp_path / store)]
        command += ["--collection", "c", "--config", str(config), "--json", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 1, done.stderr  # one of the pages is not text
        assert "bad.md: " in done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    events = ingested("workers", "--on", address)
    local = ingested("local")
    assert [event["event"] for event in events] == ["commit", "done"]
    for one in (events[-1], local[-1]):
        del one["seconds"]
    mine, other = (Store(tmp_path / name).open("c") for name in ("workers", "local"))
    assert contents(mine) == contents(other)
    assert {**events[-1], "updated": 0, "chunks": 0, "embedded": 0} == {
        **local[-1],
        "updated": 0,
        "chunks": 0,
        "embedded": 0,
    }


def test_something_else_at_the_address_is_refused_within_a_bounded_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "docs").mkdir()
        command = [
            sys.executable,
            "-m",
            "aidre",
            "ingest",
            str(tmp_path / "docs"),
            "--store",
            str(tmp_path / "s"),
        ]
        command += ["--collection", "c", "--on", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "no Ray cluster answers there" in done.stderr and "Traceback" not in done.stderr
