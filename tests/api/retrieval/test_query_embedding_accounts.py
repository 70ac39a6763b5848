"""Accounts share the batches of a model and not its cached vectors: a time must not tell what others asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.api.retrieval.query_embedding import BatchingEmbedder
from tests.support.clients import TEXT, a_document, fill, serving


class Model:
    """Remembers the texts that it embeds; text "n" becomes the vector [n]."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.array([[float(text)] for text in texts], np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [1 for _ in texts]


def test_a_text_is_embedded_once_for_each_account() -> None:
    model = Model()

    async def run() -> None:
        queries = BatchingEmbedder(TEXT, lambda space: model)
        await queries.embed("7", "key a")
        for account in ("key b", "", "key a", "", "key b"):
            await queries.embed("7", account)
        assert model.texts == ["7"] * 3
        await asyncio.gather(*(queries.embed("8", account) for account in ("key a", "key b", "key a")))
        assert model.texts[3:] == ["8"] * 2, "nor does one wait with another for the same text"
        queries.close()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/search", "/ask"])
def test_callers_are_told_apart_by_their_keys(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "docs", [a_document("one", "alpha")])
    accounts: list[str] = []
    embed = BatchingEmbedder.embed

    async def watched(self: BatchingEmbedder, text: str, account: str = "") -> Any:
        accounts.append(account)
        return await embed(self, text, account)

    monkeypatch.setattr(BatchingEmbedder, "embed", watched)
    keys = "".join(f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"\n' for name, digest in DIGESTS.items())
    body: Any = {"query": "alpha"} if path == "/search" else {"query": {"text": "alpha"}}
    with serving(tmp_path, keys) as client:
        for secret in ("a", "b", None):
            headers = {"content-type": "application/json"}
            headers |= {} if secret is None else {"authorization": f"Bearer {secret}"}
            assert client.request("POST", path, json=body, headers=headers).status_code == 200
    assert list(dict.fromkeys(accounts)) == ["key a", "key b", ""]


DIGESTS = {
    "a": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "b": "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d",
}
"""SHA-256 of the secrets "a" and "b"."""
