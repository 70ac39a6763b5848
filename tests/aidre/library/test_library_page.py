"""Every example of docs/library.md runs, in the order of the page, and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(examples) >= 6
    names: dict[str, Any] = {}
    for number, example in enumerate(examples):
        exec(compile(example, f"docs/library.md, example {number}", "exec"), names)
    shown = capsys.readouterr().out
    assert "Lentil soup" in shown.splitlines()[0]
    assert "invalid_document" in shown
    docs = names["docs"]
    assert len(docs) == 2 + 49 + 2 + 1
    assert "b" not in docs
    names["db"].close()


def test_the_page_names_every_verb_of_a_collection() -> None:
    import aidre

    verbs = {name for name in dir(aidre.Collection) if not name.startswith("_")}
    missing = {verb for verb in verbs if verb not in PAGE}
    assert missing <= {"generation", "name", "reader", "spaces"}
