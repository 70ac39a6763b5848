"""Judged sets of retrieval quality, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def judged(folder: Path, corpus: Sequence[str], queries: Sequence[str], judgements: Sequence[str]) -> Path:
    """A folder with these lines of documents, queries and judgements."""
    folder.mkdir(exist_ok=True)
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n", "utf-8")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n", "utf-8")
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judgements]) + "\n", "utf-8")
    return folder
