"""The benchmark of typing errors: the errors that it makes, and its figures."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.embedding.hashing import HashingEmbedder
from aidre.engine.index.text.words import is_one_edit
from benchmarks.bench_quality import ingested
from benchmarks.bench_typos import Outcome, figures, measure_all, misspell, regained, show
from benchmarks.quality import read_set
from tests.support.clients import TEXT
from tests.support.judged_sets import judged


def test_a_third_of_the_words_get_one_wrong_letter() -> None:
    text = "Where are nine wombats near the rivers RUNX1 of_all and AB12 countries"
    for seed in range(200):
        typed = misspell(text, random.Random(seed))
        pairs = list(zip(re.split(r"\s", text), re.split(r"\s", typed), strict=True))
        changed = [(word, wrong) for word, wrong in pairs if word != wrong]
        assert len(changed) == 2
        assert all(is_one_edit(word.lower(), wrong.lower()) for word, wrong in changed)
        assert misspell(text, random.Random(seed)) == typed
    assert misspell("a b 12", random.Random(1)) == "a b 12"


def test_what_is_regained_is_a_share_of_what_was_lost() -> None:
    outcomes = [Outcome(1.0, 0.5, 1.0, 1.0, False, 80.0), Outcome(1.0, 0.5, 0.5, 0.75, True, 40.0)]
    assert (regained(outcomes, "answered"), regained(outcomes, "taken")) == (0.5, 0.75)
    assert regained([Outcome(1.0, 1.0, 1.0, 1.0, False, 1.0)], "taken") == 0.0
    shown = figures({"one": outcomes})
    assert (shown["regained_without_asking"], shown["clean_queries_changed"], shown["queries"]) == (0.5, 1, 2)
    assert shown["median_microseconds"] == 60.0


def test_queries_are_asked_clean_misspelled_and_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ["wombats", "kiwis", "wallabies", "marsupials"]
    corpus = [f'{{"id": "{kind}", "title": "", "text": "{kind} live here"}}' for kind in kinds]
    queries = [f'{{"id": "{kind}", "text": "{kind}"}}' for kind in kinds]
    folder = judged(tmp_path / "animals", corpus, queries, [f"{kind}\t{kind}\t1" for kind in kinds])
    data = read_set(folder)
    ingested(Store(tmp_path / "store"), "animals", data.corpus, HashingEmbedder(TEXT))
    results = asyncio.run(measure_all(tmp_path / "store", [data], 3, 1))
    assert [one.clean for one in results["animals"]] == [1.0, 1.0, 1.0]
    assert all(one.taken == 1.0 and not one.is_changed for one in results["animals"])
    show(results)
    assert "animals" in capsys.readouterr().out
