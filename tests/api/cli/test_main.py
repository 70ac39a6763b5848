"""The command line, `api/cli/main.py`: calls that are wrong, what escapes nowhere, and `aidre ingest`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess

import pytest

from aidre.engine.collection.store import Store
from tests.support.clocks import WAIT_SECONDS
from tests.support.shell import COMMAND, Shell, one_line

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
    assert err.endswith(" See `aidre --help`.\n"), "the call is wrong, and not the store that is not there"


@pytest.mark.parametrize("words", [["search", "tea"], ["status"], ["verify"], ["serve"], ["compact"], ["delete", "a"]])
def test_a_missing_store_is_one_line_and_2(shell: Shell, words: list[str]) -> None:
    status, out, err = shell.run(*words, "--store", shell.store)
    assert (status, out) == (2, "")
    assert one_line(err)
    assert str(shell.store) in err
    assert not shell.store.exists()


def test_the_store_may_be_named_by_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDRE_STORE", "/nowhere/by-environment")
    assert "by-environment" in shell.run("status")[2]
    status, _, err = shell.run("status", "--store", "/nowhere/by-option")
    assert (status, "by-option" in err, "by-environment" in err) == (2, True, False)
    monkeypatch.setenv("AIDRE_STORE", "")
    assert "Missing option '--store'" in shell.run("status")[2]


def test_every_command_on_a_store_takes_it_from_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDRE_STORE", "/nowhere/by-environment")
    words = {"search": ["tea"], "delete": ["a"], "rollback": ["1"], "backup": ["/nowhere/b"], "restore": ["/nowhere/b"]}
    words |= {"calibrate": ["--queries", "q"], "embed": ["--collection", "c", "--space", "s"]}
    words |= {"ingest": [".", "--collection", "c"], "drop": ["--collection", "c"]}
    help_text = shell.run("--help")[1]
    commands = [line.split()[0] for line in help_text.partition("Commands:")[2].splitlines() if line.strip()]
    assert {"ingest", "serve", "search", "status"} < set(commands)
    for command in set(commands) - {"bench", "conformance", "keys", "model"}:
        assert "AIDRE_STORE" in shell.run(command, "--help")[1]
        if command not in {
            "adopt",
            "ingest",
            "restore",
            "watch",
            "doctor",
        }:  # they make the store; doctor says it is missing
            status, _, err = shell.run(command, *words.get(command, []))
            assert status == 2
            assert "/nowhere/by-environment" in err, command


def test_a_store_without_a_name_is_not_the_folder_we_happen_to_be_in(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.source.parent)
    status, out, err = shell.run("ingest", shell.source, "--store", "", "--collection", "docs")
    assert (status, out) == (2, "")
    assert one_line(err)
    assert "--store" in err
    assert not (shell.source.parent / "docs").exists()


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


def its_own_cause() -> Exception:
    """As pymilvus raises errors of gRPC."""
    error = RuntimeError("lost")
    error.__cause__ = error
    return error


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 1, "aidre: out of memory: the system gave this process no more (MemoryError); what was"),
        (ValueError("cannot be read: Cannot allocate memory"), 1, "aidre: out of memory: the system gave this process"),
        (
            RuntimeError("std::bad_alloc"),
            1,
            "aidre: out of memory: the system gave this process no more (std::bad_alloc)",
        ),
        (
            RuntimeError("can't start new thread"),
            1,
            "aidre: out of memory: the system gave this process no more (can't",
        ),
        (RuntimeError("two\nlines"), 70, "aidre: a defect of aidre: RuntimeError: two lines"),
        (OSError(5, "Input/output error"), 1, "aidre: Input/output error"),
        (OSError(2, "No such file", "queries.txt"), 1, "aidre: queries.txt: No such file"),
        (OSError("no number"), 1, "aidre: no number"),
        (its_own_cause(), 70, "aidre: a defect of aidre: RuntimeError: lost"),
    ],
    ids=[
        "interruption",
        "no memory",
        "system",
        "C++",
        "thread",
        "defect",
        "disk",
        "file",
        "no number",
        "its own cause",
    ],
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


@pytest.mark.process
def test_a_closed_pipe_ends_quietly(read_only: Shell) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [*COMMAND, "status", "--store", str(read_only.store)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode != 0


@pytest.mark.process
def test_a_closed_standard_output_ends_quietly(read_only: Shell) -> None:
    command = shlex.join([*COMMAND, "status", "--store", str(read_only.store)])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_with_a_closed_standard_error_messages_do_not_get_among_the_data(shell: Shell) -> None:
    (shell.source / "wrong.jsonl").write_bytes(b"no row\n")
    words = ["ingest", str(shell.source), "--store", str(shell.store), "--collection", "docs", "--json"]
    command = shlex.join([*COMMAND, *words, "--config", str(shell.config)])
    done = subprocess.run(["sh", "-c", f"{command} 2>&-"], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["commit", "done"]


def test_a_second_writer_is_refused_by_name(filled: Shell) -> None:
    spaces = Store(filled.store).open("docs").collection.spaces
    with Store(filled.store).writer("docs", spaces=spaces):
        status, _, err = filled.ingest(filled.source, "--wait", "0")
    assert status == 2
    assert one_line(err)
    assert str(os.getpid()) in err


@pytest.mark.process
def test_unwritable_letters_do_not_end_a_command(ingested: Shell) -> None:
    (ingested.source / "kana.md").write_text("# かな\n\nひらがな\n", encoding="utf-8")
    ingested.ingest()
    command = [*COMMAND, "search", "ひらがな", "--store", str(ingested.store)]
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
        "left_out": 0,
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


def test_a_second_ingest_without_the_configuration_of_the_first_changes_nothing(filled: Shell) -> None:
    [done] = filled.json("ingest", filled.source, "--collection", "docs")
    assert (done["unchanged"], done["updated"], done["embedded"]) == (3, 0, 0)


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


def test_mirror_deletes_what_the_source_no_longer_has(ingested: Shell) -> None:
    (ingested.source / "rain.md").unlink()
    assert ingested.ingest()[1][-1]["deleted"] == 0
    assert ingested.ingest(ingested.source, "--mirror")[1][-1]["deleted"] == 1
    (ingested.source / "tea.md").unlink()
    (ingested.source / "bread.md").unlink()
    (ingested.source / "soup.md").write_text("# Soup\n", encoding="utf-8")
    status, _, err = ingested.ingest(ingested.source, "--mirror")
    assert status == 1
    assert "--force" in err
    assert ingested.ingest(ingested.source, "--mirror", "--force")[1][-1]["deleted"] == 2


def test_drafts_are_left_out_named_and_taken_where_they_are_wanted(shell: Shell) -> None:
    (shell.source / "next.md").write_text("---\ndraft: true\n---\nPrices will rise.\n", encoding="utf-8")
    status, events, err = shell.ingest()
    assert (status, events[-1]["documents"], events[-1]["left_out"]) == (0, 3, 1)
    assert events[-1]["drafts"] == ["next.md (draft: true)"]
    assert one_line(err) and "next.md (draft: true)" in err and "--include-drafts" in err
    words = ("ingest", shell.source, "--store", shell.store, "--collection", "docs", "--config", shell.config)
    assert "0 without text, 1 left out, 0 failed" in shell.run(*words)[1]
    assert shell.ingest(shell.source, "--include-drafts")[1][-1]["updated"] == 1
    status, events, err = shell.ingest()
    assert (status, events[-1]["stored_drafts"]) == (0, ["texts/next.md"])
    assert "--mirror deletes them (texts/next.md)" in err
    assert shell.ingest(shell.source, "--mirror")[1][-1]["deleted"] == 1


def test_the_form_of_addresses_is_an_option_and_a_key_of_the_collection(shell: Shell) -> None:
    def ingested_urls(*more: str) -> set[str | None]:
        assert shell.ingest(shell.source, "--url-base", "https://x.example", *more)[0] == 0
        snapshot = Store(shell.store).open("docs")
        return {chunk.url for chunk in snapshot.scan(None)}

    assert "https://x.example/tea.md" in ingested_urls()
    assert "https://x.example/tea.html" in ingested_urls("--url-style", "html")
    configuration = shell.config.read_text(encoding="utf-8")
    key = '[collections.docs]\nurl_style = "directory"\n'
    assert "[collections.docs]\n" in configuration
    shell.config.write_text(configuration.replace("[collections.docs]\n", key), encoding="utf-8")
    assert "https://x.example/tea/" in ingested_urls()
    assert "https://x.example/tea" in ingested_urls("--url-style", "bare")
    status, _, err = shell.ingest(shell.source, "--url-style", "pretty")
    assert (status, one_line(err)) == (2, True)
    assert "auto, file, directory, html, bare" in err


def test_a_folder_of_other_kinds_ends_with_1_and_what_to_do(shell: Shell) -> None:
    other = shell.source.parent / "other"
    other.mkdir()
    (other / "a.doc").write_text("Title\n", encoding="utf-8")
    status, events, err = shell.ingest(other)
    assert (status, events[-1]["documents"], events[-1]["empty"]) == (1, 0, ["other"])
    assert "aidre: other: has no document: its files are of kinds that are not read (.doc 1" in err
    assert shell.ingest(shell.source)[0] == 0


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


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"])
def test_an_interrupted_ingest_ends_with_one_line(shell: Shell, number: signal.Signals, status: int) -> None:
    """The process sends the signal to itself when it would read the first document."""
    program = (
        "import os, sys\n"
        "from aidre.ingest.pipeline import run\n"
        f"run.Run.take = lambda *_: os.kill(os.getpid(), {int(number)})\n"
        "from aidre.api.cli.main import main\n"
        "main()\n"
    )
    words = ["ingest", shell.source, "--store", shell.store, "--collection", "docs", "--config", shell.config]
    done = subprocess.run(
        [COMMAND[0], "-c", program, *map(str, words)], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == status
    assert done.stderr == (
        "aidre: interrupted before the first commit: this run has stored nothing; the next one begins anew\n"
    )
