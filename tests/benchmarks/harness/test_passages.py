"""Passages of real text: cut, cleaned and told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness import passages
from tests.benchmarks.judged_sets import judged


def test_passages_are_cut_cleaned_and_told_apart(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    long = " ".join(f"word{chr(97 + place % 26)}{chr(97 + place // 26)}" for place in range(60))
    module.write_text(f'"""{long}\n>>> example()\n=====\nend of it"""\ndef f():\n    """Short."""\n')
    (found, short) = passages.docstrings(module)
    assert found.words[-3:] == ["end", "of", "it"] and "example()" not in found.words
    kept: dict[str, str] = {}
    passages.keep(kept, found.words[:40])
    passages.keep(kept, [*found.words[:39], f"{found.words[39]}7."])  # differs in a digit and a stop alone
    passages.keep(kept, short.words)
    assert list(kept.values()) == [" ".join(found.words[:40])]


def test_a_file_that_is_no_python_gives_no_passage(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_bytes(b"def (\0")
    assert list(passages.docstrings(broken)) == []


def words(*numbers: int) -> str:
    return " ".join(f"word{chr(97 + number // 26 % 26)}{chr(97 + number % 26)}" for number in numbers)


def test_a_document_gives_rows_or_unseen_queries_and_no_question_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "HELD_OUT", 3)
    texts = [words(*range(first, first + 60)) for first in range(0, 400, 7)]
    asked = {"one": [words(*range(500, 510)), words(*range(520, 530)), words(*range(540, 550))], "two": ["Is it so?"]}
    folders = []
    for place, (name, questions) in enumerate(asked.items()):
        corpus = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts[place::2])]
        corpus.append(json.dumps({"id": "same", "text": questions[0]}))
        lines = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(questions)]
        folders.append(judged(tmp_path / name, corpus, lines, ["0\t0\t1"]))
    found = passages.material(1_000, 1_000, folders)
    first, *others = passages.questions_of(folders[0])
    assert found.questions == [first, "Is it so?", *others]
    assert len(found.unseen) >= 10 and len(found.passages) >= 20
    assert not set(found.passages) & {*found.unseen, *found.questions}
    for text in texts:  # both halves of a document are on one side
        halves = {" ".join(text.split()[:40]) in found.unseen, " ".join(text.split()[40:]) in found.unseen}
        assert len(halves) == 1
