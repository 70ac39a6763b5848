"""The texts of the self-test of exported graphs: queries with their relevant passages, and unusual texts. Calibration
asks the queries and passages as texts about many subjects.

Passages form groups of similar ones, so that ranking them is not trivial.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson


@cache
def _content() -> Any:
    return orjson.loads(Path(__file__).with_name("probes.json").read_bytes())


@cache
def probes() -> tuple[tuple[str, str], ...]:
    """The pairs of a query and its relevant passage."""
    return tuple((probe["query"], probe["passage"]) for probe in _content()["probes"])


def probe_texts() -> list[str]:
    """All queries, then all passages in the same order, then unusual texts and texts beyond a model's length."""
    queries, passages = zip(*probes(), strict=True)
    long = [" ".join(passages[start : start + 10]) for start in range(0, len(passages), 10)]
    return [*queries, *passages, *_content()["odd_texts"], "word " * 400, *long]
