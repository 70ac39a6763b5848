"""Parts of pages that are made from declarations of the code: columns of files, choices that discovery states."""

from __future__ import annotations

import pyarrow as pa

from aidre.api.protocols.aidre.discovery import BEHAVIOUR
from aidre.engine.storage import format as storage
from aidre.engine.storage.format import FORMAT

__all__ = ["FORMAT", "behaviour", "schemas"]

FILES = {
    "documents.arrow, one row for each document": storage.DOCUMENTS_SCHEMA,
    "chunks.arrow, one row for each chunk": storage.CHUNKS_SCHEMA,
    "ids.arrow, one row": storage.IDS_SCHEMA,
    "space.keys.arrow, one row": storage.KEYS_SCHEMA,
    "space.index.arrow": storage.INDEX_SCHEMA,
    "changes/number.arrow, of a commit": storage.CHANGES_SCHEMA,
    "deletes/number.arrow, of a generation": storage.DELETES_SCHEMA,
}


def behaviour() -> str:
    """The choices that the discovery document states, as a table."""
    rows = "".join(f"| `{name}` | {text.replace('|', '')} |\n" for name, text in BEHAVIOUR.items())
    return f"| member | choice |\n|---|---|\n{rows}"


def schemas() -> str:
    """The columns of each file whose columns do not depend on the data."""
    return "\n".join(f"### {name}\n\n{_columns(schema)}" for name, schema in FILES.items())


def _columns(schema: pa.Schema) -> str:
    return "| column | type |\n|---|---|\n" + "".join(f"| `{field.name}` | `{field.type}` |\n" for field in schema)
