"""An embedder that remembers vectors below pytest's cache: the same texts, by the same code, are embedded once.

What computes a vector is part of its key: the model, the code of the room `engine/embedding`, and the libraries. So the
vectors of another version are never found; nor does anybody who has no cache get other ones.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.embedder import Embedder, load_embedder
from aidre.engine.model import EmbeddingSpace
from tests import ROOT

FOLDER = ROOT / ".pytest_cache" / "d"
WAIT_SECONDS = 60.0
"""How long one process of the tests waits for another that writes."""


@cache
def version_of_code() -> bytes:
    """What changes with the code and the libraries that compute vectors."""
    digest = hashlib.sha256("".join(version(name) for name in ("numpy", "onnxruntime")).encode())
    for path in sorted((ROOT / "engine" / "embedding").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


class RememberingEmbedder:
    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.space, self.runtime, self.max_tokens = inner.space, inner.runtime, inner.max_tokens
        self.count_tokens = inner.count_tokens
        self._of = hashlib.sha256(version_of_code() + f"{inner.space} {inner.runtime}".encode()).digest()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._remembered("document", texts, self._inner.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._remembered("query", texts, self._inner.embed_queries)

    def _remembered(
        self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """A vector is that of its text in the company that it was first embedded in: int8 has one scale for all."""
        keys = [hashlib.sha256(self._of + f"{kind} {text}".encode()).digest() for text in texts]
        FOLDER.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(FOLDER / "vectors.sqlite", timeout=WAIT_SECONDS) as kept:
            kept.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            found: dict[bytes, bytes] = {}
            for key in keys:
                found.update(kept.execute("SELECT key, vector FROM vectors WHERE key = ?", (key,)))
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if new:
            computed = embed(list(new.values()))
            rows = {key: vector.tobytes() for key, vector in zip(new, computed, strict=True)}
            with sqlite3.connect(FOLDER / "vectors.sqlite", timeout=WAIT_SECONDS) as kept:
                kept.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows.items())
            found |= rows
        vectors = np.frombuffer(b"".join(found[key] for key in keys), np.float32)
        return vectors.reshape(len(keys), self.space.dimensions).copy()


def load_remembering(space: EmbeddingSpace) -> Embedder:
    """The embedder of a space, for tests of what is found by its vectors; not for those of the vectors themselves."""
    return RememberingEmbedder(load_embedder(space))
