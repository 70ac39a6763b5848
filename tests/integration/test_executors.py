"""Executors of a cluster write segments into a bucket of an S3 API, one is killed, and a command adopts the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.api.cli.main import run
from aidre.engine.collection.store import Store
from aidre.engine.errors import BucketFailed
from aidre.engine.maintenance.verify import verify
from tests.support.buckets import CREDENTIALS, S3, S3Place, denied, proxy_of
from tests.support.clocks import WAIT_SECONDS
from tests.support.fault_proxy import Asked, Fault, FaultyServer
from tests.support.shell import COMMAND

ROWS = 30
"""Of a partition, in segments of ten."""
EXECUTOR = """
import json, sys
import aidre
from aidre.library import loose_segments

loose_segments.SEGMENT_ROWS = 10
embedded = []

def embed(texts):
    embedded.extend(texts)
    return [[len(text), ord(text[0]), 1.0, 2.0] for text in texts]

partition, place = int(sys.argv[1]), sys.argv[2]
rows = ({"id": f"d{number}", "text": f"text {number} of {partition}"} for number in range(int(sys.argv[3])))
space = aidre.EmbeddingSpace("letters", 4, "cosine")
names = loose_segments.write(rows, place, partition=partition, space=space, embed=embed)
print(json.dumps({"names": names, "embedded": len(embedded)}))
"""
SPACE = aidre.EmbeddingSpace("letters", 4, "cosine")
VECTORS = [[1.0, 2.0, 3.0, 4.0]]


@contextmanager
def executor(partition: int, place: S3Place, endpoint: str, rows: int = ROWS) -> Iterator[subprocess.Popen[str]]:
    """A process that writes a partition, with the credentials and the endpoint in its environment."""
    environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    words = [sys.executable, "-c", EXECUTOR, str(partition), place.address.url, str(rows)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, err
    written: dict[str, Any] = json.loads(out)
    return written


class Held:
    """A plan: once a record was stored, no further file is, until the test ends."""

    def __init__(self) -> None:
        self.is_held, self._ends, self._records = threading.Event(), threading.Event(), 0

    def __call__(self, asked: Asked) -> Fault | None:
        if asked.method == "PUT" and asked.target.partition("?")[0].endswith(".json"):
            self._records += 1
        elif asked.method == "PUT" and self._records and asked.target.endswith("/chunks.arrow"):
            self.is_held.set()
            self._ends.wait(WAIT_SECONDS)
        return None

    def end(self) -> None:
        self._ends.set()


def settings_of(s3: S3, folder: Path) -> Path:
    config = folder / "aidre.toml"
    config.write_text(f'[store]\nendpoint = "{s3.url}"\nregion = "us-east-1"\n', encoding="utf-8")
    return config


@pytest.mark.process
def test_a_run_whose_executor_was_killed_begins_again_and_each_segment_is_adopted_once(
    s3: S3,
    s3_place: S3Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held()
    with (
        proxy_of(s3, held) as proxy,
        executor(0, s3_place, s3.url) as first,
        executor(1, s3_place, proxy.url) as second,
    ):
        whole = outcome(first)
        assert held.is_held.wait(WAIT_SECONDS), "the second executor was not held"
        second.kill()
        second.wait(WAIT_SECONDS)
        held.end()
    assert (len(whole["names"]), whole["embedded"]) == (3, ROWS)
    stored = s3_place.contents()
    assert len([key for key in stored if key.endswith(".json")]) == 4
    folders = {key.partition("/")[0] for key in stored if "/" in key}
    assert len(folders) == 5, "the killed executor left no files of a segment that is not whole"

    with executor(0, s3_place, s3.url) as first, executor(1, s3_place, s3.url) as second:
        again, rest = outcome(first), outcome(second)
    assert again == {"names": whole["names"], "embedded": 0}
    assert (len(rest["names"]), rest["embedded"]) == (3, ROWS - 10)

    words = ["adopt", s3_place.address.url, "--store", str(tmp_path / "store"), "--collection", "docs", "--json"]
    config = ["--config", str(settings_of(s3, tmp_path))]
    own = {**os.environ, **CREDENTIALS}
    command = [*COMMAND, *words, *config]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    adopted = json.loads(done.stdout)
    assert adopted["adopted"] == [*whole["names"], *rest["names"]]
    assert (adopted["documents"], adopted["chunks"], adopted["generation"]) == (ROWS, ROWS, 1)
    for named in (config, ["--endpoint", s3.url, "--region", "us-east-1"], []):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nowhere.invalid" if named else s3.url)
        capsys.readouterr()
        assert run([*words, *named]) == 0
        repeated = json.loads(capsys.readouterr().out)
        assert (repeated["adopted"], repeated["generation"]) == ([], 1)
    docs = aidre.open(tmp_path / "store").collection("docs")
    assert {one.id: one.text for one in docs.scan()} == {f"d{n}": f"text {n} of 1" for n in range(ROWS)}
    assert not [problem for report in verify(Store(tmp_path / "store")) for problem in report.problems]


# -- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(s3: S3) -> Iterator[FaultyServer]:
    with proxy_of(s3) as found:
        yield found


def write(place: S3Place, endpoint: str, monkeypatch: pytest.MonkeyPatch, name: str = "a") -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    rows = [{"id": name, "text": f"text of {name}"}]
    [segment] = aidre.segments.write(rows, place.address.url, partition=name, vectors=VECTORS, space=SPACE)
    return segment


def refused(capsys: pytest.CaptureFixture[str], store: Path, place: str, endpoint: str) -> str:
    """What the command says: one line, and nothing is stored."""
    capsys.readouterr()
    words = ["adopt", place, "--store", str(store), "--collection", "docs", "--endpoint", endpoint]
    status = run([*words, "--region", "us-east-1"])
    printed = capsys.readouterr()
    assert (status, printed.out) in [(1, ""), (2, "")]
    assert printed.err.startswith("aidre: ") and printed.err.count("\n") == 1
    assert not [secret for secret in (CREDENTIALS["AWS_SECRET_ACCESS_KEY"], "Traceback") if secret in printed.err]
    assert "docs" not in Store(store).collections() if store.exists() else True
    return printed.err


def test_a_bucket_that_is_missing_is_named_with_its_cure(
    s3: S3, credentials: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(capsys, tmp_path / "store", "s3://nowhere/parts", s3.url)
    where = f"the bucket s3://nowhere/parts at 127.0.0.1:{s3.port} does not exist: make it, or correct the address"
    assert where in said
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    with pytest.raises(BucketFailed) as raised:
        aidre.segments.write([{"id": "a", "text": "a"}], "s3://nowhere/parts", vectors=VECTORS, space=SPACE)
    assert where in str(raised.value)


def test_denied_access_is_named_with_its_cure(
    s3_place: S3Place,
    proxy: FaultyServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy.plan = lambda asked: denied()
    said = refused(capsys, tmp_path / "store", s3_place.address.url, proxy.url)
    where = (
        f"the bucket {s3_place.address.url} at {proxy.url.removeprefix('http://')} denies access: set the credentials"
    )
    assert where in said and "AWS_SECRET_ACCESS_KEY" in said
    with pytest.raises(BucketFailed) as raised:
        write(s3_place, proxy.url, monkeypatch)
    assert where in str(raised.value)


def test_an_executor_that_may_read_and_not_write_is_told_so(
    s3_place: S3Place, proxy: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.plan = lambda asked: denied() if asked.method == "PUT" else None
    with pytest.raises(BucketFailed, match="denies access"):
        write(s3_place, proxy.url, monkeypatch)
    assert s3_place.contents() == {}


def flipped(content: bytes) -> bytes:
    return content[:-70] + bytes([content[-70] ^ 1]) + content[-69:]


@pytest.mark.parametrize("ending", [".json", "/chunks.arrow", "/letters.vectors.arrow", "/lexicon.arrow"])
@pytest.mark.parametrize("damage", [flipped, lambda content: content[:-9], lambda content: b""])
def test_a_damaged_object_is_named_with_its_place_and_written_again(
    ending: str,
    damage: Callable[[bytes], bytes],
    s3: S3,
    s3_place: S3Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = write(s3_place, s3.url, monkeypatch)
    key = s3_place.key_of(ending)
    s3_place.put(key, damage(s3_place.contents()[key]))
    said = refused(capsys, tmp_path / "store", s3_place.address.url, s3.url)
    assert s3_place.address.url in said
    assert key.rpartition("/")[2] in said
    assert f"write {segment} again" in said
    if f"remove {segment}.json" in said:
        s3_place.remove(f"{segment}.json")
    write(s3_place, s3.url, monkeypatch)
    store = tmp_path / "store"
    assert aidre.open(store).collection("docs").adopt(s3_place.address.url) == [segment]
    assert [one.text for one in aidre.open(store).collection("docs").scan()] == ["text of a"]


def test_an_endpoint_where_nothing_listens_is_named(
    s3_place: S3Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_of_nothing() as endpoint:
        said = refused(capsys, tmp_path / "store", s3_place.address.url, endpoint)
        assert f"{s3_place.address.url} at {endpoint.removeprefix('http://')} does not answer" in said


@contextmanager
def proxy_of_nothing() -> Iterator[str]:
    """An address of which the port is taken, and where nobody listens."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
