"""`aidre doctor`: what it says of sound and of broken installations, configurations and stores. It never crashes."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aidre.api.cli.doctor import installation, machine, screen
from aidre.api.cli.doctor.findings import Finding, Subject
from aidre.api.protocols.provenance.keys import make_key
from aidre.engine.collection.store import Store
from aidre.engine.embedding.models import DEFAULT
from aidre.engine.storage.manifest import seal, unseal
from aidre.ingest.sandbox.tesseract import recogniser
from aidre.ingest.sandbox.walls import available
from tests import ROOT
from tests.support.shell import COMMAND, Shell


def asked(shell: Shell, *words: str | Path, store: Path | None = None) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit status, and the findings by what they are about."""
    place = ("--store", shell.store if store is None else store)
    status, out, err = shell.run("doctor", *place, "--port", "0", "--json", *words)
    assert err == "", err
    found: dict[str, list[dict[str, Any]]] = {}
    for line in out.splitlines():
        found.setdefault(json.loads(line)["what"], []).append(json.loads(line))
    return status, found


def levels(found: dict[str, list[dict[str, Any]]], what: str) -> list[str]:
    return [one["level"] for one in found[what]]


EXAMINE_MODEL = installation.model


@pytest.fixture(autouse=True)
def _only_one_test_reads_the_model_and_loads_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_COMPILED", ("json",))
    monkeypatch.setattr(installation, "model", lambda subject: ())


def test_the_model_is_known_by_its_checksum_and_told_where_it_is_altered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    subject = Subject(None, None, "127.0.0.1", 0)
    finding, models = EXAMINE_MODEL(subject)
    assert finding.level in {"ok", "note"}
    assert DEFAULT.digest[:16] in finding.text
    assert "default" in models.text
    (tmp_path / "model.safetensors").write_bytes(b"altered")
    monkeypatch.setattr("aidre.engine.embedding.weights.find_model", lambda name: tmp_path)
    finding, _ = EXAMINE_MODEL(subject)
    assert (finding.level, "reinstall" in finding.text) == ("warning", True)


def test_a_model_that_is_not_here_is_fetched_later_or_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(None, None, "127.0.0.1", 0)
    monkeypatch.setattr("aidre.engine.embedding.models.installed.find_model", lambda name: None)
    for module in ("models", "weights"):
        monkeypatch.setattr(f"aidre.engine.embedding.{module}.find_model", lambda name: None)
    finding, _ = EXAMINE_MODEL(subject)
    assert (finding.level, finding.cure) == ("note", "aidre model add default")
    assert "fetched at the first need, 84 MB" in finding.text
    monkeypatch.setenv("AIDRE_OFFLINE", "1")
    finding, _ = EXAMINE_MODEL(subject)
    assert (finding.level, "AIDRE_OFFLINE forbids" in finding.text) == ("warning", True)


def test_a_sound_installation_is_examined_and_not_changed(read_only: Shell) -> None:
    before = {path: path.stat().st_mtime_ns for path in read_only.store.rglob("*")}
    status, found = asked(read_only, "--config", read_only.config)
    assert status == 0
    assert not [one for many in found.values() for one in many if one["level"] == "refuses"]
    assert found.keys() >= {"aidre", "libraries", "Python", "kernel", "clock", "memory", "open files"}
    assert found.keys() >= {"disk", "port", "configuration", "exposure", "collection docs", "locks", "leftovers"}
    assert "3 documents, 3 chunks" in found["collection docs"][0]["text"]
    assert {path: path.stat().st_mtime_ns for path in read_only.store.rglob("*")} == before


def test_every_finding_of_a_page_has_its_mark_and_the_page_its_verdict(read_only: Shell) -> None:
    status, out, err = read_only.run("doctor", "--store", read_only.store, "--port", "0")
    assert (status, err) == (0, "")
    assert re.search(r"^✓\s+port\s", out, re.MULTILINE)
    assert out.splitlines()[-1].startswith(("All is well", "A server would start"))


def test_without_a_store_the_rest_is_examined(shell: Shell) -> None:
    status, out, _ = shell.run("doctor", "--port", "0", "--json")
    assert status == 0
    assert any(json.loads(line)["what"] == "store" for line in out.splitlines())


