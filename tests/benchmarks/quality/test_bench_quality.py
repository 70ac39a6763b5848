"""The benchmark of retrieval quality: its rankings and their parts, what it keeps, and its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.model import Fusion, Query
from benchmarks.harness.judged_sets import Topic, read_set
from benchmarks.quality import bench_quality, rankings
from benchmarks.quality.bench_feedback import tuned
from benchmarks.quality.bench_quality import figures, ingested, measure
from benchmarks.quality.rankings import DOCUMENTS, MODES, Outcome, Parts, Result, anew, outcome, ranking
from tests.benchmarks.judged_sets import judged
from tests.support.ingests import WORDS, CountingEmbedder

NO_FEEDBACK = (0.0, 1.0, 1)


def test_documents_are_fetched_however_many_chunks_the_best_ones_have(tmp_path: Path) -> None:
    """Two documents of hundreds of chunks each must not crowd out the others."""
    paragraph = "The red fox ran over the hill and saw another red fox that ran as well. "
    rows = [{"id": f"long{number}", "text": "\n\n".join([paragraph * 12] * 300)} for number in range(2)]
    rows += [{"id": f"short{number:03}", "text": f"A fox of kind {number}."} for number in range(150)]
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    embedder = HashingEmbedder(WORDS)
    snapshot = ingested(Store(tmp_path / "store"), "c", source, embedder)
    (vector,) = embedder.embed_queries(["red fox"])
    for mode in MODES:
        documents, hits = ranking(snapshot, Query(vector, embedder.space.id, text="red fox", mode=mode))
        assert len(documents) == DOCUMENTS == len(set(documents))
        assert len(hits) > 2 * DOCUMENTS


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds = ["fox", "hen", "owl", "cat", "dog", "bee", "ant"]
    texts = [f"{kind} " * 40 + "\n\n" + f"one {kind} more " * 90 for kind in kinds]
    corpus = [
        json.dumps({"id": f"{kind}s", "title": kind.upper(), "text": text})
        for kind, text in zip(kinds, texts, strict=True)
    ]
    queries = [json.dumps({"id": kind, "text": f"more {kind}"}) for kind in kinds]
    folder = tmp_path_factory.mktemp("sets") / "Animals & Co"
    return judged(folder, corpus, queries, [f"{kind}\t{kind}s\t1" for kind in kinds])


def test_what_is_kept_ranks_as_the_search_did(animals: Path, tmp_path: Path) -> None:
    data, embedder = read_set(animals), HashingEmbedder(WORDS)
    with tuned(NO_FEEDBACK):
        result = measure(data, embedder, Fusion(0.4, 3.0), tmp_path / "kept", raw=tmp_path / "raw")
    (path,) = (tmp_path / "raw").iterdir()
    again = rankings.read(path, Fusion(0.4, 3.0))
    assert (again.name, again.chunks) == (result.name, result.chunks)
    assert again.outcomes == {mode: result.outcomes[mode] for mode in MODES}
    assert set(result.outcomes) == {*MODES, bench_quality.BY_RANKS}


def test_the_parts_of_a_score_make_up_the_score(animals: Path, tmp_path: Path) -> None:
    data, embedder, fusion = read_set(animals), HashingEmbedder(WORDS), Fusion(0.3, 2.0)
    snapshot = ingested(Store(tmp_path), "c", data.corpus, embedder)
    parts = Parts(snapshot, embedder.space.id)
    for topic in data.topics:
        (vector,) = embedder.embed_queries([topic.text])
        for mode in MODES:
            query = Query(vector, embedder.space.id, text=topic.text, mode=mode, fusion=fusion)
            with tuned(NO_FEEDBACK):
                documents, hits = ranking(snapshot, query)
            candidates = parts.candidates(topic.text, vector, hits)
            scores = [rankings.score(each, mode, fusion) for each in candidates]
            assert scores == pytest.approx([hit.score for hit in hits], abs=2e-3)
            assert sorted(anew(candidates, mode, fusion)) == sorted(documents)


def test_whole_documents_are_one_chunk_each_and_embedded_once(animals: Path, tmp_path: Path) -> None:
    data = read_set(animals)

    embedder = CountingEmbedder(WORDS)
    chunked = measure(data, embedder, Fusion(), tmp_path)
    assert chunked.chunks > chunked.documents == data.documents
    for _ in range(2):
        whole = measure(data, embedder, Fusion(), tmp_path, whole=True)
        assert whole.chunks == whole.documents == data.documents
    longest = max(len(text) for text in embedder.texts)
    assert sum(len(text) == longest for text in embedder.texts) == data.documents


def test_a_kept_store_is_used_again(animals: Path, tmp_path: Path) -> None:
    data, embedder = read_set(animals), HashingEmbedder(WORDS)
    first = measure(data, embedder, Fusion(), tmp_path)
    generation = Store(tmp_path / "store").open(first.name).generation
    assert measure(data, embedder, Fusion(), tmp_path) == first
    assert Store(tmp_path / "store").open(first.name).generation == generation
    assert first.name == "animals-co"


def test_the_figures_are_means_over_sets_and_not_over_queries(capsys: pytest.CaptureFixture[str]) -> None:
    perfect, useless = Outcome(1.0, 1.0), Outcome(0.0, 0.5)
    results = [
        Result("med", 10, 20, dict.fromkeys(MODES, perfect)),
        Result("cisi", 1000, 2000, dict.fromkeys(MODES, useless)),
        Result("med.whole", 10, 10, dict.fromkeys(MODES, useless)),
    ]
    written = figures(results, Fusion())
    assert written["hybrid_mean_nDCG@10"] == 0.5
    assert written["hybrid_mean_recall@100"] == 0.75
    assert written["hybrid_mean_nDCG@10_of_whole_documents"] == 0.0
    bench_quality.show(results)
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table[1:]] == ["med", "cisi", "mean", "med.whole", "mean"]
    assert table[3].split()[-1] == f"{(0.801 + 0.450) / 2:.4f}"


def test_an_outcome_is_a_mean_over_queries() -> None:
    topics = [Topic("1", "", {"a": 1.0}), Topic("2", "", {"b": 1.0})]
    assert outcome([["a"], ["x"]], topics) == Outcome(0.5, 0.5)


def test_a_path_without_sets_ends_the_benchmark_in_one_line(tmp_path: Path) -> None:
    for arguments in ([str(tmp_path)], ["--again", str(tmp_path)]):
        with pytest.raises(SystemExit, match=r"^bench_quality: .* holds no") as ended:
            bench_quality.main(arguments)
        assert "\n" not in str(ended.value)
