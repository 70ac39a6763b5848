"""A publisher who offers all there is: every protocol, public and private collections, keys, signatures, budgets."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from aidre.api.protocols.provenance.keys import make_key
from aidre.engine.model import Visibility
from tests.support.clients import COSINE, TEXT, a_document, fill

SECRET = "a-secret-of-the-tests-0123456789"
PLATFORM, PLATFORM_SECRET = "platform", "test-secret-0123456789abcdef"
CONFIGURATION = f"""
[server]
organization = "The Example"
[limits]
rate = "%(rate)s"
chunks_per_day = 10000000
[collections.docs]
return_vectors = true
[collections.words]
return_text = false
[collections.vault]
visibility = "private"
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["vault"]
scopes = ["search", "vectors"]
rate = "%(rate)s"
[provenance]
key = "keys.pem"
[intake]
bind_key = "a bind key that the tests know"
[[intakes]]
id = "find"
collection = "docs"
query = "{{need}}"
bind_requires = ["email"]
[intakes.input_schema]
type = "object"
required = ["need"]
properties = {{ need = {{ type = "string", minLength = 1 }} }}
[[intakes]]
id = "members"
collection = "vault"
requires_auth = true
[intent]
enabled = true
publisher = {{ id = "example", name = "The Example", domain = "127.0.0.1" }}
[intent.editorial_domains.news]
collection = "docs"
[intent.editorial_domains.archive]
collection = "vault"
[intent.keys]
{PLATFORM} = "{PLATFORM_SECRET}"
"""
DOCUMENTS = 40


def publish(folder: Path, rate: str = "100000000/hour") -> tuple[Path, Path]:
    """The store and the configuration of such a publisher."""
    store, configuration = folder / "store", folder / "aidre.toml"
    store.mkdir()
    payload = {"@type": "Recipe", "name": "Alpha soup", "cookTime": "PT30M", "url": "https://example.com/soup"}
    shown: dict[str, Visibility] = {"docs": "public", "words": "public", "vault": "private"}
    for name, visibility in shown.items():
        documents = [
            a_document(
                f"{name}/{number}",
                f"alpha beta word{number} of {name}",
                title=f"Title {number}",
                url=f"https://example.com/{name}/{number}",
                metadata={"price": number, "topic": "tea" if number % 2 else "rain"},
                semantic_payload=payload if number % 3 == 0 else None,
            )
            for number in range(DOCUMENTS)
        ]
        fill(store, name, documents, (TEXT, COSINE) if name == "docs" else (TEXT,), visibility)
    make_key(folder / "keys.pem", time.time())
    configuration.write_text(CONFIGURATION % {"rate": rate}, encoding="utf-8")
    return store, configuration
