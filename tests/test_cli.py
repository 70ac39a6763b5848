"""The command line: what it prints, where, and the exit status it leaves."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from aidre.api import console
from aidre.api.cli import run
from aidre.engine.store import Store

CONFIGURATION = """
[[spaces]]
id = "words"
dimensions = 64
distance = "cosine"
provider = "aidre"
model = "hashing"
[[spaces]]
id = "given"
dimensions = 2
distance = "euclidean"
[collections.docs]
description = "Three short texts"
spaces = ["words"]
[collections.more]
spaces = ["words"]
[collections.both]
spaces = ["words", "given"]
"""
TEXTS = {
    "tea": "Green tea is steeped in water that does not boil.",
    "rain": "A rain jacket has taped seams and a hood.",
    "bread": "Sourdough bread rises overnight.",
}


class Shell:
    """Runs commands against one store and one configuration, in this process."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.store = folder / "store"
        self.config = folder / "aidre.toml"
        self.source = folder / "texts"
        self._captured = captured
        self.config.write_text(CONFIGURATION, encoding="utf-8")
        self.source.mkdir()
        for name, text in TEXTS.items():
            (self.source / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")

    def run(self, *words: str | Path) -> tuple[int, str, str]:
        self._captured.readouterr()
        status = run([str(word) for word in words])
        printed = self._captured.readouterr()
        return status, printed.out, printed.err

    def json(self, *words: str | Path) -> list[dict[str, Any]]:
        status, out, err = self.run(*words, "--store", self.store, "--json")
        assert status == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def ingest(self, *more: str | Path, collection: str = "docs") -> tuple[int, list[dict[str, Any]], str]:
        words = ("ingest", *(more or (self.source,)), "--store", self.store, "--collection", collection)
        status, out, err = self.run(*words, "--config", self.config, "--json")
        return status, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


@pytest.fixture
def filled(shell: Shell) -> Shell:
    status, _, err = shell.ingest()
    assert status == 0, err
    return shell


def one_line(text: str) -> bool:
    return text.startswith("aidre: ") and text.count("\n") == 1 and text.endswith("\n")


# -- calls that are wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["igest"],
        ["--wrong"],
        ["status"],
        ["status", "--store"],
        ["status", "--store", "x", "--jsn"],
        ["search", "--store", "x"],
        ["search", "tea", "--store", "x", "-k", "0"],
        ["search", "tea", "--store", "x", "-k", "many"],
        ["ingest", "a", "--store", "x", "--collection", "c", "--commit-every", "0"],
        ["serve", "--store", "x", "--port", "65536"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_one_line_and_2(shell: Shell, words: list[str]) -> None:
    status, out, err = shell.run(*words)
    assert (status, out) == (2, "")
    assert one_line(err)


@pytest.mark.parametrize("words", [["search", "tea"], ["status"], ["verify"], ["serve"], ["compact"], ["delete", "a"]])
def test_a_missing_store_is_one_line_and_2(shell: Shell, words: list[str]) -> None:
    status, out, err = shell.run(*words, "--store", shell.store)
    assert (status, out) == (2, "")
    assert one_line(err)
    assert str(shell.store) in err
    assert not shell.store.exists()


def test_a_wrong_configuration_is_named_before_anything_is_written(shell: Shell) -> None:
    shell.config.write_text("[limts]\n", encoding="utf-8")
    status, events, err = shell.ingest()
    assert (status, events) == (2, [])
    assert one_line(err)
    assert "limits" in err
    assert not shell.store.exists()


def test_a_source_that_is_not_there_is_named(shell: Shell) -> None:
    status, events, err = shell.ingest(shell.source / "gone.md")
    assert (status, events) == (2, [])
    assert one_line(err)
    assert "gone.md" in err


def test_a_space_that_is_not_declared_is_named(shell: Shell) -> None:
    shell.config.write_text('[collections.docs]\nspaces = ["wrods"]\n', encoding="utf-8")
    status, _, err = shell.ingest()
    assert status == 2
    assert one_line(err)
    assert "wrods" in err


def test_help_is_no_error(shell: Shell) -> None:
    status, out, err = shell.run("--help")
    assert (status, err) == (0, "")
    assert "ingest" in out


# -- what escapes nowhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("two\nlines"), 70, "aidre: a defect of aidre: RuntimeError: two lines"),
        (OSError(5, "Input/output error"), 1, "aidre: [Errno 5] Input/output error"),
    ],
    ids=["interruption", "defect", "disk"],
)
def test_no_traceback_reaches_the_user(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, raised: BaseException, status: int, said: str
) -> None:
    def fail(self: Store) -> None:
        raise raised

    monkeypatch.setattr(Store, "require", fail)
    monkeypatch.delenv("AIDRE_TRACEBACK", raising=False)
    got, out, err = shell.run("status", "--store", shell.store)
    assert (got, out) == (status, "")
    assert err.startswith(said)
    assert err.count("\n") == (1 if said else 0)


