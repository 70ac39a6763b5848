"""What the tests of Agentic Intent share: a publisher's store, its configuration, and platforms that ask it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aidre.api.cli.main import run
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, read_events
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import embedding_keys, load_embedder
from aidre.engine.model import Chunk, Record, Visibility
from tests.support.clients import TEXT, Client, a_document, serving
from tests.support.intent_platform import Platform, Sent
from tests.support.intent_schemas import EVENT, RETRIEVE_RESPONSE, valid

SECRET, OTHER_SECRET = "test-secret-0123456789abcdef", "another-secret-0123456789"
DOMAINS = """
[intent.editorial_domains."finance.markets"]
collection = "news"
filter = { topic = "markets" }
[intent.editorial_domains."finance.markets.metals"]
collection = "news"
filter = { topic = "metals" }
[intent.editorial_domains.archive]
collection = "vault"
[intent.keys]
platform = "test-secret-0123456789abcdef"
other = "another-secret-0123456789"
"""
INTENT = """
[server]
organization = "The Example"
[collections.news]
protocols = ["intent"]
[collections.vault]
visibility = "private"
[intent]
enabled = true
publisher = { id = "example", name = "The Example", domain = "127.0.0.1" }
"""
CONFIGURATION = INTENT + DOMAINS
TESTS = 1_000
"""Keys of the publisher that tests share: what one of them was given is nothing that another can no longer get."""


def configured(*lines: str) -> str:
    """The configuration with further keys of [intent]."""
    return INTENT + "\n".join(lines) + DOMAINS


def fill_chunks(
    store: Path,
    name: str,
    articles: Mapping[str, tuple[Sequence[str], dict[str, Any]]],
    visibility: Visibility = "public",
    token_count: int | None = None,
) -> None:
    """Documents of several chunks; each is given its chunks' texts and its other members."""
    records, texts = [], [text for parts, _ in articles.values() for text in parts]
    for identifier, (parts, members) in articles.items():
        chunks, start = [], 0
        for number, text in enumerate(parts, 1):
            chunk_id = f"{identifier}#chunk_{number}"
            chunks.append(Chunk(chunk_id, number, text, start, start + len(text), None, token_count))
            start += len(text)
        document = a_document(identifier, "".join(parts), **{"title": identifier.title(), **members})
        records.append(
            Record(document, tuple(chunks), hashlib.blake2b(repr(articles[identifier]).encode()).digest()[:16])
        )
    with Store(store).writer(name, spaces=[TEXT], description=f"About {name}", visibility=visibility) as writer:
        vectors = writer.encode(TEXT.id, load_embedder(TEXT).embed_documents(texts))
        writer.upsert(records, {TEXT.id: vectors}, {TEXT.id: embedding_keys(TEXT, texts)})
        writer.commit()


def an_article(name: str, chunks: int, topic: str, **members: Any) -> tuple[list[str], dict[str, Any]]:
    texts = [f"alpha {name} part {number} " + "word " * number for number in range(1, chunks + 1)]
    return texts, {"url": f"https://example.com/{name}", "metadata": {"topic": topic}, **members}


def fill_news(store: Path) -> None:
    """Articles about two topics, one of a single chunk, one without an address, and a private collection."""
    news = {f"stocks_{n}": an_article(f"stocks_{n}", 6, "markets") for n in range(5)}
    news |= {f"gold_{n}": an_article(f"gold_{n}", 4, "metals") for n in range(2)}
    news["brief"] = (["alpha brief, all of it"], {"url": "https://example.com/brief", "metadata": {"topic": "markets"}})
    news["nowhere"] = an_article("nowhere", 4, "markets", url=None)
    news["şifre"] = (
        ["alpha ‘çığ’ 単一サインオン 😀\r\n\ttab", "alpha second", "alpha third", "alpha fourth"],
        {"url": "https://example.com/%C5%9F", "metadata": {"topic": "markets"}},
    )
    fill_chunks(store, "news", news)
    fill_chunks(store, "vault", {"secret": an_article("secret", 5, "vault")}, visibility="private")
    fill_chunks(store, "open", {"free": an_article("free", 3, "markets")})


def platform_of(client: Client, **members: Any) -> Platform:
    """A platform that calls an application in this process."""

    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, path, content=body, headers=headers)
        return response.status_code, dict(response.headers), response.content

    return Platform(send, **members)


@contextmanager
def publishing(store: Path, configuration: str = CONFIGURATION) -> Iterator[tuple[Client, Platform]]:
    with serving(store, configuration) as client:
        try:
            yield client, platform_of(client)
        finally:
            if client.app.state.intent is not None:
                client.app.state.intent.receipts.close()


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, list[str], str]:
    """The status of a command, the lines it printed, and what it said."""
    capsys.readouterr()
    status = run([str(word) for word in words])
    shown = capsys.readouterr()
    return status, shown.out.splitlines(), shown.err


def log_of(client: Client) -> list[dict[str, Any]]:
    """Every event that was kept, each of which is valid."""
    found = list(read_events(client.store / ".log" / LEDGER_FILE))
    for event in found:
        _check_event(json.dumps(event))
    return found


@cache
def _check_event(line: str) -> None:
    valid(EVENT, json.loads(line))


def denied(answer: Mapping[str, Any], reason: str) -> None:
    assert answer["status"] == "denied", answer
    assert answer["denial"]["reason"] == reason
    assert answer["denial"]["message"]


def failed(sent: Sent, status: int, code: str) -> dict[str, Any]:
    """The body of an error, after its envelope was checked."""
    body: dict[str, Any] = json.loads(sent[2])
    assert (sent[0], body["status"], body["error"]["code"]) == (status, "error", code), body
    assert body["error"]["message"]
    valid(RETRIEVE_RESPONSE, body)
    return body


def chunk_ids(answer: Mapping[str, Any]) -> list[str]:
    assert answer["status"] == "ok", answer
    return [chunk["id"] for chunk in answer["content"]["chunks"]]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A publisher's store, whose collections no test changes."""
    folder = tmp_path_factory.mktemp("store")
    fill_news(folder)
    return folder


@pytest.fixture(scope="session")
def client(store: Path) -> Iterator[Client]:
    keys = "\n".join(f'platform-{number} = "{SECRET}-{number}"' for number in range(TESTS))
    with publishing(store, f"{CONFIGURATION}{keys}\n") as (shared, _):
        yield shared


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Of the keys that no test has used yet."""
    return iter(range(TESTS))


@pytest.fixture
def platform(client: Client, numbers: Iterator[int]) -> Platform:
    """A platform that was given nothing yet."""
    number = next(numbers)
    return platform_of(client, key_id=f"platform-{number}", secret=f"{SECRET}-{number}")


@pytest.fixture
def own_store(tmp_path: Path) -> Path:
    """A store for one test, beside its aidre.toml."""
    fill_news(tmp_path / "store")
    (tmp_path / "aidre.toml").write_text(CONFIGURATION, encoding="utf-8")
    return tmp_path / "store"
