"""The benchmark of typing errors: the errors that it makes, and its figures."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.index.text.words import is_one_edit
from benchmarks.harness.judged_sets import read_set
from benchmarks.quality.bench_quality import ingested
from benchmarks.quality.bench_typos import (
    KINDS,
    Measured,
    Outcome,
    figures,
    joined,
    measure_all,
    misspell,
    one_letter,
    regained,
    show,
    split,
    two_letters,
)
from tests.benchmarks.judged_sets import judged
from tests.support.clients import TEXT


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


def test_every_kind_of_error_changes_one_place() -> None:
    text = "Where are nine wombats near the rivers RUNX1 of_all and AB12 countries"
    words = text.split()
    for seed in range(200):
        [(word, wrong)] = _changes(words, one_letter(text, random.Random(seed)))
        assert is_one_edit(word.lower(), wrong.lower())
        [(word, wrong)] = _changes(words, two_letters(text, random.Random(seed)))
        assert word in {"wombats", "countries"} and not is_one_edit(word, wrong)
        halves = split(text, random.Random(seed))
        assert halves.replace(" ", "") == text.replace(" ", "") and len(halves.split()) == len(words) + 1
        assert {"RUNX1", "of_all", "AB12"} < {*halves.split()} and min(map(len, halves.split())) > 1
        together = joined(text, random.Random(seed))
        assert together.replace(" ", "") == text.replace(" ", "") and len(together.split()) == len(words) - 1
        assert {"RUNX1", "of_all", "AB12"} < {*together.split()}
    assert all(spoil("a b 12", random.Random(1)) == "a b 12" for spoil in KINDS.values())


def _changes(words: list[str], typed: str) -> list[tuple[str, str]]:
    return [(word, wrong) for word, wrong in zip(words, typed.split(), strict=True) if word != wrong]


def test_what_is_regained_is_a_share_of_what_was_lost() -> None:
    outcomes = [Outcome(1.0, 0.5, 1.0, 1.0, 80.0), Outcome(1.0, 0.5, 0.5, 0.75, 40.0)]
    assert (regained(outcomes, "answered"), regained(outcomes, "taken")) == (0.5, 0.75)
    assert regained([Outcome(1.0, 1.0, 1.0, 1.0, 1.0)], "taken") == 0.0
    clean = [Outcome(1.0, 1.0, 1.0, 1.0, 10.0)] * 4
    one = Measured({kind: outcomes if kind == "split" else [] for kind in KINDS}, clean, 1)
    other = Measured({kind: outcomes[1:] if kind == "split" else [] for kind in KINDS}, clean, 0)
    shown = figures({1: {"a": one}, 2: {"a": other}})
    assert (shown["clean_queries"], shown["clean_queries_changed"]) == (8, "1 (12.5%)")
    row = shown["kinds_of_errors"]["split"]
    assert (row["queries"], row["regained_unasked"], row["by_seed"]) == (3, "33%", "50%, 75%; 0%, 50%")
    assert row["median_µs"] == 40
    assert shown["regained_by_set,_unasked_and_taken"]["a"] == {
        kind: "33%, 67%" if kind == "split" else "-" for kind in KINDS
    }


def test_queries_are_asked_clean_misspelled_and_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ["wombats", "kiwis", "wallabies", "marsupials"]
    corpus = [f'{{"id": "{kind}", "title": "", "text": "{kind} live here"}}' for kind in kinds]
    queries = [f'{{"id": "{kind}", "text": "{kind}"}}' for kind in kinds]
    folder = judged(tmp_path / "animals", corpus, queries, [f"{kind}\t{kind}\t1" for kind in kinds])
    data = read_set(folder)
    ingested(Store(tmp_path / "store"), "animals", data.corpus, HashingEmbedder(TEXT))
    results = asyncio.run(measure_all(tmp_path / "store", [data], 3, 1))
    found = results["animals"]
    assert [one.clean for one in found.clean] == [1.0, 1.0, 1.0] and found.changed == 0
    for kind in ("one letter", "split"):
        assert found.outcomes[kind] and all(one.taken == 1.0 for one in found.outcomes[kind])
    assert found.outcomes["joined"] == []
    show(figures({1: results}))
    assert "two letters" in capsys.readouterr().out
