"""The end of a run names the programs that tests were skipped for, and no other skip; the longest tests begin first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import ROOT
from tests.support.programs import needed, needs, not_proved

PROGRAMS = ROOT / ".ci" / "programs"


def skip_of(function: Any, *arguments: Any) -> str:
    with pytest.raises(pytest.skip.Exception) as skipped:
        function(*arguments)
    return f"Skipped: {skipped.value}"


def summary(config: pytest.Config, *reasons: str) -> list[str]:
    """What the end of a run says after these skips."""
    settings: Any = config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    lines: list[str] = []
    skipped = [SimpleNamespace(longrepr=("tests/test_x.py", 1, reason)) for reason in reasons]
    reporter: Any = SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append)
    for _ in settings.pytest_terminal_summary(reporter):
        pass
    return lines


def test_what_is_missing_is_named_with_the_number_of_its_tests(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr("tests.support.programs.SEARCHED", "")
    proxy, library = skip_of(needed, "haproxy"), skip_of(pytest.importorskip, "no_such_library")
    reason = needs("no-such-program").kwargs["reason"]
    assert summary(pytestconfig, proxy, f"Skipped: {reason}", library, proxy, "Skipped: root may read everything") == [
        "not proved here: HAProxy (not installed), 2 tests",
        "not proved here: no-such-program (not installed), 1 test",
        "not proved here: no_such_library (not installed), 1 test",
    ]


def test_the_files_whose_tests_begin_first_are_there(pytestconfig: pytest.Config) -> None:
    settings: Any = pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    assert [path for path in settings.FIRST if not (ROOT / path).exists()] == []


def test_a_program_that_is_there_is_not_missing() -> None:
    assert Path(needed("no-such-program", "sh")).name == "sh"
    assert needs("sh").args == (False,)
    assert not_proved([]) == []


@pytest.mark.process
def test_the_installation_of_programs_does_not_fail_where_it_can_do_nothing(tmp_path: Path) -> None:
    """Without a program in its path it finds neither a proxy nor apt-get."""
    for name in ("bash", "env", "id"):
        (tmp_path / name).symlink_to(needed(name))
    text = PROGRAMS.read_text("utf-8").replace("$PATH:/usr/sbin:/usr/local/sbin", "$PATH")
    done = subprocess.run(
        ["bash", "-c", text], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Not installed: nginx haproxy caddy tesseract promtool - their tests are skipped.")
    assert done.stderr == ""
