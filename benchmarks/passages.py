"""Real text available in every installation: docstrings and package descriptions of the installed distributions.

The standard library and the installed distributions are read with `ast` and importlib.metadata; nothing is imported.
A docstring, without its examples, is split into passages of at most MAX_WORDS words. Passages that differ only in
digits and punctuation count as duplicates. Passages are ordered by a hash of their text, so that any prefix is a fair
sample, and the same versions give the same passages in the same order.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterator
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

MAX_WORDS: Final = 40
MIN_WORDS: Final = 8
MAX_FILE_BYTES: Final = 1 << 20
HELD_OUT: Final = 24
"""One docstring in 24 gives no passage: its first sentence is a query."""

_EXAMPLE = re.compile(r"^\s*(>>>|\.\.\. ).*$", re.MULTILINE)
_RULE = re.compile(r"[=\-~*_#+|]{3,}")
_SENTENCE = re.compile(r"(?<=[.?!])\s")
_LETTERS = re.compile(r"[^\W\d_]+")


class Text(NamedTuple):
    """Prose, with the name of its source."""

    source: str
    words: list[str]


class Material(NamedTuple):
    """Passages, and questions from held-out docstrings; no question is also a passage."""

    passages: list[str]
    questions: list[str]


def material(rows: int, questions: int) -> Material:
    """At most `rows` passages and `questions` questions; fewer if the installation has fewer."""
    passages: dict[str, str] = {}
    asked: dict[str, str] = {}
    for text in texts():
        if digest(" ".join(text.words)) % HELD_OUT:
            for start in range(0, len(text.words), MAX_WORDS):
                keep(passages, text.words[start : start + MAX_WORDS])
        else:
            keep(asked, _SENTENCE.split(" ".join(text.words), maxsplit=1)[0].split()[:MAX_WORDS])
    chosen = sorted((passage for key, passage in passages.items() if key not in asked), key=digest)
    return Material(chosen[:rows], sorted(asked.values(), key=digest)[:questions])


def digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def keep(kept: dict[str, str], words: list[str]) -> None:
    """Adds a passage to `kept`, unless it is too short or a duplicate."""
    passage = " ".join(words)
    key = " ".join(_LETTERS.findall(passage.casefold()))
    if len(key.split()) >= MIN_WORDS:
        kept.setdefault(key, passage)


def texts() -> Iterator[Text]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.relative_to(library).parts):
            yield from docstrings(path)
    for distribution in installed():
        yield from described(distribution)
        for file in sorted(distribution.files or ()):
            if file.suffix == ".py" and not {"test", "tests", "testing"} & set(file.parts):
                yield from docstrings(Path(str(file.locate())))


def installed() -> list[metadata.Distribution]:
    """The installed distributions except aidre, sorted by name."""
    found = {one.metadata["Name"].lower(): one for one in metadata.distributions()}
    return [found[name] for name in sorted(found) if name != "aidre"]


def described(distribution: metadata.Distribution) -> Iterator[Text]:
    facts = distribution.metadata.json
    for member in ("summary", "description"):
        text = facts.get(member)
        if isinstance(text, str):
            for paragraph in text.split("\n\n"):
                yield Text(f"{facts['name']}: {member}", clean(paragraph))


def docstrings(path: Path) -> Iterator[Text]:
    try:
        content = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else b""
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in third-party strings
            tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            written = ast.get_docstring(node)
            if written:
                yield Text(f"{path.name}: {getattr(node, 'name', '')}", clean(written))


def clean(text: str) -> list[str]:
    return _RULE.sub(" ", _EXAMPLE.sub("", text)).split()
