"""A collection that an endpoint embeds: ingest, search and serving, with it, without it, and without its line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aidre.api.cli.main import run
from tests.support.clients import serving
from tests.support.embeddings import KEY, Canned, EmbeddingsApi, embedding
from tests.support.shell import Shell

VARIABLE = "AIDRE_TEST_ENDPOINT_KEY"
SPACE = """
[[spaces]]
id = "mine"
dimensions = 64
distance = "cosine"
normalized = true
provider = "openai"
model = "words-1"
"""
PLACE = """
endpoint = "{url}"
key = "env:{variable}"
"""
COLLECTION = '[collections.docs]\nspaces = ["mine"]\n'


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingsApi]:
    monkeypatch.setenv(VARIABLE, KEY)
    with embedding() as api:
        api.key = KEY
        yield api


def configuration(api: EmbeddingsApi) -> str:
    return SPACE + PLACE.format(url=api.url, variable=VARIABLE) + COLLECTION


@pytest.fixture
def hosted(shell: Shell, api: EmbeddingsApi) -> Shell:
    """A shell beside a store that the endpoint has embedded."""
    shell.config.write_text(configuration(api))
    status, _, err = shell.ingest()
    assert status == 0, err
    return shell


def searched(shell: Shell, *words: str) -> tuple[int, str, str]:
    return shell.run("search", "steeped green tea", "--store", shell.store, "--config", shell.config, *words)


def test_documents_and_queries_are_embedded_by_the_endpoint(hosted: Shell, api: EmbeddingsApi) -> None:
    assert len(api.texts) == 3
    assert set(api.keys) == {f"Bearer {KEY}"}
    status, out, err = searched(hosted, "--mode", "dense", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out.splitlines()[0])["document_id"] == "texts/tea.md"
    assert api.texts[3:] == ["steeped green tea"]


def test_what_is_embedded_is_not_asked_for_again_wherever_the_endpoint_moves(hosted: Shell) -> None:
    (hosted.source / "rain.md").write_text("# Rain\n\nA rain jacket has taped seams and a hood.\n\nAnd more.\n" * 2)
    with embedding() as elsewhere:
        hosted.config.write_text(configuration(elsewhere))
        status, _, err = hosted.ingest("--mirror", hosted.source)
        assert status == 0, err
        assert elsewhere.texts, "what has changed"
        assert not any("tea" in text or "Sourdough" in text for text in elsewhere.texts)
        assert searched(hosted, "--mode", "dense")[0] == 0


def test_another_label_has_everything_embedded_again(hosted: Shell, api: EmbeddingsApi) -> None:
    hosted.config.write_text(configuration(api).replace('model = "words-1"', 'model = "words-1"\nrevision = "v2"'))
    status, _, err = hosted.ingest()
    assert status == 0, err
    assert len(api.texts) == 6


def test_the_store_holds_neither_the_key_nor_the_address(hosted: Shell, api: EmbeddingsApi) -> None:
    files = [path for path in hosted.store.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    assert b"words-1" in content, "the model is recorded"
    for hidden in (KEY, VARIABLE, str(api.port) + "/v1"):
        assert hidden.encode() not in content


def test_a_store_without_the_line_of_its_endpoint_is_searched_by_words_and_says_so(hosted: Shell) -> None:
    status, out, err = hosted.run("search", "steeped green tea", "--store", hosted.store)
    assert status == 0
    assert "tea" in out
    assert "lexical search only" in err
    assert 'add the line endpoint = "https://..." to its [[spaces]] in aidre.toml' in err
    status, _, err = hosted.run("search", "tea", "--store", hosted.store, "--mode", "dense")
    assert status == 2
    assert "add the line endpoint" in err


@pytest.mark.parametrize(
    ("canned", "said"),
    [
        (Canned(KEY.encode(), 401), 'correct key = "env:NAME"'),
        (Canned(b'{"data": [{"index": 0, "embedding": [1, 2]}]}'), "answers 3 texts with 1 vectors"),
        (Canned(b"<html>"), "not answer in JSON"),
        (Canned(KEY.encode(), 404), "correct model"),
    ],
)
def test_an_ingest_that_the_endpoint_fails_ends_with_one_line(
    shell: Shell, api: EmbeddingsApi, canned: Canned, said: str
) -> None:
    shell.config.write_text(configuration(api))
    api.always = canned
    status, events, err = shell.ingest()
    assert status == 2
    assert said in err
    assert "space 'mine'" in err
    assert KEY not in err + repr(events)
    assert err.count("\n") == 1
    api.always = None
    assert shell.ingest()[0] == 0, "the next one goes on"


def test_a_server_answers_by_meaning_and_while_the_endpoint_is_down_by_words(
    hosted: Shell, api: EmbeddingsApi, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(hosted.store, configuration(api)) as client:
        asked = {"query": "steeped green tea", "top_k": 2}
        found = client.search(asked)
        assert (found.status_code, found.json()["meta"]["embedding_space"]) == (200, "mine")
        api.always = Canned(KEY.encode(), 401)
        other = {**asked, "query": "a rain jacket"}
        found = client.search(other)
        assert found.status_code == 200
        assert found.json()["meta"]["mode"] == "lexical"
        assert found.json()["results"][0]["id"].startswith("texts/rain")
        refused = client.search({**other, "mode": "dense"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "30")
        for said in (refused.text, client.get("/.well-known/aidre.json").text, caplog.text):
            assert KEY not in said
            assert str(api.port) not in said or said is caplog.text
    assert "does not accept the key" in caplog.text, "the operator is told"


WRITER = "w" * 32
WRITES = f"""
[server]
writes = true
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(WRITER.encode()).hexdigest()}"
scopes = ["search", "write"]
"""


@pytest.mark.process
def test_documents_that_come_over_http_are_embedded_or_nothing_of_them_is_written(
    hosted: Shell, api: EmbeddingsApi, caplog: pytest.LogCaptureFixture
) -> None:
    def put(text: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {WRITER}", "content-type": "application/json"}
        body = json.dumps([{"id": "new", "text": text}]).encode()
        return client.request("PUT", "/collections/docs/documents", content=body, headers=headers)

    with serving(hosted.store, configuration(api) + WRITES) as client:
        assert put("a walrus in the bath").json()["written"] == 1
        assert api.texts[-1] == "a walrus in the bath"
        api.always = Canned(KEY.encode(), 403)
        refused = put("a walrus in the rain")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "30")
        assert "nothing was written" in refused.json()["message"]
        client.refresh()
        assert client.get("/chunks/new%23chunk_1").json()["text"] == "a walrus in the bath"
        assert "does not accept the key" in caplog.text
        assert KEY not in caplog.text + refused.text
        assert "127.0.0.1" not in refused.text


def test_a_dry_run_asks_nobody(shell: Shell, api: EmbeddingsApi) -> None:
    shell.config.write_text(configuration(api))
    words = ("ingest", shell.source, "--store", shell.store, "--collection", "docs", "--config", shell.config)
    assert shell.run(*words, "--dry-run")[0] == 0
    assert api.asked == []


def test_a_space_that_joins_later_is_filled_by_the_endpoint(filled: Shell, api: EmbeddingsApi, tmp_path: Path) -> None:
    config = tmp_path / "joined.toml"
    config.write_text(
        filled.config.read_text().replace('spaces = ["words"]', 'spaces = ["words", "mine"]', 1)
        + SPACE
        + PLACE.format(url=api.url, variable=VARIABLE)
    )
    words = ["embed", "--store", str(filled.store), "--collection", "docs", "--space", "mine", "--config", str(config)]
    assert run(words) == 0
    assert len(api.texts) == 3
