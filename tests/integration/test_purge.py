"""`delete --purge`: of a document no byte is left in any file of its store, nor in what a server has written."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from aidre.api.cli.main import run
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import embedding_keys, load_embedder
from tests.support.clients import AGENTS, AIDRE, COSINE, DOT, TEXT, a_document, fill, vector_of
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.intent_platform import Platform, Sent
from tests.support.processes import running
from tests.support.shell import Shell

SPACES = (TEXT, COSINE, DOT)
ID = "dossier/zephyrine"
WORDS = ("quixotrope", "vorlagish", "umbrellatron", "zephyrine")
FORMER = "In the first version the quixotrope was blue, which nobody outside of the house may ever read again."
TEXT_OF = "The quixotrope of the vorlagish house is kept in the cellar behind the third door, under the umbrellatron."
URL = "https://papers.example/zephyrine?page=7"
TITLE = "On the Zephyrine quixotrope"
METADATA = {"codename": "umbrellatron-77", "weight": 8_675_309}
CONFIGURATION = f"""
[server]
log = "requests"
scrub = "1s"
[limits]
rate = "1000/second"
chunks_per_day = 100000
{AGENTS}
[intent.publisher]
id = "example"
name = "The Example"
domain = "127.0.0.1"
"""
SESSION = "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11"


def others() -> list[object]:
    return [a_document(f"other_{n}", f"Plain words about door number {n}, which is open.") for n in range(30)]


def document(text: str) -> object:
    return a_document(ID, text, url=URL, title=TITLE, metadata=METADATA)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The document stands in two versions, in three generations, beside others."""
    path = tmp_path / "store"
    fill(path, "docs", [document(FORMER), *others()[:20]], SPACES)  # type: ignore[list-item]
    fill(path, "docs", [document(TEXT_OF)], SPACES)  # type: ignore[list-item]
    fill(path, "docs", others()[20:], SPACES)  # type: ignore[arg-type]
    return path


def needles(store: Path) -> dict[str, bytes]:
    """Whatever of the document could stand in a file: its words, ids, hashes, numbers and vectors."""
    found: dict[str, bytes] = {}
    for text in (FORMER, TEXT_OF, TITLE, URL):
        found |= {f"text {at} of {text[:12]}": text[at : at + 14].encode() for at in range(0, len(text) - 14, 5)}
    found |= {f"word {word}": word.encode() for word in WORDS}
    found |= {"stem": b"quixotrop", "id": ID.encode(), "id in a URL": quote(ID, safe="").encode()}
    found |= {"title in small letters": TITLE.lower().encode(), "number": str(METADATA["weight"]).encode()}
    for generation in (1, Store(store).current("docs")):
        snapshot = Store(store).open("docs", generation=generation)
        [(place, row)] = snapshot.find_documents([ID]).tolist()
        segment = snapshot.segments[place].segment
        [chunk] = segment.chunk_rows(row)
        digest = segment.chunks.fixed("content_hash")[chunk]
        found |= {f"hash {generation}": digest, f"hex {generation}": digest.hex().encode()}
        found |= {f"base64 {generation}": base64.b64encode(digest)[:40]}
        found |= {f"etag {generation}": bytes(segment.chunks.fixed("etag")[chunk])}
        found |= {f"fingerprint {generation}": bytes(segment.documents.value("fingerprint", row))}
        found |= {f"hash of its id {generation}": segment.ids.chunks.by_row()[chunk].tobytes()}
        for space in SPACES:
            found |= {f"stored {space.id} {generation}": segment.columns[space.id].codes[chunk].tobytes()}
    for text in (FORMER, TEXT_OF):
        vector = load_embedder(TEXT).embed_documents([text])[0]
        found[f"float32 of {text[:12]}"] = vector.astype(np.float32).tobytes()[:64]
        found[f"float16 of {text[:12]}"] = vector.astype(np.float16).tobytes()[:64]
        found[f"embedding key of {text[:12]}"] = embedding_keys(TEXT, [text])[0]
    brought = vector_of(ID)
    for kind in (np.float16, np.float32):
        found[f"brought {kind.__name__}"] = brought.astype(kind).tobytes()
        found[f"brought and normal {kind.__name__}"] = (brought / np.linalg.norm(brought)).astype(kind).tobytes()
    return found


