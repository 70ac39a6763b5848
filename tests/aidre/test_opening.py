"""A store that is opened with the configuration of its server answers as that server does."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

import aidre

CONFIG = """
[collections.notes]
fusion = {a = 0.0, c = 20.0}
return_text = false

[collections.silent]
lexical = false
"""
"""Of `notes` only words count; what it withholds from callers is not withheld from a program."""
ROWS = [{"id": "tea", "text": "Tea is brewed with hot water."}, {"id": "rain", "text": "Rain is water from clouds."}]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "aidre.toml").write_text(CONFIG)
    for name in ("notes", "silent"):
        aidre.open(tmp_path / "store").collection(name).add(ROWS)
    return tmp_path


def test_a_collection_is_searched_as_the_configuration_says(place: Path) -> None:
    plain, configured = aidre.open(place / "store"), aidre.open(place / "store", config=place / "aidre.toml")
    scores = [
        {hit.document_id: hit.score for hit in db.collection("notes").search("brewed")} for db in (plain, configured)
    ]
    # Without a weight of vectors a chunk without the word is nothing.
    assert scores[1]["rain"] == 0.0 < scores[0]["rain"], (
        "without a weight of vectors, a chunk without the word is nothing"
    )
    assert plain.collection("silent").search("brewed").mode == "hybrid"
    assert configured.collection("silent").search("brewed").mode == "dense"
    with pytest.raises(aidre.Unsupported, match=r"collections\.silent\.lexical is false"):
        configured.collection("silent").search("brewed", mode="lexical")
    with pytest.raises(aidre.Unsupported):
        configured.collection("silent").at(generation=1).search("brewed", mode="lexical")


def test_what_callers_are_not_shown_a_program_is(place: Path) -> None:
    notes = aidre.open(place / "store", config=place / "aidre.toml").collection("notes")
    hits = notes.search("brewde", correct=True, highlight=True)
    assert (hits.corrected, hits[0].text) == ("brewed", ROWS[0]["text"])
    assert hits.highlights[0].text


def test_an_asynchronous_program_opens_it_alike_and_another_process_too(place: Path) -> None:
    async def modes() -> list[str | None]:
        async with aidre.open_async(place / "store", config=place / "aidre.toml") as db:
            return [(await db.collection(name).search("brewed")).mode for name in ("notes", "silent")]

    assert asyncio.run(modes()) == ["hybrid", "dense"]
    sent = pickle.loads(pickle.dumps(aidre.open(place / "store", config=place / "aidre.toml").collection("silent")))
    assert sent.search("brewed").mode == "dense"


@pytest.mark.parametrize(("text", "said"), [("[collections.notes]\nfusion = 1", "fusion"), ("[nope]", "nope")])
def test_a_wrong_configuration_is_named(place: Path, text: str, said: str) -> None:
    (place / "aidre.toml").write_text(text)
    with pytest.raises(aidre.ConfigurationError, match=said):
        aidre.open(place / "store", config=place / "aidre.toml")


def test_without_its_file_nothing_is_opened(place: Path) -> None:
    with pytest.raises(aidre.ConfigurationError):
        aidre.open(place / "store", config=place / "none.toml")
    with pytest.raises(aidre.InvalidInput, match="config="):
        aidre.open(place / "store", config=3)  # type: ignore[arg-type]
