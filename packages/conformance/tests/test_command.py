"""The command `aidre-conformance`, `aidre_conformance/command.py`, its badge, and its distribution without aidre."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aidre_conformance import Check, Level, Report, Verdict, badge
from aidre_conformance.command import main
from conftest import Answering, answering
from tests import ROOT

WITHOUT_AIDRE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"aidre", "starlette", "mcp", "numpy"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
from aidre_conformance.command import main
sys.exit(main(sys.argv[1:]))
"""
FEW_LINES = 30
NOTHING: Answering = lambda scope, body: (404, {"content-type": "application/json"}, b"{}")  # noqa: E731


def verdict(outcome: str, level: Level = "MUST", *, expected: bool = False) -> Verdict:
    check = Check("aidre.1.x", "aidre", level, "AIDRE 1", "A sentence.", None, lambda target: None)
    return Verdict(check, outcome, None, 0.1, (), expected)  # type: ignore[arg-type]


@pytest.mark.process
@pytest.mark.slow
def test_the_kit_runs_where_aidre_is_not_installed(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("report.xml", "badge.svg")}
    path = ":".join(str(ROOT / "packages" / name) for name in ("client", "conformance"))
    words = ["--profile", "aidre", "--junit", str(files["report.xml"]), "--badge", str(files["badge.svg"])]
    with answering(NOTHING) as url:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_AIDRE, url, *words],
            env={"PYTHONPATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "aidre was asked for, and nothing of it could be tested" in done.stdout
    assert ElementTree.parse(files["report.xml"]).getroot().findall("testsuite/testcase/skipped")
    assert "not tested" in files["badge.svg"].read_text(encoding="utf-8")


def test_a_wrong_call_is_one_line_and_has_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        ([], 2, "name the address"),
        (["http://127.0.0.1:1"], 1, "does not answer"),
        (["http://127.0.0.1:1", "--check", "aidre.5.2.text"], 2, "aidre.5.2.text-query is the nearest"),
        (["http://127.0.0.1:1", "--timeout", "0"], 2, "greater than 0"),
        (["http://127.0.0.1:1", "--expected", "no-such-file"], 2, "no-such-file"),
    ]
    for words, status, said in calls:
        assert main(words) == status
        captured = capsys.readouterr()
        assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_profile_lists_the_checks_of_its_protocol_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for profile, protocols in (("aidre", {"aidre"}), ("nlweb", {"nlweb", "mcp"}), ("intake", {"intake"})):
        assert main(["--list", "--profile", profile]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > FEW_LINES - 10
        assert {line.partition(".")[0] for line in lines} == protocols


def test_what_a_server_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda scope, body: (200, {"content-type": "text/\x1b[2J"}, b"{\x1b[31m}")) as url:
        assert main([url, "--protocol", "aidre"]) == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verdicts", "said", "color"),
    [
        ([verdict("pass"), verdict("pass")], "2 passed", "#2e7d32"),
        ([verdict("pass"), verdict("fail", "SHOULD")], "1 failed", "#8a6d00"),
        ([verdict("fail", "SHOULD"), verdict("fail")], "2 failed", "#b3261e"),
        ([verdict("pass"), verdict("fail", expected=True)], "1 passed", "#2e7d32"),
        ([verdict("not testable")], "not tested", "#5f6368"),
    ],
)
def test_a_badge_says_what_came_of_the_run(verdicts: list[Verdict], said: str, color: str) -> None:
    picture = badge(Report("http://x", "nlweb", tuple(verdicts)))
    root = ElementTree.fromstring(picture)
    [title] = root.findall("{http://www.w3.org/2000/svg}title")
    assert title.text == f"NLWeb 0.55: {said}"
    assert color in picture.decode()