def holders(store: Path, sought: Mapping[str, bytes]) -> dict[str, list[str]]:
    """In which files each of them stands, of all that are there."""
    contents = {path.relative_to(store).as_posix(): path.read_bytes() for path in store.rglob("*") if path.is_file()}
    found = {what: [name for name, content in contents.items() if needle in content] for what, needle in sought.items()}
    named = [name for name in contents for word in WORDS if word in name]
    return {what: names for what, names in found.items() if names} | ({"names": named} if named else {})


def purge(store: Path) -> dict[str, object]:
    with redirect_stdout(StringIO()) as printed:
        assert run(["delete", ID, "--purge", "--store", str(store), "--collection", "docs", "--json"]) == 0
    answer: dict[str, object] = json.loads(printed.getvalue())
    return answer


def test_what_is_sought_is_there_before(store: Path) -> None:
    """Else its absence afterwards would prove nothing."""
    found = holders(store, needles(store))
    sure = [
        what for what in needles(store) if what.split()[0] in {"text", "word", "stored", "hash", "etag", "id", "stem"}
    ]
    missing = [what for what in sure if what not in found and what != "id in a URL"]
    assert missing == []
    assert {"fingerprint 1", "hash of its id 1", f"embedding key of {FORMER[:12]}", "brought float32"} <= found.keys()
    assert any(what.startswith("number") for what in found)


def test_deleting_alone_leaves_it_there_and_purging_nothing(store: Path) -> None:
    sought = needles(store)
    with Store(store).writer("docs", spaces=SPACES) as writer:
        writer.delete([ID])
        writer.commit()
    assert "word quixotrope" in holders(store, sought)
    assert purge(store)["deleted"] == 0
    assert holders(store, sought) == {}
    assert Store(store).open("docs").documents == 30


def test_interrupted_writers_leave_nothing_of_it_either(store: Path) -> None:
    sought = needles(store)
    for folder in ("segments/.left.tmp", "segments"):
        (store / "docs" / folder).mkdir(exist_ok=True)
    (store / "docs/segments/.left.tmp/chunks.arrow").write_bytes(TEXT_OF.encode())
    (store / "docs/manifests/.000009.json.1.tmp").write_bytes(TEXT_OF.encode())
    purge(store)
    assert holders(store, sought) == {}


def test_files_dated_in_the_future_leave_nothing_of_it_either(store: Path) -> None:
    """As where the clock was set back, or the store was copied with its dates from a machine that ran ahead."""
    sought = needles(store)
    tomorrow = time.time() + 24 * 3600
    for path in store.rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    purge(store)
    assert holders(store, sought) == {}
    assert Store(store).open("docs").documents == 30


def test_a_commit_that_was_killed_before_it_was_named_leaves_nothing_of_it_either(tmp_path: Path) -> None:
    fill(tmp_path, "docs", others(), SPACES)  # type: ignore[arg-type]
    purge(tmp_path)
    current = tmp_path / "docs" / "CURRENT"
    before = current.read_bytes()
    fill(tmp_path, "docs", [document(TEXT_OF)], SPACES)  # type: ignore[list-item]
    sought = {word: word.encode() for word in WORDS}
    assert "quixotrope" in holders(tmp_path, sought)
    current.write_bytes(before)
    purge(tmp_path)
    assert holders(tmp_path, sought) == {}
    assert Store(tmp_path).open("docs").documents == 30


