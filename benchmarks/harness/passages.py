"""Real text: the documents and questions of test collections, else the docstrings of the installed distributions.

Documents are split into passages of at most MAX_WORDS words. One document in HELD_OUT gives no row: its passages are
unseen queries of the distribution of the rows. Questions are those of the collections, the same number from each as far
as they reach. Without a collection, the standard library and the installed distributions are read with `ast` and
importlib.metadata (nothing is imported), and the first sentences of held-out docstrings stand for questions.

Passages that differ only in digits and punctuation count as duplicates. Passages are ordered by a hash of their text,
so that any prefix is a fair sample, and the same sources give the same passages in the same order.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from importlib import metadata
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness.judged_sets import CORPUS, QUERIES, rows_of

MAX_WORDS: Final = 40
MIN_WORDS: Final = 8
MAX_FILE_BYTES: Final = 1 << 20
HELD_OUT: Final = 24
"""One document in 24 gives no row."""

_EXAMPLE = re.compile(r"^\s*(>>>|\.\.\. ).*$", re.MULTILINE)
_RULE = re.compile(r"[=\-~*_#+|]{3,}")
_SENTENCE = re.compile(r"(?<=[.?!])\s")
_LETTERS = re.compile(r"[^\W\d_]+")


class Text(NamedTuple):
    """Prose, with the name of its source."""

    source: str
    words: list[str]


class Material(NamedTuple):
    """Passages to store, passages of other documents, and questions; no query is also a stored passage."""

    passages: list[str]
    unseen: list[str]
    questions: list[str]


def material(rows: int, queries: int, sets: Sequence[Path] = ()) -> Material:
    """At most `rows` passages and `queries` of each kind; fewer if the sources have fewer.

    `sets` are folders in the format of `harness.judged_sets`.
    """
    passages: dict[str, str] = {}
    unseen: dict[str, str] = {}
    asked: dict[str, str] = {}
    for question in interleaved(map(questions_of, sets)):
        asked.setdefault(key_of(question), question)
    for text in chain.from_iterable(map(documents, sets)) if sets else texts():
        place = digest(" ".join(text.words)) % HELD_OUT
        if place == 1 and not sets:
            keep(asked, _SENTENCE.split(" ".join(text.words), maxsplit=1)[0].split()[:MAX_WORDS])
            continue
        for start in range(0, len(text.words), MAX_WORDS):
            keep(passages if place else unseen, text.words[start : start + MAX_WORDS])
    questions = list(asked.values()) if sets else sorted(asked.values(), key=digest)
    taken = unseen.keys() | asked.keys()
    chosen = sorted((passage for key, passage in passages.items() if key not in taken), key=digest)
    return Material(chosen[:rows], sorted(unseen.values(), key=digest)[:queries], questions[:queries])


def documents(folder: Path) -> Iterator[Text]:
    for row in rows_of(folder / CORPUS, ("id", "text")):
        yield Text(f"{folder.name}: {row['id']}", clean(f"{row.get('title') or ''}\n{row['text']}"))


def questions_of(folder: Path) -> list[str]:
    """The questions of a set in the order of their hash."""
    asked = {" ".join(str(row["text"]).split()) for row in rows_of(folder / QUERIES, ("id", "text"))}
    return sorted(filter(None, asked), key=digest)


def interleaved(lists: Iterable[list[str]]) -> list[str]:
    """One of each list in turns, without repeats."""
    return list(dict.fromkeys(one for each in zip_longest(*lists) for one in each if one is not None))


def digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def keep(kept: dict[str, str], words: list[str]) -> None:
    """Adds a passage to `kept`, unless it is too short or a duplicate."""
    passage = " ".join(words)
    key = key_of(passage)
    if len(key.split()) >= MIN_WORDS:
        kept.setdefault(key, passage)


def key_of(passage: str) -> str:
    """Its letters: equal keys are duplicates."""
    return " ".join(_LETTERS.findall(passage.casefold()))


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
