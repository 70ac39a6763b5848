"""Notebooks: Markdown, code and what it printed, in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.folders import documents, rejections, write


def cell(kind: str, source: Any, outputs: list[Any] | None = None, tags: list[str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": kind, "source": source, "metadata": {"tags": tags or []}}
    return made | ({"outputs": outputs or []} if kind == "code" else {})


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4})


def test_a_notebook_is_a_document_with_headings(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mred\x1b[0m\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "42", "image/png": "iVBOR" * 100}},
        {"output_type": "display_data", "data": {"text/plain": "<Figure size 640x480 with 1 Axes>"}},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["long"]},
    ]
    cells = [
        cell("markdown", ["# Study\n", "\n", "Some words."]),
        cell("code", "x = '```'\nprint(x)", outputs),
        cell("code", "secret()", tags=["remove-cell"]),
        cell("markdown", "## Result\n\nDone."),
    ]
    write(tmp_path / "docs" / "a.ipynb", notebook(*cells))
    [found] = documents(tmp_path / "docs")
    assert (found.title, found.metadata) == ("Study", {"programming_language": "python"})
    assert [(one.level, one.title) for one in found.headings] == [(1, "Study"), (2, "Result")]
    assert found.text == (
        "# Study\n\nSome words.\n\n````python\nx = '```'\nprint(x)\n````\n\n```\nred\n```\n\n```\n42\n```\n\n"
        "```\nValueError: no\n```\n\n## Result\n\nDone."
    )


def test_an_older_notebook_has_its_cells_in_a_worksheet(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "heading", "level": 1, "source": "Old"},
        {"cell_type": "code", "input": "f()", "outputs": []},
    ]
    write(tmp_path / "docs" / "a.ipynb", json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}))
    assert documents(tmp_path / "docs")[0].text == "# Old\n\n```\nf()\n```"


@pytest.mark.parametrize("content", ['{"a": 1}', "[1]", "{", '{"cells": 3}'])
def test_what_is_no_notebook_fails_by_name(tmp_path: Path, content: str) -> None:
    write(tmp_path / "docs" / "a.ipynb", content)
    assert [each.where for each in rejections(tmp_path / "docs")] == ["a.ipynb"]


def test_odd_cells_cost_no_others(tmp_path: Path) -> None:
    odd: list[Any] = [
        None,
        3,
        {"cell_type": "code", "source": [1, "x"], "outputs": [7, {"data": 1}]},
        {"cell_type": []},
    ]
    write(tmp_path / "docs" / "a.ipynb", json.dumps({"cells": [*odd, cell("markdown", "words")]}))
    write(tmp_path / "docs" / "b.ipynb", "")
    assert [each.text for each in documents(tmp_path / "docs")] == ["```\nx\n```\n\nwords", ""]
