"""Documents of several chunks, the words of which are spread so that one document would fill the first places."""

from __future__ import annotations

from collections.abc import Sequence

from aidre.engine.embedding import load_embedder
from aidre.engine.model import Record
from aidre.engine.ports import Source
from tests.support.clients import TEXT
from tests.support.stores import record

LONG, SHORT = 30, 24
"""Chunks of the document "long", and documents of one to three chunks."""


def pieces() -> list[Record]:
    """A document that has the word heron in every chunk twice, and many that have it once."""
    long = record("long", [f"heron heron {number}. " for number in range(LONG)], metadata={"n": 99, "even": False})
    others = [
        record(
            f"short_{number:02}",
            [f"a heron of pond {number} in part {part}. " for part in range(1 + number % 3)],
            title=f"Pond {number}",
            metadata={"n": number, "even": number % 2 == 0},
        )
        for number in range(SHORT)
    ]
    return [long, *others]


def fill_pieces(source: Source, name: str, records: Sequence[Record]) -> None:
    with source.writer(name, spaces=[TEXT]) as writer:
        texts = [chunk.text for one in records for chunk in one.chunks]
        writer.upsert(records, {TEXT.id: writer.encode(TEXT.id, load_embedder(TEXT).embed_documents(texts))}, {})
        writer.commit()
