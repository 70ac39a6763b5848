"""A second embedding space for other languages: declared by its folder, filled, asked, preferred, and with prefixes
that every path puts before its texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aidre
from aidre.api.config.settings import parse_settings
from aidre.engine.embedding import DEFAULT_SPACE, load_stored
from aidre.ingest.pipeline.ingest import chunker_for
from tests import ROOT
from tests.support.clients import Client, serving
from tests.support.embeddings import EmbeddingsApi, embedding
from tests.support.models import E5_PROMPTS, save_multilingual
from tests.support.shell import Shell

WORDS = '[[spaces]]\nid = "words"\nmodel = "hashing"\ndimensions = 64\n'
QUESTION = "eine Katze und Tee"


@pytest.fixture
def api() -> Iterator[EmbeddingsApi]:
    with embedding() as api:
        yield api


def configuration(space: str, *order: str) -> str:
    return f"{WORDS}{space}\n[collections.docs]\nspaces = {json.dumps(order)}\n"


def at(shell: Shell, collection: str = "docs") -> tuple[str | Path, ...]:
    return "--store", shell.store, "--config", shell.config, "--collection", collection


def found(client: Client, **members: Any) -> dict[str, Any]:
    response = client.search({"query": QUESTION, "mode": "dense", **members})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.slow
def test_a_model_folder_is_one_line_and_answers_beside_or_before_the_first_space(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    folder = save_multilingual(tmp_path / "model", prompts=E5_PROMPTS)
    line = f'[[spaces]]\nid = "e5"\nmodel = "{folder}"\n'
    shell.config.write_text(configuration(line, "words"))
    assert shell.ingest()[0] == 0
    shell.config.write_text(configuration(line, "words", "e5"))
    status, _, err = shell.run("embed", "--space", "e5", *at(shell))
    assert status == 0, err

    with serving(shell.store, shell.config.read_text()) as client:
        assert found(client)["meta"]["embedding_space"] == "words"
        answer = found(client, embedding_space="e5")
        listed = client.get("/.well-known/ai-discovery").json()["embedding_spaces"]
        assert [one["model"] for one in listed] == ["hashing", "saved"], "the place of the folder is not published"
        assert answer["meta"]["embedding_space"] == "e5"
    with aidre.open(shell.store) as db:
        [space] = [space for space in db.collection("docs").spaces if space.id == "e5"]
        assert (space.dimensions, space.distance) == (32, "cosine")
        hits = db.collection("docs").search(QUESTION, space="e5", mode="dense")
    tea = next(hit for hit in hits if hit.document_id == "texts/tea.md")
    embedder = load_stored(space)
    embedded = chunker_for([space], {"e5": embedder}).join_embedding_input(tea.title, tea.chunk.section, tea.text or "")
    expected = float(np.dot(embedder.embed_queries([QUESTION])[0], embedder.embed_documents([embedded])[0]))
    scores = {one["id"].partition("#")[0]: one["score"] for one in answer["results"]}
    assert scores["texts/tea.md"] == pytest.approx(expected, abs=1e-3)
    assert {hit.document_id: hit.score for hit in hits} == pytest.approx(scores, abs=1e-6)

    shell.config.write_text(configuration(line, "e5", "words"))
    with serving(shell.store, shell.config.read_text()) as client:
        assert found(client)["meta"]["embedding_space"] == "e5"
        assert found(client, embedding_space="words")["meta"]["embedding_space"] == "words"


def endpoint(api: EmbeddingsApi, prefixes: str) -> str:
    return (
        '[[spaces]]\nid = "mine"\ndimensions = 64\nprovider = "openai"\nmodel = "words-1"\n'
        f'endpoint = "{api.url}"\n{prefixes}\n'
    )


E5 = 'query_prefix = "query: "\ndocument_prefix = "passage: "'


def test_every_path_puts_the_prefixes_before_its_texts(shell: Shell, api: EmbeddingsApi, tmp_path: Path) -> None:
    queries = tmp_path / "queries.txt"
    queries.write_text("how is tea made\nwhat rises overnight\n")

    shell.config.write_text(configuration(endpoint(api, E5), "mine"))
    assert shell.ingest()[0] == 0
    assert len(api.texts) == 3
    assert all(text.startswith("passage: ") for text in api.texts)
    documents = list(api.texts)

    api.asked.clear()
    assert shell.run("search", QUESTION, *at(shell))[0] == 0
    with serving(shell.store, shell.config.read_text()) as client:
        found(client, query="what is rain")
    shell.run("calibrate", "--queries", queries, *at(shell))
    space = aidre.EmbeddingSpace(
        "mine", 64, "cosine", model="words-1", query_prefix="query: ", document_prefix="passage: "
    )
    with aidre.open(shell.store) as db:
        collection = db.collection("docs", space=space, endpoint=api.url)
        collection.search("bread")
        asked = [QUESTION, "what is rain", "how is tea made", "what rises overnight", "bread"]
        assert [text for text in api.texts if "passage" not in text][: len(asked)] == [
            f"query: {text}" for text in asked
        ]
        api.asked.clear()
        collection.add({"id": "coffee", "text": "Coffee is ground."})
    assert api.texts == ["passage: Coffee is ground."]

    api.asked.clear()
    shell.config.write_text(configuration(endpoint(api, E5), "words"))
    assert shell.ingest(collection="more")[0] == 0
    text = shell.config.read_text().replace("[collections.docs]", "[collections.more]")
    shell.config.write_text(text.replace('["words"]', '["words", "mine"]'))
    status, _, err = shell.run("embed", "--space", "mine", *at(shell, "more"))
    assert status == 0, err
    assert sorted(api.texts) == sorted(documents)


def test_another_prefix_is_another_revision_which_the_next_ingest_embeds_again(
    shell: Shell, api: EmbeddingsApi
) -> None:
    shell.config.write_text(configuration(endpoint(api, E5), "mine"))
    assert shell.ingest()[0] == 0
    [before] = shell.json("status")[0]["spaces"]
    assert (before["query_prefix"], before["document_prefix"]) == ("query: ", "passage: ")

    shell.config.write_text(configuration(endpoint(api, E5.replace("passage", "document")), "mine"))
    api.asked.clear()
    status, events, err = shell.ingest()
    assert status == 0, err
    assert "embedded again" in json.dumps(events) + err
    assert len(api.texts) == 3
    assert all(text.startswith("document: ") for text in api.texts)
    [after] = shell.json("status")[0]["spaces"]
    assert after["document_prefix"] == "document: "
    assert before["revision"] != after["revision"]
    assert re.fullmatch("openai:words-1;prefixes=[0-9a-f]{8}", after["revision"])


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ('id = "a"\ndimensions = 3', "distance is missing: use cosine"),
        ('id = "a"\ndistance = "dot"', "dimensions is missing: give the length"),
        ('id = "a"\nmodel = "hashing"', "dimensions is missing"),
        ('id = "a"\ndimensions = 3\ndistance = "dot"\nquery_prefix = "q"', "query_prefix is for a model"),
        ('id = "a"\nmodel = "/no/folder"', "nor a folder, nor a name on the hub"),
    ],
)
def test_a_space_that_cannot_be_understood_is_refused_by_name(shell: Shell, space: str, said: str) -> None:
    shell.config.write_text(f'[[spaces]]\n{space}\n[collections.docs]\nspaces = ["a"]\n')
    status, _, err = shell.ingest()
    assert status == 2
    assert said in err


def test_the_examples_of_the_page_are_valid_and_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    known, declared, large, prefixed = map(parse_settings, examples)
    assert declared.collection("docs").spaces == (DEFAULT_SPACE.id, "multilingual")
    assert known.declared_spaces[0].languages == ("en", "de")
    assert large.declared_spaces[0].model == prefixed.declared_spaces[0].model
    assert prefixed.declared_spaces[0].query_prefix == "query: "
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    spaces = [aidre.EmbeddingSpace(name, 64, "cosine", model="hashing") for name in ("one", "two")]
    monkeypatch.chdir(tmp_path)
    with aidre.open("store") as db:
        db.collection("docs", space=spaces).add([{"id": "b", "text": "Ein Loch im Reifen."}, "Tee", "Brot"])
    exec(compile(example, "docs/languages.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [f"{one.id} first: 1 among ten: 1 of 1" for one in spaces]
