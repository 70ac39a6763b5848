"""What callers ask is in no file of the store and in no log, whichever protocol they ask by."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.support.clients import TEXT, a_document, fill
from tests.support.clocks import WAIT_SECONDS
from tests.support.intent_platform import Platform, Sent
from tests.support.processes import running

CANARY = "canaryquestion"
SESSION = "canarysession"
CONFIGURATION = """
[server]
log = "requests"
[intent]
full_article = true
max_document_fraction = 1.0
enabled = true
[intent.editorial_domains.all]
collection = "docs"
[intent.keys]
platform = "test-secret-0123456789abcdef"
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(
        tmp_path / "store",
        "docs",
        [a_document(f"d{n}", f"alpha word{n}", url=f"https://127.0.0.1/d{n}") for n in range(5)],
        (TEXT,),
    )
    return tmp_path / "store"


def leaks(folder: Path) -> list[str]:
    """The files in which a canary stands, in any case, in UTF-8 or UTF-16."""
    words = [word.encode(coding) for word in (CANARY, SESSION) for coding in ("utf-8", "utf-16-le")]
    contents = {path: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    return [str(path) for path, content in contents.items() if any(word in content for word in words)]


def asked_by_every_protocol(client: httpx.Client) -> None:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        answer = client.request(method, path, content=body, headers=headers)
        return answer.status_code, dict(answer.headers), answer.content

    text = f"alpha {CANARY}"
    assert client.post("/search", json={"query": text, "collection": "docs", "top_k": 2}).status_code == 200
    assert client.post("/search", json={"query": text, "collection": "docs", "mode": CANARY}).status_code == 400
    assert client.get("/ask", params={"query": text}).status_code == 200
    ask = {"query": {"text": text, "itemType": CANARY}, "context": {"prev": [CANARY], "text": CANARY}}
    assert client.post("/ask", json=ask).status_code == 200
    promised = client.post("/ask", json={**ask, "prefer": {"respond-async": True}}).json()
    assert "promise" in json.dumps(promised).lower()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": ask}}
    accept = {"accept": "application/json, text/event-stream", "mcp-session-id": CANARY}
    client.post("/mcp", json=call, headers=accept)
    client.get(f"/collections/{CANARY}")
    client.get(f"/chunks/{CANARY}", headers={"if-none-match": CANARY, "referer": CANARY})
    platform = Platform(send)
    assert platform.retrieve(platform.request(text, domain="all", session=SESSION))["status"] == "ok"
    platform.post("/aip/retrieve", {"query_text": CANARY})


@pytest.mark.process
def test_no_question_stands_in_any_file_or_log(store: Path, tmp_path: Path) -> None:
    settings = tmp_path / "aidre.toml"
    settings.write_text(CONFIGURATION)
    with running(store, settings=settings) as server:
        with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
            asked_by_every_protocol(client)
        assert leaks(tmp_path) == []  # while the logs of SQLite are still there
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        said = server.process.stdout.read() + server.process.stderr.read()
    assert leaks(tmp_path) == []
    assert len(said.splitlines()) > 8
    assert CANARY not in said.lower()
    assert SESSION not in said.lower()


def test_the_search_for_leaks_finds_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x CanaryQuestion x")
    assert leaks(tmp_path) == [str(tmp_path / "log")]
