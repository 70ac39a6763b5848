"""Passages of one length: from a corpus, by default from the docstrings of the standard library."""

from __future__ import annotations

import ast
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PASSAGE_WORDS = 120


def texts(corpus: Path | None) -> Iterator[str]:
    """Passages of PASSAGE_WORDS words from `corpus`, by default from the docstrings of the standard library."""
    words: list[str] = []
    for text in rows(corpus) if corpus else docstrings():
        words += text.split()
        while len(words) >= PASSAGE_WORDS:
            yield " ".join(words[:PASSAGE_WORDS])
            words = words[PASSAGE_WORDS:]


def rows(corpus: Path) -> Iterator[str]:
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield f"{row.get('title') or ''} {row['text']}"


def docstrings() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""
