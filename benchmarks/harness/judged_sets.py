"""Test collections (documents, queries, relevance judgements) and ranking metrics: nDCG and recall.

A set is a folder in the format of BEIR: corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv
(query-id, corpus-id, score, with a header line). Gains are the raw scores, as in trec_eval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"

Grades: TypeAlias = Mapping[str, float]
"""Relevance grades (above zero) of the relevant documents of a query, by document id."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A query that has at least one relevant document."""

    id: str
    text: str
    grades: Grades


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A test collection. `corpus` is the file to ingest; queries without a relevant document in it are excluded."""

    name: str
    corpus: Path
    documents: int
    topics: tuple[Topic, ...]


def is_set(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (CORPUS, QUERIES, JUDGEMENTS))


def sets_in(folder: Path) -> list[Path]:
    """The folder if it is a set, else the sets in it, sorted by name. Raises ValueError if there is none."""
    found = [folder] if is_set(folder) else sorted(filter(is_set, folder.iterdir())) if folder.is_dir() else []
    if not found:
        raise ValueError(f"{folder} holds no set: a set is a folder with {CORPUS}, {QUERIES} and {JUDGEMENTS}")
    return found


def read_set(folder: Path) -> JudgedSet:
    """Reads a set. Raises ValueError with file and line if it is malformed."""
    corpus = folder / CORPUS
    ids = {str(row["id"]) for row in rows_of(corpus, ("id", "text"))}
    judged = _judgements(folder / JUDGEMENTS)
    topics = []
    for row in rows_of(folder / QUERIES, ("id", "text")):
        grades = {document: grade for document, grade in judged.get(str(row["id"]), {}).items() if document in ids}
        if grades:
            topics.append(Topic(str(row["id"]), str(row["text"]), grades))
    if not topics:
        raise ValueError(f"{folder} has no query with a relevant document")
    return JudgedSet(folder.resolve().name, corpus, len(ids), tuple(topics))


def rows_of(path: Path, members: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file. Raises ValueError if one lacks a required member."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: malformed JSON: {error}") from None
            if type(row) is not dict or not all(name in row for name in members):
                raise ValueError(f"{path}:{number}: not an object with {' and '.join(members)}")
            yield row


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in islice(enumerate(lines, 1), 1, None):
            try:
                topic, document, grade = line.rstrip("\r\n").split("\t")
                if float(grade) > 0:
                    judged.setdefault(topic, {})[document] = float(grade)
            except ValueError:
                raise ValueError(f"{path}:{number}: not query-id, corpus-id and score, separated by tabs") from None
    return judged


def ndcg(ranking: Sequence[str], grades: Grades, depth: int = 10) -> float:
    """Normalized discounted cumulative gain at `depth`; a repeated document counts at its first rank."""
    gained = _discounted(grades.get(document, 0.0) for document in _distinct(ranking)[:depth])
    return gained / _discounted(sorted(grades.values(), reverse=True)[:depth])


def recall(ranking: Sequence[str], grades: Grades, depth: int = 100) -> float:
    """The share of the relevant documents among the first `depth`."""
    return sum(document in grades for document in _distinct(ranking)[:depth]) / len(grades)


def _distinct(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))
