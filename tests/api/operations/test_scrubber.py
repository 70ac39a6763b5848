"""The scrub beside a server: findings that all workers share, and what a server does with damage that was found."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aidre.api.operations.scrubber import FILE, Findings, RecordedProblem, Scrubber, read_findings
from aidre.engine.collection.store import Store
from aidre.engine.maintenance.scrub import Scrub
from aidre.engine.storage.format import CHUNKS_FILE, DOCUMENTS_FILE, LEXICON_FILE
from tests.support.clients import Client, a_document, fill, metrics_of, serving
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.damage import file_in, flip
from tests.support.processes import running
from tests.support.stores import NAME, copied


@pytest.fixture(scope="module")
def two_collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scrubbed")
    for name in (NAME, "other"):
        fill(path, name, [a_document(f"{name}_{n}", f"alpha word{n}") for n in range(40)])
    (path / ".log").mkdir()
    return path


@pytest.fixture
def store(two_collections: Path, tmp_path: Path) -> Path:
    """A store of two collections."""
    return copied(two_collections, tmp_path / "store")


@pytest.fixture
def scrubber(store: Path) -> Iterator[Scrubber]:
    scrubber = Scrubber(Store(store), 0.001, store / ".log")
    yield scrubber
    scrubber.close()


def test_what_was_found_stands_there_until_it_is_whole_again(
    store: Path, scrubber: Scrubber, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.time()
    truth, derived = file_in(store, CHUNKS_FILE), file_in(store, LEXICON_FILE)
    saved = truth.read_bytes()
    flip(truth)
    flip(derived)
    with caplog.at_level(logging.WARNING):
        scrubber._scrub_once()
        scrubber._scrub_once()
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "scrub" in record.getMessage()]
    assert sorted(level for level, _ in said) == ["ERROR", "WARNING"], "each is told once"
    assert scrubber.refresh() == {"docs"}
    assert scrubber.refresh() == set(), "it is opened anew once"
    assert scrubber.damaged == {"docs"}
    assert {one.file for one in scrubber.findings.problems} == {
        path.relative_to(store).as_posix() for path in (truth, derived)
    }
    truth.unlink()
    truth.write_bytes(saved)
    scrubber._scrub_once()
    scrubber.refresh()
    assert scrubber.damaged == set()
    with Store(store).writer("docs", spaces=None) as writer:
        writer.compact()
    scrubber._scrub_once()
    scrubber.refresh()
    assert scrubber.findings.problems == ()
    assert began <= scrubber.findings.passed <= time.time()


def test_nobody_waits_a_pass_until_what_was_mended_is_forgotten(
    store: Path, scrubber: Scrubber, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, derived, manifest = file_in(store, CHUNKS_FILE), file_in(store, LEXICON_FILE), "other/manifests/000001.json"
    for path in (truth, derived, store / manifest):
        flip(path)
    scrubber._scrub_once()
    scrubber.refresh()
    assert len(read_findings(store / ".log").problems) == 3
    read: list[Path] = []
    whole = Scrub._checksum

    def reading(scrub: Scrub, path: Path, size: int) -> str:
        read.append(path)
        return whole(scrub, path, size)

    monkeypatch.setattr(Scrub, "_checksum", reading)
    for _ in range(5):
        scrubber._recheck()
    assert len(read_findings(store / ".log").problems) == 3
    assert sorted(read) == sorted([truth, derived]), "what nobody has touched is not read again"
    flip(truth)
    flip(store / manifest)
    scrubber._recheck()
    assert [one.file for one in read_findings(store / ".log").problems] == [derived.relative_to(store).as_posix()]
    with Store(store).writer("docs", spaces=None) as writer:
        writer.compact()
    scrubber._recheck()
    scrubber.refresh()
    assert scrubber.findings.problems == ()
    assert scrubber.findings.passed > 0


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"passed": 1, "problems": [{"file": "x"}]}', b'{"problems": []}']
)
def test_findings_that_cannot_be_read_are_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert read_findings(tmp_path) == Findings()


def answer(client: Client | httpx.Client) -> list[str]:
    body = {"query": "word7", "collection": "docs", "mode": "lexical"}
    response = client.request("POST", "/search", json=body, headers={"content-type": "application/json"})
    return [result["id"] for result in response.json()["results"]]


def test_what_is_derived_and_damaged_is_bypassed_by_a_server_that_has_it_open(store: Path) -> None:
    with serving(store) as client:
        right = answer(client)
        opened = client.app.state.retrieval.snapshots.collections["docs"].snapshot
        lexicon = file_in(store, LEXICON_FILE)
        for offset in range(300, lexicon.stat().st_size - 300, 7):
            flip(lexicon, offset)
        scrubber: Scrubber = client.app.state.scrubber
        scrubber._seconds = 0.001
        scrubber._scrub_once()
        client.app.state.retrieval.snapshots.mark_damaged(scrubber.refresh())
        client.refresh()
        now = client.app.state.retrieval.snapshots.collections["docs"].snapshot
        assert now is not opened
        assert any("rebuilt" in warning for warning in now.warnings)
        assert answer(client) == right
        found = metrics_of(client)
        assert found["aidre_scrub_damaged_files{kind=derived}"] == 1
        assert found["aidre_scrub_damaged_files{kind=truth}"] == 0
        assert found["aidre_scrub_passed_seconds"] > 0
        assert client.get("/readyz").json() == {"status": "ready", "damaged": 0}
        client.refresh()
        assert client.app.state.retrieval.snapshots.collections["docs"].snapshot is now


def test_damaged_truth_is_told_and_the_rest_is_served(store: Path) -> None:
    with serving(store) as client:
        flip(file_in(store, DOCUMENTS_FILE))
        scrubber: Scrubber = client.app.state.scrubber
        scrubber._seconds = 0.001
        scrubber._scrub_once()
        client.app.state.retrieval.snapshots.mark_damaged(scrubber.refresh())
        client.refresh()
        assert len(answer(client)) == 1
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "degraded", "damaged": 1})
        assert "docs" not in ready.text
        assert metrics_of(client)["aidre_scrub_damaged_files{kind=truth}"] == 1


def test_a_collection_that_cannot_be_opened_whole_stays_open_as_it_was(store: Path) -> None:
    with serving(store) as client:
        right = answer(client)
        flip(file_in(store, CHUNKS_FILE), 12)  # in the frame: nobody opens this any more
        client.app.state.retrieval.snapshots.mark_damaged({"docs"})
        client.refresh()
        opened = client.app.state.retrieval.snapshots.collections["docs"]
        assert opened.problem is not None
        assert answer(client) == right


def scrubbing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "scrub"]


@pytest.mark.process
@pytest.mark.slow
def test_one_worker_reads_and_all_of_them_know(store: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text('[server]\nscrub = "1s"\n')
    with running(store, workers=2, settings=configuration) as server:
        until(lambda: read_findings(store / ".log").passed > 0)
        flip(file_in(store, CHUNKS_FILE))
        until(lambda: bool(read_findings(store / ".log").problems))
        [problem] = read_findings(store / ".log").problems
        assert (problem.collection, problem.derived) == ("docs", False)
        for _ in range(8):  # each is asked by a connection of its own
            until(
                lambda: (
                    httpx.get(f"{server.url}/readyz", timeout=WAIT_SECONDS).json()
                    == {"status": "degraded", "damaged": 1}
                )
            )
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read().count("scrub: docs/") == 1


@pytest.mark.slow
def test_another_worker_reads_when_the_one_that_did_is_gone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.operations.scrubber.RETRY_SECONDS", 0.05)
    one, two = (Scrubber(Store(store), 0.2, store / ".log") for _ in range(2))
    one.open()
    until(lambda: read_findings(store / ".log").passed > 0)
    two.open()
    one.close()
    former = read_findings(store / ".log").passed
    until(lambda: read_findings(store / ".log").passed > former)
    two.close()
    until(lambda: not scrubbing())


def test_it_can_be_switched_off(store: Path) -> None:
    scrubber = Scrubber(Store(store), 0.0, store / ".log")
    before = scrubbing()
    scrubber.open()
    assert scrubbing() == before
    scrubber.close()


def test_a_store_that_cannot_be_written_is_served_without(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(store / ".log")
    (store / ".log").write_bytes(b"a file where the folder was")
    scrubber = Scrubber(Store(store), 0.2, store / ".log")
    scrubber.open()
    until(lambda: "not scrubbed" in caplog.text)
    scrubber.close()
    assert scrubber.refresh() == set()


def test_a_problem_is_kept_as_it_was_told(tmp_path: Path) -> None:
    problem = RecordedProblem("docs", "docs/segments/x/chunks.arrow", "is missing", False, 1.5)
    (tmp_path / FILE).write_bytes(Findings(2.0, (problem,)).to_bytes())
    assert read_findings(tmp_path) == Findings(2.0, (problem,))