def test_a_missing_store_and_a_file_refuse_to_start(shell: Shell) -> None:
    status, found = asked(shell)
    assert (status, levels(found, "store")) == (1, ["refuses"])
    assert found["store"][0]["cure"] == "`aidre ingest` makes one"
    status, found = asked(shell, store=shell.config)
    assert (status, levels(found, "store")) == (1, ["refuses"])


def test_a_store_of_a_newer_format_is_named_with_its_cure(filled: Shell) -> None:
    [manifest] = (filled.store / "docs" / "manifests").iterdir()
    value = json.loads(unseal(manifest.read_bytes()))
    manifest.chmod(0o600)
    manifest.write_bytes(seal(json.dumps(value | {"format": 99}).encode()))
    status, found = asked(filled)
    [finding] = found["collection docs"]
    assert (status, finding["level"], finding["cure"]) == (0, "warning", "upgrade aidre")
    assert "format 99" in finding["text"]
    assert "/readyz would answer 503" in found["store"][0]["text"]


def test_a_damaged_collection_does_not_keep_others_from_being_examined(filled: Shell) -> None:
    (filled.store / "broken").mkdir()
    (filled.store / "broken" / "CURRENT").write_text("nonsense")
    _, found = asked(filled)
    assert (levels(found, "collection broken"), levels(found, "collection docs")) == (["warning"], ["ok"])


