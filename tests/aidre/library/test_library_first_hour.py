"""Every program of docs/first-hour.md prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
SERVED = "localhost:8321"
"""What asks there runs in tests/integration/test_documents.py, beside a server."""


def expected(program: str) -> list[str]:
    return re.findall(r"^ *print\(.*\)  # (.+)$", program, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_programs_print_what_stands_behind_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = [program for program in PROGRAMS if SERVED not in program]
    assert len(alone) >= 12 and len(PROGRAMS) == len(alone) + 1
    for number, program in enumerate(alone):
        text = program.replace("/tmp/", f"{tmp_path}/")
        exec(compile(text, f"docs/first-hour.md, program {number}", "exec"), {})
        shown = capsys.readouterr().out.splitlines()
        assert shown == expected(program), f"program {number}"
        assert shown or "print" not in program


def test_what_a_program_prints_is_read_from_the_page() -> None:
    assert expected("print(1)  # 1\nfor a in b:\n    print(a, 2)  # a 2\nprint(3)\n") == ["1", "a 2"]
