"""Every line of aidre in the tables of docs/coming-from.md runs, in their order, and does what its row says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
_RESULTS: dict[str, Any] = {
    "documents in": ["a", "b"],
    "insert or replace": ["c"],
    "vectors alone": ["0", "1", "2"],
    "and, or, not": 2,
    "how many": 1,
    "change metadata": 1,
    "change the text": 1,
    "delete by id": 1,
    "delete by filter": 0,
    "values with counts": ((4, 1), (5, 1)),
    "rename": None,
    "list": ["docs", "images", "saved"],
}


def lines() -> list[tuple[str, str]]:
    """What a row is about, and its code of aidre, which is the last cell."""
    rows = re.findall(r"^\| (.*) \|$", PAGE, flags=re.MULTILINE)
    cells = [row.split(" | ") for row in rows]
    return [(one[0], one[-1].strip("`")) for one in cells if one[-1].startswith("`")]


def ran(code: str, names: dict[str, Any]) -> Any:
    try:
        return eval(compile(code, code, "eval"), names)
    except SyntaxError:
        exec(compile(code, code, "exec"), names)
    return None


@pytest.mark.slow
def test_every_line_of_the_tables_runs(tmp_path: Path) -> None:
    names: dict[str, Any] = {"file": tmp_path / "backup.tar"}
    [setup] = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    exec(compile(setup, "docs/coming-from.md", "exec"), names)
    found = {what: ran(code, names) for what, code in lines()}
    assert len(found) >= 38
    assert {what: found[what] for what in _RESULTS} == _RESULTS
    assert found["search by text"][0].document_id == "a"
    assert found["search by vector"][0].document_id == "a"
    assert [document.id for document in found["in an order"]] == ["b", "c"]
    assert [document.id for document in found["some of all"]] == ["b", "c"]
    assert found["frames"].num_rows == 2
    names["db"].close()
