"""The scrub: what has been damaged since it was opened is found, told, and healed where it is derived."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aidre.api.operations.scrubber import FILE, Findings, Problem, Scrubber, read_findings
from aidre.engine.collection.store import Store
from aidre.engine.maintenance import scrub
from aidre.engine.maintenance.scrub import BLOCK_BYTES, Scrub, ScrubbedFile, ScrubStopped
from aidre.engine.maintenance.verify import files_of, verify
from aidre.engine.storage.format import CHUNKS_FILE, DOCUMENTS_FILE, IDS_FILE, LEXICON_FILE
from aidre.engine.storage.manifest import Manifest
from tests.support.clients import Client, a_document, fill, serving
from tests.support.processes import running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name in ("docs", "other"):
        fill(tmp_path / "store", name, [a_document(f"{name}_{n}", f"alpha word{n}") for n in range(40)])
    (tmp_path / "store/.log").mkdir()
    return tmp_path / "store"


def file_in(store: Path, name: str, collection: str = "docs") -> Path:
    [found] = (store / collection / "segments").glob(f"*/{name}")
    return found


def flip(path: Path, offset: int | None = None) -> None:
    """One bit, on the disk and in every map of the file."""
    path.chmod(0o644)
    place = path.stat().st_size // 2 if offset is None else offset
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


def looked_at(store: Path, seconds: float = 0.001) -> list[ScrubbedFile]:
    return list(Scrub(Store(store), seconds, threading.Event()).one_pass())


def problems(store: Path) -> dict[str, tuple[str | None, bool]]:
    return {one.file: (one.problem, one.derived) for one in looked_at(store) if one.problem is not None}


def test_every_file_that_a_generation_names_is_read_once(store: Path) -> None:
    looked = looked_at(store)
    assert all(one.problem is None for one in looked)
    named = {
        path.relative_to(store).as_posix()
        for name in ("docs", "other")
        for path, _, _ in files_of(store / name, Store(store).open(name).manifest)
    }
    beside = {
        f"{name}/{file}" for name in ("docs", "other") for file in ("manifests/000001.json", "changes/000001.arrow")
    }
    assert sorted(one.file for one in looked) == sorted(named | beside)


def test_it_finds_what_verify_finds(store: Path) -> None:
    for name in (CHUNKS_FILE, LEXICON_FILE, DOCUMENTS_FILE):
        flip(file_in(store, name))
    cut = file_in(store, IDS_FILE, "other")
    cut.chmod(0o644)
    os.truncate(cut, cut.stat().st_size - 8)
    file_in(store, "fields.arrow", "other").unlink()
    flip(store / "other/manifests/000001.json", 200)
    found = problems(store)
    expected = {
        problem.file: (problem.what, problem.derived) for report in verify(Store(store)) for problem in report.problems
    }
    assert {file: derived for file, (_, derived) in found.items()} == {
        file: derived for file, (_, derived) in expected.items()
    }
    assert len(found) == 4, "of a collection whose manifest is damaged the rest is not known"


def test_files_that_a_writer_takes_away_are_not_missing(store: Path) -> None:
    looking = Scrub(Store(store), 0.001, threading.Event()).one_pass()
    first = next(looking)
    assert first.collection == "docs"
    fill(store, "docs", [a_document("docs_new", "beta")])
    with Store(store).writer("docs", spaces=None) as writer:
        writer.compact()
        writer.purge()
    assert [one for one in looking if one.problem is not None] == []


def test_reading_is_spread_over_its_time_and_ends_at_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "MIN_BYTES_PER_SECOND", 0.0)
    size = sum(
        entry.size for name in ("docs", "other") for _, entry, _ in files_of(store / name, manifest(store, name))
    )
    stop = threading.Event()
    rests: list[float] = []

    def wait(seconds: float) -> bool:
        rests.append(seconds)
        return False

    monkeypatch.setattr(stop, "wait", wait)
    list(Scrub(Store(store), 1_000_000.0, stop).one_pass())
    assert sum(rests) == pytest.approx(1_000_000.0, rel=0.01)
    assert max(rests) <= 1_000_000.0 * BLOCK_BYTES / size
    monkeypatch.setattr(stop, "wait", lambda seconds: True)
    with pytest.raises(ScrubStopped):
        list(Scrub(Store(store), 1_000_000.0, stop).one_pass())


def manifest(store: Path, name: str) -> Manifest:
    return Store(store).open(name).manifest


# -- beside a server -------------------------------------------------------------------------------------------------


@pytest.fixture
def scrubber(store: Path) -> Iterator[Scrubber]:
    scrubber = Scrubber(Store(store), 0.001)
    yield scrubber
    scrubber.close()


def test_what_was_found_stands_there_until_it_is_whole_again(
    store: Path, scrubber: Scrubber, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert scrubber.findings.passed == pytest.approx(time.time(), abs=60)


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


def samples(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {f"{one.name}{sorted(one.labels.values())}": one.value for family in families for one in family.samples}


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
        found = samples(client.get("/metrics").text)
        assert found["aidre_scrub_damaged_files['derived']"] == 1
        assert found["aidre_scrub_damaged_files['truth']"] == 0
        assert found["aidre_scrub_passed_seconds[]"] > 0
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
        assert samples(client.get("/metrics").text)["aidre_scrub_damaged_files['truth']"] == 1


def test_a_collection_that_cannot_be_opened_whole_stays_open_as_it_was(store: Path) -> None:
    with serving(store) as client:
        right = answer(client)
        flip(file_in(store, CHUNKS_FILE), 12)  # in the frame: nobody opens this any more
        client.app.state.retrieval.snapshots.mark_damaged({"docs"})
        client.refresh()
        opened = client.app.state.retrieval.snapshots.collections["docs"]
        assert opened.problem is not None
        assert answer(client) == right


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
            until(lambda: httpx.get(f"{server.url}/readyz").json() == {"status": "degraded", "damaged": 1})
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read().count("scrub: docs/") == 1


def test_another_worker_reads_when_the_one_that_did_is_gone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.operations.scrubber.RETRY_SECONDS", 0.05)
    one, two = Scrubber(Store(store), 0.2), Scrubber(Store(store), 0.2)
    one.open()
    until(lambda: read_findings(store / ".log").passed > 0)
    two.open()
    one.close()
    former = read_findings(store / ".log").passed
    until(lambda: read_findings(store / ".log").passed > former)
    two.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "scrub"]


def test_it_can_be_switched_off(store: Path) -> None:
    scrubber = Scrubber(Store(store), 0.0)
    scrubber.open()
    assert not [thread for thread in threading.enumerate() if thread.name == "scrub"]
    scrubber.close()


def test_a_store_that_cannot_be_written_is_served_without(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(store / ".log")
    (store / ".log").write_bytes(b"a file where the folder was")
    scrubber = Scrubber(Store(store), 0.2)
    scrubber.open()
    until(lambda: "not scrubbed" in caplog.text)
    scrubber.close()
    assert scrubber.refresh() == set()


def test_a_problem_is_kept_as_it_was_told(tmp_path: Path) -> None:
    problem = Problem("docs", "docs/segments/x/chunks.arrow", "is missing", False, 1.5)
    (tmp_path / FILE).write_bytes(Findings(2.0, (problem,)).to_bytes())
    assert read_findings(tmp_path) == Findings(2.0, (problem,))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
