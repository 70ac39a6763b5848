"""The list of changes of a generation: what its commit did to each chunk. A merge writes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from aidre.engine import durable
from aidre.engine.arrow import write_file
from aidre.engine.manifest import Manifest
from aidre.engine.schema import CHANGES, CHANGES_SCHEMA


def batch_of(ids: Sequence[str], digests: Sequence[bytes], before: Mapping[str, bytes]) -> pa.RecordBatch:
    """Rows (op, chunk id, content hash): `ids` with `digests` are stored now, `before` was stored until now."""
    gone = dict(before)
    ops = ["change" if gone.pop(chunk_id, None) is not None else "add" for chunk_id in ids]
    columns = {
        "op": ops + ["delete"] * len(gone),
        "chunk_id": [*ids, *gone],
        "content_hash": [*digests, *gone.values()],
    }
    return pa.RecordBatch.from_pydict(columns, schema=CHANGES_SCHEMA)


def with_changes(folder: Path, manifest: Manifest, generation: int, batch: pa.RecordBatch) -> Manifest:
    """Write the list durably; the manifest that names it."""
    if not batch.num_rows:
        return replace(manifest, changes=None)
    path = folder / CHANGES / f"{generation:06d}.arrow"
    durable.make_folder(path.parent)
    file = write_file(path, [batch], CHANGES_SCHEMA)
    durable.settle_file(path)
    return replace(manifest, changes=file)
