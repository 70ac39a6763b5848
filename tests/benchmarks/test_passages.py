"""Passages of real text: cut, cleaned and told apart."""

from __future__ import annotations

from pathlib import Path

from benchmarks import passages


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
