"""A store of release 0.1.0 that is read, written, compacted, saved and restored by this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import aidre
from aidre.api.app import create_app
from aidre.api.cli.main import run
from aidre.api.config.settings import load_settings
from aidre.engine.collection.store import Store
from aidre.engine.index import signatures_of
from tests.support.clocks import WAIT_SECONDS
from tests.support.servers import Server
from tests.upgrade import corpus, questions

Told = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def told(old: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    """Runs a command on the store and returns its JSON lines; the status must be 0."""
    monkeypatch.chdir(old)

    def tell(*words: str, store: str = "store") -> list[dict[str, Any]]:
        capsys.readouterr()
        status = run([*words, "--store", store, "--json"])
        said = capsys.readouterr()
        assert status == 0, said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return tell


def check_searches(old: Path, store: str, answers: dict[str, Any]) -> None:
    """Every search finds what the old release found."""
    server = Server(create_app(Store(old / store), load_settings(old / "aidre.toml")))
    with server.run(), httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=WAIT_SECONDS) as client:
        for asked in questions.searches():
            questions.check(questions.results(client, asked), answers["searches"][asked.name], asked.name)


def ingest(told: Told, source: Path, collection: str, *words: str) -> dict[str, Any]:
    return told("ingest", str(source), "--collection", collection, "--config", "aidre.toml", *words)[-1]


def pages_again(told: Told, old: Path) -> dict[str, Any]:
    return ingest(told, corpus.write_pages(old / "docs"), "docs", "--url-base", "https://example.com/", "--mirror")


def rows_again(told: Told, old: Path) -> dict[str, Any]:
    return ingest(told, corpus.write_rows(old / "table" / "rows.jsonl", corpus.live_rows()), "rows")


def change_files(old: Path) -> list[str]:
    return sorted(path.name for path in (old / "store").glob("*/changes/*"))


def generations(old: Path) -> dict[str, int]:
    store = Store(old / "store")
    return {name: store.open(name).generation for name in store.collections()}


def test_every_byte_is_verified(told: Told) -> None:
    (report,) = told("verify")
    assert report["ok"] and not report["problems"]
    assert {one["collection"] for one in report["collections"]} == {"docs", "minutes", "rows"}


@pytest.mark.parametrize(("again", "documents"), [(pages_again, 8), (rows_again, 397)])
def test_an_ingest_writes_all_documents_once_more_and_embeds_none(
    told: Told, old: Path, answers: dict[str, Any], again: Callable[[Told, Path], dict[str, Any]], documents: int
) -> None:
    """Chunking changed since, so their fingerprints are others; the texts, and so the vectors, are not."""
    fed = change_files(old)
    first = again(told, old)
    assert change_files(old) == fed, "the change feed names chunks whose text is the same"
    assert (first["updated"], first["embedded"], first["deleted"], first["failed"]) == (documents, 0, 0, 0)
    before = generations(old)
    second = again(told, old)
    assert (second["unchanged"], second["updated"]) == (documents, 0)
    assert generations(old) == before
    check_searches(old, "store", answers)


def test_what_changed_is_embedded_alone(told: Told, old: Path) -> None:
    pages_again(told, old)
    page = old / "docs" / "puncture.md"
    page.write_text(page.read_text(encoding="utf-8").replace("five minutes", "ten minutes"), encoding="utf-8")
    done = ingest(told, old / "docs", "docs", "--url-base", "https://example.com/", "--mirror")
    assert (done["updated"], done["embedded"], done["unchanged"]) == (1, 1, 7)


def test_a_compacted_store_is_searched_as_before(told: Told, old: Path, answers: dict[str, Any]) -> None:
    told("compact")
    assert len(Store(old / "store").open("rows").manifest.segments) == 1
    check_searches(old, "store", answers)
    assert told("verify")[0]["ok"]


def test_a_backup_of_the_old_release_is_restored(told: Told, old: Path, answers: dict[str, Any]) -> None:
    told("restore", "backup.tar", store="restored")
    check_searches(old, "restored", answers)
    assert told("events", store="restored") == told("events")
    assert told("binds", "--config", "aidre.toml", store="restored") == told("binds", "--config", "aidre.toml")


def test_an_old_store_is_saved_and_restored(told: Told, old: Path, answers: dict[str, Any]) -> None:
    told("backup", "new.tar")
    told("restore", "new.tar", store="restored")
    check_searches(old, "restored", answers)
    assert [event["event_id"] for event in told("events", store="restored")] == answers["events"]


def test_the_library_reads_and_writes_an_old_collection(old: Path) -> None:
    rows = aidre.open(old / "store").collection("rows")
    assert rows.count() == 397
    row = {**corpus.live_rows()[7], "id": "a new row"}
    rows.add([row])
    found = rows.search(vector=row["vectors"][corpus.COSINE], space=corpus.COSINE, k=2)
    assert {hit.chunk.document_id for hit in found} == {"a new row", corpus.live_rows()[7]["id"]}
    rows.patch({"row-0010": {"group": "z"}})
    rows.delete(ids=["row-0011"])
    assert (rows.count(), rows.count(filter={"group": "z"})) == (397, 1)


def test_an_older_generation_of_the_old_release_is_gone_back_to(told: Told) -> None:
    kept = [one["generation"] for one in told("generations", "--collection", "rows")]
    assert 4 in kept
    told("rollback", "4", "--collection", "rows")
    assert told("status", "--collection", "rows")[0]["documents"] == 400


def test_the_event_log_is_read_before_it_is_taken_over_and_after(
    told: Told, old: Path, answers: dict[str, Any]
) -> None:
    before = told("events")
    assert [event["event_id"] for event in before] == answers["events"]
    assert (old / "store/.log/events").is_dir(), "reading took it over"
    check_searches(old, "store", answers)  # by a server, which takes it over
    assert told("events") == before
    assert not (old / "store/.log/events").exists()
    assert (old / "store/.log/events.1.old/000001.jsonl").is_file()


def test_binds_are_opened_with_the_old_key(told: Told, answers: dict[str, Any]) -> None:
    (bind,) = told("binds", "--config", "aidre.toml")
    assert bind["bind_data"] == corpus.PERSON
    assert bind["offer_id"] == answers["bound"]["answer"]["offer_id"]


def test_signatures_of_texts_are_read_until_a_compaction_stores_them(told: Told, old: Path) -> None:
    def distinct() -> list[tuple[str, int]]:
        with aidre.open(old / "store") as db:
            found = db.collection("rows").search("rows", mode="lexical", group="document", k=50)
            return [(hit.id, one.count) for hit, one in zip(found, found.copies, strict=True)]

    def signatures() -> list[bytes | None]:
        return [chunk.signature for chunk in Store(old / "store").open("rows").scan()]

    before = distinct()
    assert set(signatures()) == {None}
    told("compact", "--collection", "rows")
    texts = [chunk.text for chunk in Store(old / "store").open("rows").scan()]
    assert signatures() == [one.tobytes() for one in signatures_of(texts)]
    assert distinct() == before
