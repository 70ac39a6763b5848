"""The store that the examples in docstrings of the library use: `docs` is the collection kitchen of the store `db` in
`folder`, and `files` a folder for files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DOCUMENTS = [
    {"id": "soup", "text": "Lentil soup is warm and cheap.", "title": "Soup", "minutes": 35, "vegan": True},
    {"id": "toast", "text": "Mackerel on rye toast takes a hot grill.", "title": "Toast", "minutes": 15},
    {"id": "tyre", "text": "A puncture is mended with a patch.", "title": "Bicycle"},
]


@contextmanager
def kitchen(folder: Path) -> Iterator[dict[str, Any]]:
    """The names that an example finds, beside what it makes itself."""
    import asyncio

    import pyarrow as pa

    import aidre

    store, files = folder / "store", folder / "files"
    files.mkdir()
    with aidre.open(store) as db:
        docs = db.collection("kitchen")
        docs.add(DOCUMENTS)
        yield {"aidre": aidre, "asyncio": asyncio, "pa": pa, "folder": store, "files": files, "db": db, "docs": docs}
