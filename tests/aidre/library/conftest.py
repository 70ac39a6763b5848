"""A database in a folder of its own, and a collection whose vectors a function of two lines computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import aidre
from tests.support.engines import chosen_uri

SMALL = aidre.EmbeddingSpace("small", 3, "cosine")


def letters(texts: list[str]) -> list[list[float]]:
    """How often a text has an a, an e, and any other letter."""
    return [[text.count("a") + 0.1, text.count("e") + 0.1, len(text)] for text in texts]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[aidre.Database]:
    with aidre.open(tmp_path / "store", uri=chosen_uri(tmp_path / "store")) as database:
        yield database


@pytest.fixture
def docs(db: aidre.Database) -> aidre.Collection:
    return db.collection("docs", space=SMALL, embed=letters)
