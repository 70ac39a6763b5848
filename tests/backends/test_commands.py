"""The commands and the library over engines elsewhere: `[store]` of the configuration, `aidre.open(path, uri=...)`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import aidre
from aidre.api.cli.main import run
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.engines import LITE, uri_of
from tests.support.processes import running
from tests.support.shell import CONFIGURATION, Shell

SECRET = "a secret of the writer"
WRITES = f"""
[server]
writes = true
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
scopes = ["search", "write"]
"""
LACKING = {
    "postgres": "rescore, generations, changes, vocabulary, recall, words",
    "milvus": "lexical, hybrid, rescore, feedback, generations, changes, vocabulary, facets, highlight, recall, words",
    LITE: "rescore, generations, changes, vocabulary, facets, recall, words",
}


@pytest.fixture(params=list(LACKING))
def elsewhere(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:
    """A shell whose collections are in another engine, filled by one ingest."""
    with uri_of(request.param) as uri:
        monkeypatch.setenv("STORE_URI", uri)
        monkeypatch.setenv("STORE_ENGINE", request.param)
        shell = Shell(tmp_path, capsys)
        shell.config.write_text(
            f'{CONFIGURATION}\n[store]\nbackend = "{request.param.removesuffix("-lite")}"\nuri = "env:STORE_URI"\n',
            encoding="utf-8",
        )
        assert shell.ingest()[0] == 0
        yield shell


def lacking() -> str:
    return LACKING[os.environ["STORE_ENGINE"]]


def has_words() -> bool:
    return "lexical" not in lacking()


def command(shell: Shell, *words: str | Path) -> tuple[int, str, str]:
    return shell.run(*words, "--store", shell.store, "--config", shell.config)


def test_a_report_names_what_the_engine_cannot_tell(elsewhere: Shell, tmp_path: Path) -> None:
    status, out, err = command(elsewhere, "report", "--json", "--out", tmp_path / "report.html")
    facts = json.loads(out)
    assert (status, err) == (0, "")
    assert facts["unavailable"].keys() == {"sizes by kind of file, and sources", "recall as calibrated"}
    assert (facts["searches"]["mode"], facts["searches"]["asked"], facts["copies"]["compared"]) == (
        "hybrid" if has_words() else "dense",
        3,
        3,
    )
    assert facts["languages_detected"] != has_words()
    assert sum(facts["languages"].values()) == 3
    assert set(facts["sizes"]) >= {"documents and chunks", "vectors"}
    assert "Not to be had here" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_is_ingested_is_found_shown_and_deleted(elsewhere: Shell) -> None:
    _, lines, _ = elsewhere.ingest()
    assert (lines[-1]["updated"], lines[-1]["unchanged"]) == (0, 3)
    status, out, _ = command(elsewhere, "search", "tea in water", "-k", "1", "--json")
    assert (status, json.loads(out)["document_id"]) == (0, "texts/tea.md")
    status, out, _ = command(elsewhere, "status", "--json")
    facts = json.loads(out)
    assert (facts["documents"], facts["lacking"]) == (3, lacking().split(", "))
    assert facts["disk_bytes"] == facts["bytes"] > 0
    assert f"this engine lacks {lacking()}" in command(elsewhere, "status")[1]
    (elsewhere.source / "tea.md").unlink()
    assert elsewhere.ingest(elsewhere.source, "--mirror")[1][-1]["deleted"] == 1
    assert command(elsewhere, "delete", "texts/rain.md", "--purge")[0] == 0
    assert command(elsewhere, "compact")[0] == 0
    status, out, _ = command(elsewhere, "search", "anything", "--json")
    assert [json.loads(line)["document_id"] for line in out.splitlines()] == ["texts/bread.md"]
    assert not (elsewhere.store / "docs").exists()


@pytest.mark.parametrize(
    "words",
    [("verify",), ("generations",), ("rollback", "1"), ("backup", "b.tar"), ("publish", "--to", "s3://bucket/x")],
)
def test_work_on_files_is_refused_in_one_line(elsewhere: Shell, words: tuple[str, ...]) -> None:
    status, _, err = command(elsewhere, *words)
    assert status == 2
    assert "no local segments" in err
    assert err.count("\n") == 1


def test_another_space_is_refused_with_the_cure(elsewhere: Shell) -> None:
    for words in (("--space", "words"), ("--drop", "words")):
        status, _, err = command(elsewhere, "embed", "--collection", "docs", *words)
        assert status == 2
        assert "no local segments, whose files this works on: ingest into a new collection" in err


def test_a_mode_that_the_engine_lacks_is_refused_by_name(elsewhere: Shell) -> None:
    for mode in ("lexical", "hybrid"):
        status, out, err = command(elsewhere, "search", "tea", "--mode", mode, "--json")
        if has_words():
            assert (status, json.loads(out.splitlines()[0])["document_id"]) == (0, "texts/tea.md")
        else:
            assert status == 2
            assert "lacks the capability lexical" in err


def test_a_wrong_address_is_one_line_without_the_password(elsewhere: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = "Milvus" if "milvus" in os.environ["STORE_URI"] else "PostgreSQL"
    scheme = {"Milvus": "milvus", "PostgreSQL": "postgresql"}[engine]
    monkeypatch.setenv("STORE_URI", f"{scheme}://me:s3cret@127.0.0.1:1/there")
    for words in (("status",), ("search", "tea"), ("serve", "--port", "0"), ("mcp",), ("delete", "a")):
        status, out, err = command(elsewhere, *words)
        assert status == 1, words
        assert f"{engine} at 127.0.0.1:1/there does not answer" in err
        assert "s3cret" not in out + err
        assert err.count("\n") == 1


@pytest.mark.process
@pytest.mark.slow
def test_a_server_with_workers_and_writes_serves_it(elsewhere: Shell) -> None:
    with elsewhere.config.open("a", encoding="utf-8") as config:
        config.write(WRITES)
    with (
        running(elsewhere.store, 2, settings=elsewhere.config) as served,
        httpx.Client(base_url=served.url, timeout=WAIT_SECONDS) as client,
    ):
        assert client.get("/readyz").json()["status"] == "ready"
        found = client.post("/search", json={"query": "tea in water", "top_k": 1}).json()
        assert (found["results"][0]["source"]["title"], found["meta"]["mode"]) == (
            "Tea",
            "hybrid" if has_words() else "dense",
        )
        row = {"id": "new", "text": "Rooibos is red."}
        put = client.put("/collections/docs/documents", json=[row], headers={"Authorization": f"Bearer {SECRET}"})
        assert put.status_code == 200, put.text
        until(lambda: client.get("/chunks/new%23chunk_1").status_code == 200, "the new document is not served")


def test_the_library_opens_an_engine_by_its_uri(elsewhere: Shell, tmp_path: Path) -> None:
    with aidre.open(tmp_path / "state", uri=os.environ["STORE_URI"]) as database:
        assert database.collections() == ["docs"]
        docs = database.collection("docs")
        assert len(docs) == 3
        assert docs.search("tea in water", k=1)[0].title == "Tea"
        if has_words():
            assert [hit.title for hit in docs.search("tea", mode="lexical")] == ["Tea"]
        else:
            with pytest.raises(aidre.Unsupported, match="lexical"):
                docs.search("tea", mode="lexical")
        database.drop("docs")
    with pytest.raises(aidre.InvalidInput, match="not an address of an engine"):
        aidre.open(tmp_path, uri="mysql://host")
    with pytest.raises(aidre.BackendUnavailable):
        aidre.open(tmp_path, uri="postgresql://127.0.0.1:1/x").collections()


def test_the_help_of_every_command_for_a_store_names_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("verify", "delete", "compact", "events", "generations", "rollback", "backup", "restore"):
        assert run([name, "--help"]) == 0
        assert "--config" in capsys.readouterr().out
