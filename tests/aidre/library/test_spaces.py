"""Spaces that an endpoint embeds, named by a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aidre
from tests.support.embeddings import KEY, EmbeddingsApi, embedding

SPACE = aidre.EmbeddingSpace("mine", 64, "cosine", model="words-1")


@pytest.fixture
def api() -> Iterator[EmbeddingsApi]:
    with embedding() as api:
        yield api


def test_an_endpoint_embeds_documents_and_questions(db: aidre.Database, api: EmbeddingsApi) -> None:
    docs = db.collection("docs", space=SPACE, endpoint=api.url)
    docs.add([{"id": "a", "text": "lentil soup"}, {"id": "b", "text": "bread"}])
    assert docs.search("lentil soup", mode="dense", k=1)[0].document_id == "a"
    assert api.texts == ["lentil soup", "bread", "lentil soup"]
    assert api.keys == [None] * len(api.keys)
    again = db.collection("docs", endpoint=aidre.Endpoint(api.url))
    again.add({"id": "c", "text": "tea"})
    assert again.search("tea", mode="dense", k=1)[0].document_id == "c"


def test_the_key_is_sent_and_never_stored(db: aidre.Database, api: EmbeddingsApi) -> None:
    api.key = KEY
    docs = db.collection("docs", space=SPACE, endpoint=aidre.Endpoint(api.url, key=KEY))
    docs.add("a text")
    assert api.keys == [f"Bearer {KEY}"]
    kept = b"".join(path.read_bytes() for path in db.path.rglob("*") if path.is_file())
    assert KEY.encode() not in kept
    assert api.url.encode() not in kept
    assert KEY not in repr(docs)


@pytest.mark.needs("lexical")
def test_without_its_endpoint_a_space_says_how_to_pass_it_and_texts_are_searched_by_words(
    db: aidre.Database, api: EmbeddingsApi, caplog: pytest.LogCaptureFixture
) -> None:
    db.collection("docs", space=SPACE, endpoint=api.url).add("a text")
    other = db.collection("docs")
    for verb in (lambda: other.search("a text", mode="dense"), lambda: other.add("more")):
        with pytest.raises(aidre.ModelUnavailable, match="a program passes endpoint=") as caught:
            verb()
        assert caught.value.code == "model_unavailable"
    with caplog.at_level("WARNING", logger="aidre"):
        for _ in range(2):
            found = other.search("a text")
            assert (found.mode, found.space, len(found)) == ("lexical", None, 1)
    [said] = [record.message for record in caplog.records]
    assert said.startswith("docs is searched without a model: ") and "a program passes endpoint=" in said
    assert other.search(vector=np.ones(64))


def test_an_endpoint_that_fails_stores_nothing(db: aidre.Database, api: EmbeddingsApi) -> None:
    api.key = KEY
    docs = db.collection("docs", space=SPACE, endpoint=api.url)
    with pytest.raises(aidre.ModelUnavailable, match="wants a key"):
        docs.add("a text")
    assert len(docs) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endpoint": "api.example.com/v1", "space": SPACE}, "such as"),
        ({"endpoint": "ftp://example.com", "space": SPACE}, "such as"),
        ({"endpoint": "http://[", "space": SPACE}, "such as"),
        ({"endpoint": aidre.Endpoint(""), "space": SPACE}, "such as"),
        ({"endpoint": 7, "space": SPACE}, "not int"),
        ({"endpoint": "http://127.0.0.1", "space": [SPACE, SPACE]}, "one space"),
        ({"endpoint": "http://127.0.0.1", "space": aidre.EmbeddingSpace("mine", 2, "cosine")}, "name of a model"),
        ({"endpoint": "http://127.0.0.1", "space": SPACE, "embed": len}, "pass one of them"),
        ({"embed": 7, "space": aidre.EmbeddingSpace("mine", 2, "cosine")}, "a function"),
    ],
)
def test_a_misuse_is_told_at_once(db: aidre.Database, options: dict[str, Any], words: str) -> None:
    with pytest.raises(aidre.InvalidInput, match=words):
        db.collection("docs", **options)


@pytest.mark.parametrize("options", [{"endpoint": "http://127.0.0.1/v1"}, {"embed": len}])
def test_what_would_fill_no_space_is_refused_by_the_first_write(db: aidre.Database, options: dict[str, Any]) -> None:
    with pytest.raises(aidre.InvalidInput, match="name that by space="):
        db.collection("docs", **options).add("a text")