def test_the_files_of_collections_count_against_the_limit_of_open_files(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    [plenty] = asked(filled)[1]["open files"]
    kept = int(plenty["text"].rpartition(" ")[2].replace(",", ""))
    assert kept > 5
    for hard, level in ((4_096 + kept // 2, "warning"), (4_096 + 2 * kept + 999, "ok")):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (hard, hard))
        assert levels(asked(filled)[1], "open files") == [level]


def test_an_engine_that_does_not_answer_refuses_without_its_password(read_only: Shell, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    config = tmp_path / "aidre.toml"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        port = unused.getsockname()[1]
        config.write_text(f'[store]\nbackend = "postgres"\nuri = "postgresql://u:word@127.0.0.1:{port}/x"\n')
        status, found = asked(read_only, "--config", config)
    assert (status, levels(found, "store")) == (1, ["refuses"])
    assert "u:word" not in json.dumps(found)
    assert levels(found, "open files") == ["ok"]


def test_every_wrong_key_of_a_configuration_is_named(read_only: Shell, tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text(
        '[server]\nlog = "everything"\nnonsense = 1\n[limits]\nrate = "often"\ntop_k_default = 500\n'
        '[[keys]]\nname = "a"\nsha256 = "short"\n'
        f'[[keys]]\nname = "b"\nsha256 = "{"0" * 64}"\n[[keys]]\nname = "c"\nsha256 = "x"\n'
    )
    status, found = asked(read_only, "--config", config)
    faults = [one["text"] for one in found["configuration"]]
    assert status == 1
    for key in ("server.log", "server.nonsense", "limits.rate", "limits.top_k_default", "keys[0].sha256"):
        assert len([fault for fault in faults if fault.startswith(key)]) == 1, key
    assert any(fault.startswith("keys[2].sha256") for fault in faults)
    assert len(faults) == 6
    assert levels(found, "collection docs") == ["ok"], "the store is examined all the same"


@pytest.mark.parametrize("content", ["[server", "\xff", None])
def test_a_configuration_that_is_no_toml_or_no_file_is_named(
    read_only: Shell, tmp_path: Path, content: str | None
) -> None:
    config = tmp_path / "bad.toml"
    if content is not None:
        config.write_bytes(content.encode("latin-1"))
    status, found = asked(read_only, "--config", config)
    assert (status, levels(found, "configuration")) == (1, ["refuses"])


def test_a_secret_in_the_environment_that_is_not_set_refuses(read_only: Shell, tmp_path: Path) -> None:
    config = tmp_path / "aidre.toml"
    config.write_text('[server]\ncursor_secret = "env:NO_SUCH_SECRET"\n')
    status, found = asked(read_only, "--config", config)
    assert status == 1
    assert "NO_SUCH_SECRET" in found["configuration"][0]["text"]


def test_what_keeps_a_server_from_listening_beyond_this_machine_is_named(read_only: Shell) -> None:
    status, found = asked(read_only, "--host", "0.0.0.0")
    assert (status, levels(found, "exposure")) == (1, ["refuses"])
    assert "server.base_url" in found["exposure"][0]["text"]


@contextmanager
def listening() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.settimeout(0)
        yield other.getsockname()[1]


def test_a_taken_port_refuses_and_an_address_that_is_none_too(
    read_only: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_ANSWER_SECONDS", 0.1)
    with listening() as port:
        status, found = asked(read_only, "--port", str(port))
    assert (status, levels(found, "port")) == (1, ["refuses"])
    assert "in use" in found["port"][0]["text"]
    status, found = asked(read_only, "--host", "no-such-host.invalid")
    assert (status, levels(found, "port")) == (1, ["refuses"])


def test_a_key_file_that_is_missing_refuses_and_one_for_all_eyes_is_told(read_only: Shell, tmp_path: Path) -> None:
    config, key = tmp_path / "aidre.toml", tmp_path / "keys.pem"
    config.write_text('[provenance]\nkey = "keys.pem"\n')
    status, found = asked(read_only, "--config", config)
    assert (status, levels(found, "signing key")) == (1, ["refuses"])
    make_key(key, 0)
    status, found = asked(read_only, "--config", config)
    assert (status, levels(found, "signing key")) == (0, ["ok"])
    key.chmod(0o644)
    status, found = asked(read_only, "--config", config)
    assert (status, levels(found, "signing key"), found["signing key"][0]["cure"]) == (
        0,
        ["warning"],
        f"chmod o= {key}",
    )
    key.write_text("no PEM")
    assert asked(read_only, "--config", config)[0] == 1


def test_a_configuration_with_secrets_is_for_its_owner(read_only: Shell, tmp_path: Path) -> None:
    config = tmp_path / "aidre.toml"
    config.write_text(f'[server]\ncursor_secret = "{"s" * 40}"\n')
    config.chmod(0o644)
    _, found = asked(read_only, "--config", config)
    assert levels(found, "secrets in the configuration") == ["warning"]
    assert "s" * 40 not in json.dumps(found)
    config.write_text('[server]\norganization = "x"\n')
    assert "secrets in the configuration" not in asked(read_only, "--config", config)[1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
def test_a_state_folder_of_somebody_else_refuses(filled: Shell) -> None:
    (filled.store / ".log").mkdir(mode=0o000)
    status, found = asked(filled)
    assert (status, levels(found, "state folder")) == (1, ["refuses"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
def test_a_folder_that_cannot_be_written_is_served_and_told(filled: Shell) -> None:
    filled.store.chmod(0o500)
    try:
        status, found = asked(filled)
    finally:
        filled.store.chmod(0o700)
    assert (status, levels(found, "store")) == (0, ["warning"])


def test_a_read_only_folder_is_told(read_only: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.api.cli.doctor.store._is_read_only", lambda folder: True)
    status, found = asked(read_only)
    assert (status, levels(found, "store")) == (0, ["warning"])
    assert "cannot be written" in found["store"][0]["text"]


def test_a_clock_before_the_newest_commit_is_told(read_only: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 2, 1, tzinfo=tz)

    monkeypatch.setattr(machine, "datetime", Late)
    _, found = asked(read_only)
    assert levels(found, "clock") == ["warning"]
    assert "before the newest commit" in found["clock"][0]["text"]
    monkeypatch.setattr(machine, "_OLDEST", datetime(2027, 1, 1, tzinfo=UTC))
    assert "before this release" in asked(read_only)[1]["clock"][0]["text"]


def test_writers_and_what_killed_ones_left_are_told(filled: Shell) -> None:
    (filled.store / "docs" / "segments" / ".new.tmp").mkdir()
    with Store(filled.store).writer("docs", spaces=None):
        pass
    (filled.store / "docs" / ".CURRENT.1.tmp").touch()
    with Store(filled.store).writer("docs", spaces=None):
        (filled.store / "docs" / ".CURRENT.1.tmp").touch()
        _, found = asked(filled)
        assert f"docs is being written by process {os.getpid()} on " in found["locks"][0]["text"]
        assert "docs/.CURRENT.1.tmp" in found["leftovers"][0]["text"]
    assert levels(asked(filled)[1], "locks") == ["ok"]


def test_a_check_that_fails_is_a_line_and_the_next_one_runs(read_only: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Subject) -> Iterator[Finding]:
        yield Finding("ok", "memory", "so far")
        raise ZeroDivisionError("nothing\nleft")

    monkeypatch.setattr(machine, "memory", broken)
    monkeypatch.setattr(screen, "CHECKS", {**screen.CHECKS, "no_such_module": ("anything",)})
    status, found = asked(read_only)
    assert [(one["level"], one["text"]) for one in found["memory"]] == [
        ("ok", "so far"),
        ("warning", "not checked: ZeroDivisionError: nothing left"),
    ]
    assert levels(found, "open files") == ["ok"]
    assert (status, levels(found, "anything")) == (0, ["warning"])


def test_every_extra_that_a_server_can_use_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    told = {finding.what.removeprefix("extra ") for finding in installation.extras(Subject(None, None, "h", 0))}
    assert told == project["optional-dependencies"].keys() - {"test", "bench", "hostile", "docs", "release", "scale"}


@pytest.mark.parametrize(
    ("flags", "prefix", "level", "said"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "/opt", "ok", "at link time"),
        ({"CONFIG_ARGS": "'--enable-shared'"}, "/usr", "ok", "distribution"),
        ({"CONFIG_ARGS": "'--enable-shared'"}, "/opt", "note", "no profile"),
        ({"Py_DEBUG": 1}, "/usr", "warning", "debug"),
    ],
)
def test_the_build_of_the_interpreter_is_told(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], prefix: str, level: str, said: str
) -> None:
    monkeypatch.setattr("sysconfig.get_config_vars", lambda: flags)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    [finding] = installation.interpreter(Subject(None, None, "127.0.0.1", 0))
    assert (finding.level, said in finding.text) == (level, True)


@pytest.mark.process
@pytest.mark.slow
def test_libraries_that_cannot_be_loaded_or_end_the_process_are_named(tmp_path: Path, filled_folder: Path) -> None:
    """numpy is what nearly all else needs: the page still comes, and says so."""
    (tmp_path / "numpy.py").write_text('raise ImportError("no numpy here")\n')
    (tmp_path / "xxhash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    words = ("doctor", "--store", str(filled_folder / "store"), "--port", "0", "--json")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run((*COMMAND, *words), capture_output=True, text=True, env=environment, check=False)
    found = {one["what"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, done.stderr) == (1, "")
    assert "no numpy here" in found["numpy"]["text"]
    assert "ends the process" in found["xxhash"]["text"]
    assert found["open files"]["level"] in {"ok", "warning"}
    assert sys.version.split()[0] in found["Python"]["text"]


@pytest.mark.process
def test_tesseract_is_named_and_missed_where_the_configuration_asks_for_ocr(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\necho 'List of available languages in \"/opt/data/\" (2):'; echo eng; echo deu\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    subject = Subject(None, None, "127.0.0.1", 0)
    [finding] = machine.ocr(subject)
    assert (finding.level, finding.text) == ("ok", "tesseract reads deu, eng with --ocr")
    monkeypatch.setenv("PATH", "/nonexistent")
    [finding] = machine.ocr(subject)
    assert (finding.level, finding.text) == ("ok", "tesseract is not installed: scanned pages and images are not read")
    recogniser.cache_clear()
    config = tmp_path / "aidre.toml"
    config.write_text("[sources]\nocr = true")
    [finding] = machine.ocr(Subject(None, config, "127.0.0.1", 0))
    assert (finding.level, finding.cure) == ("refuses", "apt-get install tesseract-ocr, or brew install tesseract")


@pytest.mark.process
def test_the_walls_of_the_sandbox_are_named_and_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(None, None, "127.0.0.1", 0)
    [finding] = machine.sandbox(subject)
    whole = available().are_whole
    assert (finding.level, "Landlock" in finding.text) == (("ok", True) if whole else ("warning", False))
    monkeypatch.setattr("aidre.ingest.sandbox.parent.Sandbox.parse", lambda *_: [0, True])
    monkeypatch.setattr("aidre.ingest.sandbox.walls._MACHINES", {})
    [finding] = machine.sandbox(subject)
    assert (finding.level, "seccomp here" in finding.text) == ("warning", True)