def test_a_traceback_can_be_asked_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "require", lambda self: 1 / 0)
    monkeypatch.setenv("AIDRE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        shell.run("status", "--store", shell.store)


def test_a_closed_pipe_ends_quietly(filled: Shell) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "aidre.api.cli", "status", "--store", str(filled.store)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode != 0


def test_a_closed_standard_output_ends_quietly(filled: Shell) -> None:
    command = f"{shlex.quote(sys.executable)} -m aidre.api.cli status --store {shlex.quote(str(filled.store))} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_a_second_writer_is_refused_by_name(filled: Shell) -> None:
    spaces = Store(filled.store).open("docs").collection.spaces
    with Store(filled.store).writer("docs", spaces=spaces):
        status, _, err = filled.ingest()
    assert status == 2
    assert one_line(err)
    assert str(os.getpid()) in err


def test_unwritable_letters_do_not_end_a_command(filled: Shell) -> None:
    (filled.source / "kana.md").write_text("# かな\n\nひらがな\n", encoding="utf-8")
    filled.ingest()
    command = [sys.executable, "-m", "aidre.api.cli", "search", "ひらがな", "--store", str(filled.store)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "ひらがな" in done.stdout.decode()


# -- ingest ------------------------------------------------------------------------------------------------


def test_ingest_reports_commits_and_a_summary(shell: Shell) -> None:
    status, events, err = shell.ingest()
    assert (status, err) == (0, "")
    assert [event["event"] for event in events] == ["commit", "done"]
    assert events[0] == {"event": "commit", "generation": 1, "documents": 3, "chunks": 3}
    assert events[1].pop("seconds") > 0
    assert events[1] == {
        "event": "done",
        "documents": 3,
        "chunks": 3,
        "embedded": 3,
        "updated": 3,
        "unchanged": 0,
        "deleted": 0,
        "failed": 0,
        "skipped": 0,
    }


def test_ingest_commits_every_n_documents(shell: Shell) -> None:
    _, events, _ = shell.ingest(shell.source, "--commit-every", "1")
    commits = [event for event in events if event["event"] == "commit"]
    assert [commit["documents"] for commit in commits] == [1, 2, 3]


def test_a_second_ingest_changes_nothing(filled: Shell) -> None:
    before = Store(filled.store).current("docs")
    status, [done], _ = filled.ingest()
    assert status == 0
    assert (done["event"], done["unchanged"], done["updated"], done["embedded"]) == ("done", 3, 0, 0)
    assert Store(filled.store).current("docs") == before


def test_a_bad_row_is_named_and_the_others_are_stored(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good"}\n{"id": "b", \n{"id": "c", "text": "better"}\n', encoding="utf-8")
    status, events, err = shell.ingest(rows)
    assert status == 1
    assert "rows.jsonl:2" in err
    assert (events[-1]["updated"], events[-1]["failed"]) == (2, 1)
    assert Store(shell.store).open("docs").documents == 2


def test_a_dry_run_writes_nothing(shell: Shell) -> None:
    status, events, _ = shell.ingest(shell.source, "--dry-run")
    assert status == 0
    assert (events[-1]["event"], events[-1]["documents"]) == ("done", 3)
    assert not shell.store.exists() or Store(shell.store).collections() == []


def test_mirror_deletes_what_the_source_no_longer_has(filled: Shell) -> None:
    (filled.source / "rain.md").unlink()
    assert filled.ingest()[1][-1]["deleted"] == 0
    assert filled.ingest(filled.source, "--mirror")[1][-1]["deleted"] == 1
    (filled.source / "tea.md").unlink()
    (filled.source / "bread.md").unlink()
    (filled.source / "soup.md").write_text("# Soup\n", encoding="utf-8")
    status, _, err = filled.ingest(filled.source, "--mirror")
    assert status == 1
    assert "--force" in err
    assert filled.ingest(filled.source, "--mirror", "--force")[1][-1]["deleted"] == 2


def test_rows_bring_vectors_for_a_space_without_a_model(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    status, _, err = shell.ingest(rows, collection="both")
    assert status == 0, err
    [collection] = shell.json("status")
    assert [space["id"] for space in collection["spaces"]] == ["words", "given"]


def test_an_existing_collection_keeps_its_spaces_without_a_configuration_of_them(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    shell.ingest(rows, collection="both")
    rows.write_text('{"id": "a", "text": "better", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    words = ("ingest", rows, "--store", shell.store, "--collection", "both")
    status, _, err = shell.run(*words)
    assert status == 0, err
    assert [space["id"] for space in shell.json("status")[0]["spaces"]] == ["words", "given"]


def test_ingest_speaks_to_people_without_json(shell: Shell) -> None:
    words = ("ingest", shell.source, "--store", shell.store, "--collection", "docs", "--config", shell.config)
    status, out, err = shell.run(*words)
    assert status == 0, err
    assert "3 documents" in out
    assert "\x1b" not in out + err


# -- search ------------------------------------------------------------------------------------------------


def test_search_prints_one_hit_a_line(filled: Shell) -> None:
    hits = filled.json("search", "tea steeped in water", "-k", "2")
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert hits[0]["id"] == "texts/tea.md#chunk_1"
    assert hits[0]["score"] >= hits[1]["score"]
    assert TEXTS["tea"] in hits[0]["text"]
    assert hits[0]["source"]["title"] == "Tea"
    assert hits[0]["metadata"]["content_hash"].startswith("sha256:")


def test_search_shows_people_title_score_and_text(filled: Shell) -> None:
    status, out, _ = filled.run("search", "rain jacket", "--store", filled.store)
    assert status == 0
    first, *rest = out.splitlines()
    assert first.split()[0] == "1"
    assert first.endswith("Rain")
    assert any("taped seams" in line for line in rest)


def test_search_takes_a_filter(filled: Shell) -> None:
    hits = filled.json("search", "tea", "--filter", '{"document_id": "texts/bread.md"}')
    assert [hit["document_id"] for hit in hits] == ["texts/bread.md"]


@pytest.mark.parametrize("filter", ["{", "[]", '{"and": 1}'])
def test_a_wrong_filter_is_one_line_and_2(filled: Shell, filter: str) -> None:
    status, _, err = filled.run("search", "tea", "--store", filled.store, "--filter", filter)
    assert status == 2
    assert one_line(err)


def test_the_collection_must_be_named_where_there_are_several(filled: Shell) -> None:
    filled.ingest(collection="more")
    status, _, err = filled.run("search", "tea", "--store", filled.store)
    assert status == 2
    assert "docs" in err
    assert "more" in err
    assert filled.json("search", "tea", "--collection", "more")


@pytest.mark.parametrize("words", [["--collection", "dcos"], ["--mode", "dens"]])
def test_an_unknown_name_is_one_line_and_2(filled: Shell, words: list[str]) -> None:
    status, _, err = filled.run("search", "tea", "--store", filled.store, *words)
    assert status == 2
    assert one_line(err)
    assert words[1] in err


def test_a_blank_query_is_refused(filled: Shell) -> None:
    assert filled.run("search", "  ", "--store", filled.store)[0] == 2


def test_vectors_of_another_revision_of_the_model_are_not_searched(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.engine.hashing.REVISION", "another")
    status, _, err = filled.run("search", "tea", "--store", filled.store)
    assert status == 2
    assert one_line(err)
    assert "revision" in err


def test_documents_cannot_steer_the_terminal() -> None:
    source = {"title": "\x1b[31mred", "url": "https://example.com/\x07"}
    hit = {"rank": 1, "score": 0.5, "document_id": "a", "source": source, "text": "one\x1b[2Jtwo"}
    assert all(line.isprintable() for line in console.hit_lines(hit))


# -- the others --------------------------------------------------------------------------------------------


def test_status_tells_counts_spaces_and_size(filled: Shell) -> None:
    [collection] = filled.json("status")
    assert collection["collection"] == "docs"
    assert (collection["generation"], collection["documents"], collection["chunks"]) == (1, 3, 3)
    assert collection["spaces"][0]["id"] == "words"
    assert collection["disk_bytes"] > 1000
    status, out, _ = filled.run("status", "--store", filled.store)
    assert status == 0
    assert "3 documents" in out
    assert "exact" in out


def test_verify_is_content_with_a_sound_store(filled: Shell) -> None:
    [report] = filled.json("verify")
    assert (report["ok"], report["documents"], report["chunks"], report["problems"]) == (True, 3, 3, [])
    [collection] = report["collections"]
    assert (collection["collection"], collection["generation"], collection["documents"]) == ("docs", 1, 3)


def test_verify_finds_a_flipped_byte(filled: Shell) -> None:
    [chunks] = filled.store.glob("docs/segments/*/chunks.arrow")
    content = bytearray(chunks.read_bytes())
    place = content.index(b"taped seams")
    content[place] ^= 1
    chunks.chmod(0o644)
    chunks.write_bytes(content)
    status, out, _ = filled.run("verify", "--store", filled.store, "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (1, False)
    assert "chunks.arrow" in json.dumps(report["problems"])
    status, out, err = filled.run("verify", "--store", filled.store)
    assert status == 1
    assert "chunks.arrow" in out + err


def test_delete_removes_documents_and_passes_over_unknown_ones(filled: Shell) -> None:
    [answer] = filled.json("delete", "texts/tea.md", "texts/gone.md")
    assert answer["deleted"] == 1
    assert {hit["document_id"] for hit in filled.json("search", "tea")} == {"texts/rain.md", "texts/bread.md"}


def test_purge_leaves_no_byte_of_a_deleted_document(filled: Shell) -> None:
    def held() -> bool:
        return any(b"taped seams" in path.read_bytes() for path in filled.store.rglob("*") if path.is_file())

    filled.json("delete", "texts/rain.md")
    assert held()
    [answer] = filled.json("delete", "texts/rain.md", "--purge")
    assert answer["deleted"] == 0
    assert not held()
    assert filled.json("status")[0]["documents"] == 2
    assert filled.json("verify")[0]["ok"]


def test_compact_makes_one_segment(filled: Shell) -> None:
    (filled.source / "soup.md").write_text("# Soup\n\nLentil soup.\n", encoding="utf-8")
    filled.ingest()
    assert filled.json("status")[0]["segments"] == 2
    [answer] = filled.json("compact")
    assert (answer["collection"], answer["documents"]) == ("docs", 4)
    assert filled.json("status")[0]["segments"] == 1


def test_serve_answers_until_it_is_interrupted(filled: Shell) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["serve", "--store", str(filled.store), "--config", str(filled.config), "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "aidre.api.cli", *words], stderr=subprocess.PIPE, text=True)
    try:
        assert ready(port, server)
    finally:
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=30)
    assert server.returncode in {0, 130}
    assert "Traceback" not in err


def ready(port: int, server: subprocess.Popen[str]) -> bool:
    for _ in range(600):
        if server.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            time.sleep(0.05)
    return False
