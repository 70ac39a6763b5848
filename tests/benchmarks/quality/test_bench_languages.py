"""The benchmark of languages: what it asks, in which space, and its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.embedding.graph import HashingEmbedder
from benchmarks.harness.judged_sets import read_set
from benchmarks.quality.bench_languages import Mixed, Scores, _mixed_row, _row, measure, merged
from tests.benchmarks.judged_sets import judged
from tests.support.ingests import WORDS

ENGLISH = ["the cat sleeps in the warm house", "a dog runs through the green wood", "the bird sings on its branch"]
GERMAN = ["die Katze schläft in dem warmen Haus", "der Hund rennt durch den Wald", "ein Vogel singt auf dem Ast"]


def _set(folder: Path, texts: list[str]) -> Path:
    corpus = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
    queries = [json.dumps({"id": f"q{number}", "text": text}) for number, text in enumerate(texts)]
    return judged(folder, corpus, queries, [f"q{number}\t{number}\t1" for number in range(len(texts))])


def test_questions_of_a_common_collection_are_asked_in_the_space_of_their_language(tmp_path: Path) -> None:
    sets = [read_set(_set(tmp_path / name, texts)) for name, texts in (("en", ENGLISH), ("de", GERMAN))]
    english = HashingEmbedder(replace(WORDS, id="one", languages=("en",)))
    other = HashingEmbedder(replace(WORDS, id="other", model="hashing", languages=None))
    found = measure(tmp_path, sets, [english, other])
    assert list(found) == [
        "default_model,_nDCG@10",
        "hashing_model,_nDCG@10",
        "both_models_in_one_collection,_nDCG@10",
    ]
    for rows in found.values():
        assert list(rows) == ["en", "de"]
    for name, row in found["both_models_in_one_collection,_nDCG@10"].items():
        assert (row["right_space"], row["together"], row["in_any_language"]) == ("100.0%", "1.000", "1.000"), name


def test_what_hybrid_search_has_over_the_better_side_may_be_less(tmp_path: Path) -> None:
    assert _row(Scores(0.5, 0.75, 0.7))["over_better"] == "-0.050"
    assert _row(Scores(0.5, 0.75, 0.8))["over_better"] == "+0.050"
    assert _mixed_row(WORDS, 0.9, Mixed(0.5, 0.8, 0.85)) == {
        "model": WORDS.model,
        "right_space": "50.0%",
        "apart": "0.900",
        "together": "0.800",
        "difference": "-0.100",
        "in_any_language": "0.850",
    }


def test_ids_of_a_common_collection_begin_with_their_set(tmp_path: Path) -> None:
    sets = [read_set(_set(tmp_path / name, texts)) for name, texts in (("en", ENGLISH), ("de", GERMAN))]
    rows = [json.loads(line) for line in merged(tmp_path / "all.jsonl", sets).read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["en/0", "en/1", "en/2", "de/0", "de/1", "de/2"]
    with pytest.raises(ValueError, match="holds no set"):
        from benchmarks.quality.bench_languages import main

        main([str(tmp_path / "nothing")])
