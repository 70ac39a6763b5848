"""The benchmark of relevance: the collections that it makes, the questions that it asks, and its rates."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.retrieve import Question, State, answer, run
from benchmarks.harness.judged_sets import Topic
from benchmarks.quality import samples
from benchmarks.quality.bench_relevance import (
    FEWEST,
    MIXED,
    WHOLE,
    WORDS_ALONE,
    Asked,
    Asking,
    Outcomes,
    Rate,
    Subject,
    Vectors,
    coded,
    demo_questions,
    foreign_questions,
    is_answered,
    is_stored,
    own_questions,
    prefixed,
    summary,
    tables,
)
from benchmarks.quality.samples import Stored

NO_VECTORS = Vectors()


def _stored(id: str, *texts: str, title: str | None = None) -> Stored:
    rows = np.random.default_rng(len(id)).standard_normal((len(texts), DEFAULT_SPACE.dimensions)).astype(np.float32)
    return Stored(id, title, texts, rows / np.linalg.norm(rows, axis=1, keepdims=True))


BIRDS = Subject(
    "birds",
    {
        "1": _stored("1", "The heron waits in shallow water for fish.", title="Herons"),
        "2": _stored("2", "Swallows build nests of mud.", "They leave for Africa in September.", title="Swallows"),
        "3": _stored("3", "Owls hunt at night and hear mice under snow.", title="Owls"),
    },
    [Topic("a", "what does a heron eat", {"1": 1.0}), Topic("b", "when do swallows leave", {"2": 1.0})],
)
BREAD = Subject(
    "bread",
    {"1": _stored("1", "Sourdough rises slowly in a cold kitchen.", title="Sourdough")},
    [Topic("c", "how long does sourdough rise", {"1": 1.0}), Topic("d", "oven temperature for a crust", {"1": 1.0})],
)


# -- rates -------------------------------------------------------------------------------------------------------------


def _add(outcomes: Outcomes, name: str, answers: dict[bool, list[bool]], kind: str = "questions") -> None:
    for is_own, found in answers.items():
        for answered in found:
            outcomes.add("hybrid", WHOLE, Asked(kind, "?", is_own), name, answered=answered)


def test_a_rate_has_the_foreign_questions_that_are_answered_and_the_own_ones_that_are_not() -> None:
    outcomes = Outcomes()
    _add(outcomes, "a", {False: [True, False, False, False] * 2, True: [True, True, True, False, False] * 2})
    assert outcomes.rate("hybrid", WHOLE, "questions", "a") == pytest.approx(Rate(0.25, 0.4))
    assert outcomes.rate("hybrid", WHOLE, "titles", "a") == Rate(None, None)
    _add(outcomes, "a", {False: [True] * (FEWEST - 1)}, kind="words")
    assert outcomes.rate("hybrid", WHOLE, "words", "a") == Rate(None, None)


def test_a_mean_counts_each_collection_once_and_leaves_out_what_it_is_told_to() -> None:
    outcomes = Outcomes()
    _add(outcomes, "a", {False: [True] * 20, True: [True] * 8})
    _add(outcomes, "b", {False: [False] * 60})
    assert outcomes.mean("hybrid", [WHOLE], "questions") == Rate(0.5, 0.0)
    assert outcomes.mean("hybrid", [WHOLE], "questions", frozenset({"a"})) == Rate(0.0, None)


def test_the_summary_has_a_row_for_each_kind_and_size_and_for_the_demo() -> None:
    outcomes = Outcomes()
    for mode in ("hybrid", "dense", "lexical", "vectors alone", WORDS_ALONE):
        for _ in range(FEWEST):
            outcomes.add(mode, 20, Asked("titles", "?", False), "a", answered=True)
            outcomes.add(mode, MIXED, Asked("codes", "?", True), "mixed", answered=False)
            outcomes.add(mode, MIXED, Asked("codes", "?", False), "mixed", answered=False)
    demo = {"ellery": {"hybrid answered": "1 of 20", "hybrid lost": "0 of 40", "lexical answered": "3 of 20"}}
    demo["ellery"]["lexical lost"] = "2 of 40"
    half = {"xquad_ar": {"hybrid answered": "3.0%", "hybrid lost": "1.0%", "lexical answered": "9.0%"}}
    half["xquad_ar"]["lexical lost"] = "2.0%"
    written = list(summary({**tables(outcomes), "demo": demo, "halves_of_sets,_default_model": half}))
    assert "| titles, 20 chunks | 100.0% / - | 100.0% / - | 100.0% / - |" in written
    assert "| codes, 100,000 chunks | 0.0% / 100.0% | 0.0% / 100.0% | 0.0% / 100.0% |" in written
    assert "| demo, ellery | 1 of 20 / 0 of 40 | | 3 of 20 / 2 of 40 |" in written
    assert "| xquad_ar | 3.0% / 1.0% | 9.0% / 2.0% |" in written


# -- collections -------------------------------------------------------------------------------------------------------


def test_a_written_collection_has_the_chunks_titles_and_vectors_that_were_read(tmp_path: Path) -> None:
    snapshot = samples.write(tmp_path / "both", BIRDS.documents.values(), DEFAULT_SPACE)
    found = samples.read(snapshot, DEFAULT_SPACE.id)
    assert {id: (one.title, one.texts) for id, one in found.items()} == {
        id: (one.title, one.texts) for id, one in BIRDS.documents.items()
    }
    for id, one in BIRDS.documents.items():
        assert np.allclose(found[id].vectors, one.vectors, atol=1e-3)
    alone = samples.write(tmp_path / "words", BIRDS.documents.values(), None)
    assert alone.chunks == snapshot.chunks == 4 and not alone.collection.spaces


def test_a_sample_has_about_so_many_chunks_and_every_second_document_has_a_question() -> None:
    documents = [_stored(str(number), "a", "b") for number in range(50)]
    chosen = samples.choose(documents, {str(number) for number in range(25)}, 20, random.Random(1))
    assert sum(len(one.texts) for one in chosen) == 20
    assert sum(int(one.id) < 25 for one in chosen) == 5
    everything = samples.choose(documents, {"0"}, 1000, random.Random(1))
    assert {one.id for one in everything} == {one.id for one in documents} and len(everything) == 50


def test_copies_have_ids_of_their_own_and_vectors_near_to_those_of_their_originals() -> None:
    documents = list(BIRDS.documents.values())
    found = samples.repeat(documents, 40, seed=7)
    assert sum(len(one.texts) for one in found) >= 40 and found[:3] == documents
    assert len({one.id for one in found}) == len(found)
    copy = next(one for one in found if one.id.startswith("1/"))
    cosine = float(copy.vectors[0] @ documents[0].vectors[0] / np.linalg.norm(copy.vectors[0]))
    assert 0.9 < cosine < 0.999


# -- questions ---------------------------------------------------------------------------------------------------------


def test_own_questions_are_about_stored_documents_and_their_words_stand_in_them() -> None:
    asked = list(own_questions([BIRDS.documents["1"], BIRDS.documents["3"]], [BIRDS], random.Random(1)))
    assert {each.text for each in asked if each.kind == "titles"} == {"Herons", "Owls"}
    assert [each.text for each in asked if each.kind == "questions"] == ["what does a heron eat"]
    assert [each.text for each in asked if each.kind == "words"] == ["heron"]  # no chunk has "eat"
    assert all(each.is_own for each in asked)


def test_foreign_titles_are_none_of_the_collection() -> None:
    same = [_stored("x", "A starter of flour and water.", title="Sourdough")]
    asked = list(foreign_questions(same, [BREAD, BIRDS], 2, random.Random(1)))
    assert {each.text for each in asked if each.kind == "titles"} <= {"Herons", "Swallows", "Owls"}
    assert {each.text for each in asked if each.kind == "questions"} == {
        topic.text for one in (BREAD, BIRDS) for topic in one.topics
    }
    assert not any(each.is_own for each in asked)


def test_questions_of_a_mixed_collection_are_answered_by_documents_of_their_own_set() -> None:
    mixed = [*prefixed(BIRDS).documents.values(), *prefixed(BREAD).documents.values()]
    asked = [
        each.text for each in own_questions(mixed, [prefixed(BREAD)], random.Random(1)) if each.kind == "questions"
    ]
    assert sorted(asked) == sorted(topic.text for topic in BREAD.topics)
    assert not list(own_questions(mixed, [BREAD], random.Random(1)))[len({one.title for one in mixed}) :]


def test_a_word_is_looked_for_in_every_form(tmp_path: Path) -> None:
    snapshot = samples.write(tmp_path, BIRDS.documents.values(), None)
    assert is_stored(snapshot, "heron") and is_stored(snapshot, "Swallow")
    assert not is_stored(snapshot, "sourdough")


@pytest.mark.slow
def test_own_codes_stand_in_a_chunk_and_foreign_ones_in_none() -> None:
    changed, asked = coded(list(BIRDS.documents.values()), Vectors(load_embedder(DEFAULT_SPACE)), random.Random(4))
    text = " ".join(one.text for one in changed)
    bare = [each for each in asked if " " not in each.text]
    assert sorted(each.is_own for each in bare) == [False] * 3 + [True] * 3
    assert all((each.text in text) == each.is_own for each in bare)
    assert len(asked) == 12


@pytest.mark.slow
def test_sets_that_are_held_out_ask_the_collection_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import benchmarks.quality.bench_relevance as bench

    monkeypatch.setattr(bench, "MIXED", 12)
    monkeypatch.setattr(bench, "HELD_OUT", frozenset({"bread"}))
    asking = Asking([BIRDS, BREAD], Vectors(load_embedder(DEFAULT_SPACE)), 2)
    asking.of_mixed()
    found = asking.outcomes.counts["hybrid", 12, "questions", "mixed"]
    assert [len(found[is_own]) for is_own in (False, True)] == [2, 2]
    monkeypatch.setattr(bench, "HELD_OUT", frozenset())
    without = Asking([BIRDS, BREAD], Vectors(), 2)
    without.of_mixed()
    assert not without.outcomes.counts


def test_the_demo_is_asked_twenty_foreign_questions_and_forty_own_ones_of_each_collection() -> None:
    asked = demo_questions()
    assert len(set(asked.foreign)) == 20
    assert {name: len(set(own)) for name, own in asked.own.items()} == {"ellery": 40, "docs": 40}
    assert {"zzzz nothing qqq", "recipes from planet Mars", "capital of Mongolia"} <= set(asked.foreign)


# -- asking ------------------------------------------------------------------------------------------------------------


def test_a_question_is_answered_where_one_of_its_hits_is_relevant(tmp_path: Path) -> None:
    snapshot = samples.write(tmp_path, BIRDS.documents.values(), None)
    assert is_answered(snapshot, "the heron waits for fish", NO_VECTORS)
    foreign = "the mortgage waits for approval of the bank manager"
    assert run(answer(Question(3, foreign), State(snapshot)), NO_VECTORS).hits
    assert not is_answered(snapshot, foreign, NO_VECTORS)


@pytest.mark.slow
def test_a_set_is_asked_in_every_mode_but_not_the_questions_of_near_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    import benchmarks.quality.bench_relevance as bench

    monkeypatch.setattr(bench, "SIZES", {2: 1})
    vectors = Vectors(load_embedder(DEFAULT_SPACE))
    asking = Asking([BIRDS, BREAD], vectors, 2)
    asking.of_set(BIRDS)
    outcomes = asking.outcomes
    assert {key[0] for key in outcomes.counts} == {"hybrid", "dense", "lexical", "vectors alone", WORDS_ALONE}
    assert {key[1] for key in outcomes.counts} == {2, WHOLE}
    lexical = outcomes.counts["lexical", WHOLE, "questions", "birds"]
    assert [len(lexical[is_own]) for is_own in (False, True)] == [2, 2]
    monkeypatch.setattr(bench, "NEAR", frozenset({frozenset({"birds", "bread"})}))
    alone = Asking([BIRDS, BREAD], vectors, 2)
    alone.of_set(BIRDS)
    assert not alone.outcomes.counts["lexical", WHOLE, "questions", "birds"][False]
