"""The command line: calls that are wrong, what escapes nowhere, and the commands that look after a store."""

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

import pytest

from aidre.engine.collection.store import Store
from tests.support.shell import Shell, one_line

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


def test_a_store_without_a_name_is_not_the_folder_we_happen_to_be_in(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.source.parent)
    status, out, err = shell.run("ingest", shell.source, "--store", "", "--collection", "docs")
    assert (status, out) == (2, "")
    assert one_line(err)
    assert "--store" in err
    assert not (shell.source.parent / "docs").exists()


@pytest.mark.parametrize("command", ["status", "verify", "compact"])
def test_a_folder_without_collections_is_told_of(shell: Shell, command: str) -> None:
    """Where the name is mistyped or the disk is not mounted, silence would be taken for a sound store."""
    shell.store.mkdir()
    status, _, err = shell.run(command, "--store", shell.store)
    assert status == 0
    assert one_line(err)
    assert str(shell.store) in err


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
    command = [sys.executable, "-m", "aidre.api.cli.main", "status", "--store", str(filled.store)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode != 0


def test_a_closed_standard_output_ends_quietly(filled: Shell) -> None:
    command = f"{shlex.quote(sys.executable)} -m aidre.api.cli.main status --store {shlex.quote(str(filled.store))} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_with_a_closed_standard_error_messages_do_not_get_among_the_data(shell: Shell) -> None:
    (shell.source / "wrong.md").write_bytes(b"\xff")
    words = ["ingest", str(shell.source), "--store", str(shell.store), "--collection", "docs", "--json"]
    command = shlex.join([sys.executable, "-m", "aidre.api.cli.main", *words, "--config", str(shell.config)])
    done = subprocess.run(["sh", "-c", f"{command} 2>&-"], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["commit", "done"]


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
    command = [sys.executable, "-m", "aidre.api.cli.main", "search", "ひらがな", "--store", str(filled.store)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "ひらがな" in done.stdout.decode()


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


def test_status_shows_the_collections_that_are_sound(filled: Shell) -> None:
    filled.ingest(collection="more")
    for file in (filled.store / "docs" / "segments").glob("*/chunks.arrow"):
        file.chmod(0o600)
        file.write_bytes(b"")
    status, out, err = filled.run("status", "--store", filled.store, "--json")
    assert status == 1
    assert [json.loads(line)["collection"] for line in out.splitlines()] == ["more"]
    assert one_line(err)
    assert "docs/segments/" in err
    assert filled.run("search", "tea", "--store", filled.store, "--collection", "docs")[0] == 1


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
    server = subprocess.Popen([sys.executable, "-m", "aidre.api.cli.main", *words], stderr=subprocess.PIPE, text=True)
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
