"""Completion by the shell, `api/cli/completion.py`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aidre.api.cli.main import run
from tests.support.clocks import WAIT_SECONDS
from tests.support.programs import needs
from tests.support.shell import Shell


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """What bash is offered for a line whose last word is to be completed."""

    def completions(line: str) -> list[str]:
        monkeypatch.setenv("_AIDRE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([])
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return completions


def _offered(complete: object, line: str) -> list[str]:
    assert callable(complete)
    offered = complete(line)
    assert isinstance(offered, list)
    return offered


def test_commands_options_and_choices_are_completed(complete: object) -> None:
    assert _offered(complete, "aidre s") == ["serve", "search", "status"]
    assert _offered(complete, "aidre keys ") == ["new", "public"]
    assert _offered(complete, "aidre search --mo") == ["--mode"]
    assert _offered(complete, "aidre search --mode l") == ["lexical"]


def test_collections_and_spaces_of_the_store_are_completed(
    filled: Shell, complete: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(filled.store / "docs", filled.store / "more")
    (filled.store / "unfinished").mkdir()
    line = f"aidre search --store {filled.store} --collection "
    assert _offered(complete, line) == ["docs", "more"]
    assert _offered(complete, f"{line}m") == ["more"]
    assert _offered(complete, f"{line}../") == []
    monkeypatch.setenv("AIDRE_STORE", str(filled.store))
    assert _offered(complete, "aidre status --collection d") == ["docs"]
    assert _offered(complete, "aidre embed --space ") == ["words"]
    assert _offered(complete, "aidre embed --collection docs --drop w") == ["words"]
    (filled.store / "docs" / "CURRENT").write_text("not a number", encoding="utf-8")
    assert _offered(complete, "aidre embed --collection docs --drop w") == []


def test_a_store_that_is_not_there_completes_to_nothing(complete: object, tmp_path: Path) -> None:
    assert _offered(complete, f"aidre search --store {tmp_path / 'none'} --collection ") == []
    assert _offered(complete, "aidre search --collection ") == []
    assert _offered(complete, f"aidre embed --store {tmp_path} --collection none --space ") == []


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish", "powershell"])
def test_the_script_of_each_shell_is_printed(shell: Shell, shell_name: str) -> None:
    status, out, err = shell.run("--show-completion", shell_name)
    assert (status, err) == (0, "")
    assert "_AIDRE_COMPLETE" in out and f"complete_{shell_name}" in out


def test_a_shell_without_a_script_is_refused(shell: Shell) -> None:
    status, out, err = shell.run("--show-completion", "tcsh")
    assert (status, out) == (2, "")
    assert "'bash', 'zsh', 'fish', 'powershell'" in err


def test_installing_writes_into_the_home_folder(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    status, out, _ = shell.run("--install-completion", "fish")
    file = tmp_path / ".config" / "fish" / "completions" / "aidre.fish"
    assert status == 0
    assert str(file) in out
    assert "_AIDRE_COMPLETE" in file.read_text(encoding="utf-8")


@pytest.mark.process
@needs("bash")
def test_bash_completes_with_the_printed_script(shell: Shell, filled_folder: Path, tmp_path: Path) -> None:
    command = tmp_path / "aidre"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aidre.api.cli.main "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    program = (
        f"{shell.run('--show-completion', 'bash')[1]}\n"
        f"COMP_WORDS=(aidre search --store '{filled_folder / 'store'}' --collection d); COMP_CWORD=5\n"
        f"_aidre_completion '{command}'\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert (done.stdout, done.stderr) == ("docs\n", "")
