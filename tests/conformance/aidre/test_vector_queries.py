"""Who may query by vector: exact scores of chosen vectors reveal the stored ones, however they are rounded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError
from tests.support.clients import DOT, PLAIN, TEXT, Client, a_document, fill, serving, vector_of
from tests.support.discovery import DISCOVERY, refused

SECRETS = {"reader": ["search"], "embedder": ["search", "vectors"]}
KEYS = "".join(
    f'[[keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\nscopes = {scopes}\n'
    for name, scopes in SECRETS.items()
)
CONFIGURATION = f"""
{KEYS}
[collections.quiet]
return_text = false
[collections.opened]
return_text = false
vector_queries = "open"
[collections.scoped]
vector_queries = "scope"
"""
NAMES = ("plain", "quiet", "opened", "scoped")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    for name in NAMES:
        fill(store, name, [a_document(f"{name}_{number}", f"alpha {number}") for number in range(5)], (TEXT, *PLAIN))
    with serving(store, CONFIGURATION) as client:
        yield client


def ask(client: Client, collection: str, secret: str | None = None, **members: Any) -> httpx.Response:
    body = {"query_vector": [1.0, 0.0, 0.0, 0.0], "embedding_space": DOT.id, "collection": collection, **members}
    return client.search(body, **({} if secret is None else {"authorization": f"Bearer {secret}"}))


@pytest.mark.parametrize(
    ("collection", "anonymous", "reader"),
    [("plain", 200, 200), ("opened", 200, 200), ("quiet", 401, 403), ("scoped", 401, 403)],
)
def test_a_query_by_vector_is_answered_to_whom_the_collection_says(
    collection: str, anonymous: int, reader: int, client: Client
) -> None:
    assert ask(client, collection).status_code == anonymous
    assert ask(client, collection, "reader").status_code == reader
    assert len(ask(client, collection, "embedder").json()["results"]) == 5


def test_the_refusal_says_what_is_missing(client: Client) -> None:
    refused(ask(client, "quiet"), 401, "unauthorized")
    assert ask(client, "quiet").headers["www-authenticate"].startswith("Bearer ")
    refused(ask(client, "quiet", "reader"), 403, "forbidden")
    assert 'error="insufficient_scope", scope="vectors"' in ask(client, "quiet", "reader").headers["www-authenticate"]


def test_queries_by_text_are_answered_to_everybody(client: Client) -> None:
    for name in NAMES:
        assert client.search({"query": "alpha", "collection": name}).status_code == 200


def test_a_collection_that_the_caller_may_not_see_stays_unknown(tmp_path: Path) -> None:
    fill(tmp_path, "hidden", [a_document("one", "alpha")], PLAIN, visibility="private")
    with serving(tmp_path, f'{KEYS}\n[collections.hidden]\nvector_queries = "scope"\n') as client:
        assert ask(client, "hidden").status_code == ask(client, "missing").status_code == 404


def test_without_any_keys_nobody_has_the_scope(tmp_path: Path) -> None:
    fill(tmp_path, "quiet", [a_document("one", "alpha")], PLAIN)
    with serving(tmp_path, "[collections.quiet]\nreturn_text = false\n") as client:
        assert ask(client, "quiet").status_code == 401
        assert client.get(DISCOVERY).json()["capabilities"]["query_vector"] is False


def test_discovery_offers_queries_by_vector_to_those_who_may(tmp_path: Path) -> None:
    fill(tmp_path, "quiet", [a_document("one", "alpha")], PLAIN)
    with serving(tmp_path, f"{KEYS}[collections.quiet]\nreturn_text = false\n") as client:
        for secret, offered in [(None, False), ("reader", False), ("embedder", True)]:
            headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
            assert client.get(DISCOVERY, headers).json()["capabilities"]["query_vector"] is offered


def test_scores_of_unit_vectors_are_the_stored_vector(client: Client) -> None:
    """Why the setting exists: so many queries as the space has dimensions give a vector away."""
    found = []
    for unit in np.eye(4).tolist():
        body: dict[str, Any] = {"query_vector": unit, "filter": {"document_id": "plain_3"}}
        [hit] = ask(client, "plain", **body).json()["results"]
        found.append(hit["score"])
    np.testing.assert_allclose(found, vector_of("plain_3"), rtol=1e-2)


def test_another_word_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"collections\.docs\.vector_queries"):
        parse_settings('[collections.docs]\nvector_queries = "closed"')