@contextmanager
def asked_for_everything(store: Path, tmp_path: Path) -> Iterator[tuple[httpx.Client, list[str]]]:
    """A server that has given the document away in every way that it has; what it wrote is in the list at the end."""
    configuration = tmp_path / "aidre.toml"
    configuration.write_text(CONFIGURATION)
    written: list[str] = []
    with running(store, settings=configuration) as server:
        with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
            ask_everywhere(client)
            yield client, written
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        written += [server.process.stdout.read(), server.process.stderr.read()]


def ask_everywhere(client: httpx.Client) -> None:
    query = "quixotrope vorlagish"
    body = {"query": query, "return": {"text": True}}
    assert ID in client.post("/search", json=body, headers={"content-type": AIDRE}).text
    assert client.get(f"/chunks/{quote(ID, safe='')}%23chunk_1").status_code == 200
    assert ID in client.get("/collections/docs/changes").text
    assert "uixotrope" in client.post("/ask", json={"query": {"text": query}}).text
    promised = client.post("/ask", json={"query": {"text": query}, "prefer": {"respond-async": True}}).json()
    token = promised["promise"]["token"]
    until(lambda: "uixotrope" in client.post("/await", json={"promise_token": token, "action": "checkin"}).text)
    submission = {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
        "intake_data": {"query": query},
        "session_id": SESSION,
    }
    assert "uixotrope" in client.post("/intakes/find", json=submission).text

    def send(method: str, path: str, content: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, path, content=content, headers=headers)
        return response.status_code, response.headers, response.content

    platform = Platform(send)
    answer = platform.retrieve(platform.request(query, domain="of.docs"))
    assert ID in json.dumps(answer)


@pytest.mark.process
def test_a_server_that_gave_it_away_keeps_nothing_of_it(store: Path, tmp_path: Path) -> None:
    sought = needles(store)
    with asked_for_everything(store, tmp_path) as (client, written):
        assert any(name.startswith(".log/") for name in holders(store, sought)["word quixotrope"])
        purge(store)
        assert holders(store, sought) == {}
        client.post("/search", json={"query": "door"}, headers={"content-type": AIDRE})
    assert holders(store, sought) == {}
    texts = {what: needle for what, needle in sought.items() if any(needle in text.encode() for text in written)}
    assert texts == {}


def test_a_source_that_has_nothing_left_is_forgotten_with_what_it_brought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, capsys)
    assert shell.ingest()[0] == 0
    (secret := tmp_path / "papers").mkdir()
    (secret / "note.md").write_text("# A note\n\nThe quixotrope is in the cellar.\n")
    assert shell.ingest(secret, "--source", "zephyrine-papers")[0] == 0
    sought = {"source": b"zephyrine", "word": b"quixotrope", "root": str(secret).encode()}
    assert set(holders(shell.store, sought)) == set(sought)
    assert any(name.endswith(".checks.json") for name in holders(shell.store, sought)["source"])
    shell.json("delete", "zephyrine-papers/note.md", "--purge")
    assert holders(shell.store, sought) == {}
    assert shell.json("status")[0]["documents"] == 3
    assert shell.ingest()[0] == 0, "the others are known as before"
    assert shell.json("verify")[0]["ok"]


def test_a_listing_that_has_nothing_left_is_read_anew(store: Path) -> None:
    with Store(store).writer("docs", spaces=SPACES) as writer:
        for name, url in (("x.example/feed", "https://x.example/feed"), ("y.example", "https://y.example/")):
            writer.set_source_root(name, url)
            writer.set_source_state(url, {"etag": "zephyrine"})
        writer.commit()
        writer.forget_source("x.example/feed")
        writer.forget_source("never was")
        writer.commit()
        assert list(writer.source_roots()) == ["y.example"]
        assert list(writer.source_states()) == ["https://y.example/"]
        generation = Store(store).current("docs")
        writer.forget_source("x.example/feed")
        writer.commit()
        assert Store(store).current("docs") == generation
