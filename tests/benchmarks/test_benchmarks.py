"""Every benchmark runs, in its smallest form: no peer, few rows, nothing asserted about time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.api.cli import conformance
from aidre.api.cli.main import run
from aidre.engine.embedding.embedder import load_embedder
from aidre.engine.errors import ConfigurationError
from benchmarks import __main__ as runner
from benchmarks.ingest import bench_documents, bench_ingest, bench_memory, bench_write
from benchmarks.peers import bench_backends, bench_library, bench_peers
from benchmarks.quality import bench_calibration
from benchmarks.report import pages
from benchmarks.search import bench_cost, bench_filter, bench_index, bench_search, bench_stages
from benchmarks.serve import bench_trust
from benchmarks.text import bench_embed, bench_text
from tests import ROOT
from tests.benchmarks.judged_sets import judged
from tests.support.clients import TEXT

ELSEWHERE = {
    "codes", "collections", "extraction", "feedback", "footprint", "group", "languages", "page", "quality", "relevance",
    "typos", "wording", "words",
}  # fmt: skip
"""Have tests of their own."""

SERVERS = {"ask", "distributed", "http", "intent", "replicas"}
"""Start servers, or a cluster, over embedded text, or wait for a slow bucket, which takes a minute: not run here."""

PASSAGE = "a passage that tells how commits merge segments while readers follow the newest generation of a collection"


def test_scan_against_exact(results: Path) -> None:
    small = ["--rows", "1200", "--commits", "4", "--queries", "8", "--batch", "4", "--synthetic"]
    assert bench_search.main(small) == 0
    told = json.loads((results / "bench_search.json").read_bytes())
    assert told["searches"].keys() == told["batches_of_4"].keys() == {"ind", "ood"}
    assert all(of_kind["recall_at_10"] > 0.9 for of_kind in told["searches"].values())


def test_filters(results: Path) -> None:
    assert bench_filter.main(["--rows", "1500", "--queries", "3", "--synthetic"]) == 0
    told = json.loads((results / "bench_filter.json").read_bytes())["1,500 rows"]
    assert len(told) == len(bench_filter.GROUPS) * len(bench_filter.SELECTIVITIES) * 2
    assert {of_case["recall"] for of_case in told.values()} == {1}


def test_engines_side_by_side(results: Path) -> None:
    assert bench_backends.main(["--rows", "600", "--queries", "3", "--synthetic"]) == 0
    told = json.loads((results / "bench_backends.json").read_bytes())
    for case, fewest in (("ind, no filter", 10), ("ood, 1%", 6)):
        for of_engine in told[case].values():
            assert (of_engine["recall"], of_engine["fewest"]) == (1, fewest)


@pytest.mark.slow
def test_the_cost_model_is_fitted(results: Path) -> None:
    assert bench_cost.main(["--rows", "1200", "--dimensions", "64", "--rounds", "2"]) == 0
    assert json.loads((results / "bench_cost.json").read_bytes())["exact"]


@pytest.mark.slow
def test_text_queries(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [" ".join(f"{word}{number % 7}" for word in PASSAGE.split()) for number in range(40)]
    monkeypatch.setattr(bench_text, "texts", lambda corpus: said)
    monkeypatch.setattr(bench_text, "PASSAGES", 12)
    monkeypatch.setattr(bench_text, "WARM_UP", 2)
    assert bench_text.main(["--rows", "60", "--queries", "4"]) == 0
    assert json.loads((results / "bench_text.json").read_bytes())["chunks"] == 60


def test_embedding(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashing = load_embedder(TEXT)  # a model takes seconds to load
    monkeypatch.setattr(bench_embed, "load_embedder", lambda *_, **__: hashing)
    monkeypatch.setattr(bench_embed, "reference", lambda: bench_embed.ours(hashing))
    assert bench_embed.main(["--passages", "4", "--queries", "2", "--rounds", "1"]) == 0
    assert json.loads((results / "bench_embed.json").read_bytes())["mean_cosine_to_reference"] == pytest.approx(1)


def embed_documents(*_: object) -> None:
    raise AssertionError("embedded once more")


@pytest.mark.slow
def test_promised_against_found(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashing = load_embedder(TEXT)
    monkeypatch.setattr(bench_calibration, "load_embedder", lambda *_, **__: hashing)
    monkeypatch.setattr(bench_calibration, "bench_cache", lambda: tmp_path)
    monkeypatch.setattr(bench_calibration, "MIN_DOCUMENTS", 20)
    monkeypatch.setattr(bench_calibration, "DIMENSIONS", 8)
    for name, documents in (("large", 30), ("small", 5)):
        texts = [
            " ".join(f"{word}{(number * 7 + place) % 11}" for place, word in enumerate(PASSAGE.split()))
            for number in range(documents)
        ]
        corpus = [json.dumps({"id": str(number), "title": name, "text": text}) for number, text in enumerate(texts)]
        judged(tmp_path / name, corpus, corpus[:4], ["0\t0\t1"])
    found: list[dict[str, Any]] = []
    for _ in range(2):  # the second time nothing is embedded
        assert bench_calibration.main([str(tmp_path), "--sizes", "25", "60", "--queries", "3"]) == 0
        found.append(json.loads((results / "bench_calibration.json").read_bytes()))
        monkeypatch.setattr(type(hashing), "embed_documents", embed_documents)
    assert found[0]["sets"].keys() == {"large"}
    assert found[0]["mixtures"].keys() == found[0]["latent semantic vectors"].keys() == {"25 rows", "60 rows"}
    cases = [case for kind in ("sets", "mixtures", "latent semantic vectors") for case in found[1][kind].values()]
    assert [case["rows"] for case in cases] == [30, 25, 60, 25, 60]
    assert {(case["method"], case["promised"], case["own"], case["others"]) for case in cases} == {("exact", 1, 1, 1)}


@pytest.mark.slow
def test_growth_with_rows_and_segments(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_index, "QUERIES", 4)
    monkeypatch.setattr(bench_index, "SEGMENTS", (3,))
    monkeypatch.setattr(bench_index, "DELETED", (0.3,))
    groups = ["sizes", "segments", "deleted", "distances"]
    small = ["--rows", "100", "--sizes", "60", "200", "--turns", "1", "--synthetic"]
    assert bench_index.main(["--groups", *groups, *small]) == 0
    raw = {path.stem: json.loads(path.read_bytes())["cases"] for path in (results / "raw").iterdir()}
    assert raw.keys() == {"index_sizes", "index_segments", "index_deleted", "index_distances"}
    assert {case["label"]: case["segments"] for case in raw["index_segments"]} == {"3": 3}
    cases = [case for each in raw.values() for case in each]
    assert all(sum(case["found"]) >= 0.9 * len(case["found"]) * case["possible"] for case in cases)


@pytest.mark.process
def test_the_contest_with_another_release_and_a_peer_that_is_missing(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers.environments.folder", lambda environment: results / environment)
    for name, few in (("FILTER_TURNS", 1), ("FILTER_QUERIES", 3), ("PROBES", 3), ("BATCH", 4)):
        monkeypatch.setattr(bench_peers, name, few)
    small = ["--rows", "300", "--turns", "1", "--queries", "3", "--synthetic", "--peers", "faiss Flat"]
    assert bench_peers.main([*small, "--previous", sys.executable]) == 0
    raw = json.loads((results / "raw" / "peers_300.json").read_bytes())
    assert "not installed" in raw["contenders"]["faiss Flat"]["problem"]
    recalls = {(kind, setting) for kind in ("ind", "ood") for setting in (900, 950, 990)}
    assert {(run["kind"], run["setting"]) for run in raw["runs"] if run["contender"] == "aidre"} == recalls
    assert {(one["kind"], one["setting"]) for one in raw["batches"] if one["contender"] == "aidre"} == recalls
    assert all(run["found"] == [10, 10, 10] and run["anchors"].keys() == {"0.9", "0.95", "0.99"} for run in raw["runs"])
    assert raw["contenders"]["aidre previous"]["version"] == raw["contenders"]["aidre"]["version"]
    assert {(run["kind"], run["share"]) for run in raw["filtered"] if run["contender"] == "aidre previous"} == {
        (kind, share) for kind in ("ind", "ood") for share in (0.5, 0.1)
    }


@pytest.mark.process
@pytest.mark.slow
def test_stages(tmp_path: Path) -> None:
    written = tmp_path / "stages.json"
    code = "import sys; from benchmarks.search import bench_stages; from pathlib import Path; "
    code += f"sys.exit(bench_stages.run(Path({str(written)!r}), 0.001))"
    environment = {**os.environ, bench_stages.ROWS_OF: "400", bench_stages.SYNTHETIC: "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)  # beside other workers pytest-benchmark measures nothing
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = bench_stages.stages(json.loads(written.read_bytes()))
    assert {"read", "parse", "encode", "search", "render", "search hybrid"} <= found.keys()
    assert found["search"]["over_the_search"] == 1.0


@pytest.mark.process
@pytest.mark.slow
def test_ingest(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_ingest, "first_answer", lambda *_: 0.1)  # servers are started by the tests of serving
    monkeypatch.setattr(bench_ingest, "memory", lambda *_: 1024)
    monkeypatch.setattr(bench_ingest, "imports", lambda: 0.1)
    assert (
        bench_ingest.main(
            ["--rows", "300", "--dimensions", "16", "--texts", "0", "--commits", "3", "--folder", str(tmp_path)]
        )
        == 0
    )
    assert json.loads((results / "bench_ingest.json").read_bytes())["rows"] == 300


@pytest.mark.slow
def test_library(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    monkeypatch.setattr(bench_library, "material", lambda *_: (rows, rows[:8]))
    assert bench_library.main(["--rows", "400", "--queries", "8", "--rounds", "1", "--only", "aidre"]) == 0
    found = json.loads((results / "bench_library.json").read_bytes())["programs"]["aidre"]
    assert found["recall"] == found["filtered_recall"] == 1.0
    assert 5 <= found["lines"] <= 30


@pytest.mark.slow
def test_write(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in (("STORED", 50), ("VARIANTS", 2), ("COMMITS", 5)):
        monkeypatch.setattr(bench_write, name, small)
    assert bench_write.main(["--rounds", "1", "--seconds", "0.4"]) == 0
    figures = json.loads((results / "bench_write.json").read_bytes())
    assert figures["errors"] == 0
    assert figures["documents_per_second"] > 0
    assert figures["commits"] > 0


@pytest.mark.slow
def test_trust(results: Path) -> None:
    assert bench_trust.main(["--rounds", "1", "--guess-rounds", "1"]) == 0
    figures = json.loads((results / "bench_trust.json").read_bytes())
    assert all(figures[name] > 0 for name in ("ed25519_us", "budget_us"))
    assert figures.keys() >= {"frame_us", "guard_us", "log_us", "signature_us"}
    assert 0 <= figures["guesses_right"] <= bench_trust.GUESSES
    assert figures["own_guesses_right"] <= bench_trust.GUESSES


@pytest.mark.slow
def test_faults_of_documents(tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "soup.md").write_text("# Soup {#soup}\n\nA soup of lentils.\n", encoding="utf-8")
    (tmp_path / "notes" / "bread.md").write_text("A bread of rye, which took a whole day.\n", encoding="utf-8")
    assert bench_documents.main(["--folders", str(tmp_path / "notes"), "--places", "1"]) == 0
    found = json.loads((results / "bench_documents.json").read_bytes())["notes"]
    assert (found["documents"], found["chunks"], found["anchors"], found["stems"]) == (2, 2, 0, 1)
    shown = capsys.readouterr().out
    assert "notes, stems: bread.md: 'bread'" in shown and "| notes | 2 | 2 | 0.0 |" in shown


def test_the_memory_of_a_compaction(results: Path, tmp_path: Path) -> None:
    assert bench_memory.main(["--rows", "2000", "--of", "compact", "--folder", str(tmp_path)]) == 0
    figures = json.loads((results / "bench_memory.json").read_bytes())[bench_memory.PEAKS]["2,000 rows"]
    assert 0 < figures["compact"]["anonymous_mb"] <= figures["compact"]["both_mb"]


def test_a_size_replaces_its_own_memory_alone(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter(range(1, 9))
    monkeypatch.setattr(bench_memory, "measure", lambda *_: {"anonymous_mb": next(peaks)})
    assert bench_memory.main(["--rows", "10000", "2000", "--of", "writer"]) == 0
    assert bench_memory.main(["--rows", "2000", "--of", "ingest"]) == 0
    assert bench_memory.main(["--rows", "10000", "--of", "writer"]) == 0
    pages.write(pages.read(results), tmp_path)
    [section] = [
        text for title, text in pages.sections((tmp_path / "REPORT.md").read_text()).items() if "memory" in title
    ]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "rows" in line]
    assert rows == ["| 2,000 rows, writer | 2 |", "| 2,000 rows, ingest | 3 |", "| 10,000 rows, writer | 4 |"]
    assert bench_memory.main(["--rows", "7", "--of", "writer", "--dimensions", "3"]) == 0
    assert list(json.loads((results / "bench_memory.json").read_bytes())[bench_memory.PEAKS]) == ["7 rows"]


def test_no_benchmark_is_left_out() -> None:
    tried = {name.removeprefix("bench_") for name in globals() if name.startswith("bench_")}
    assert len(tried) >= 10
    assert runner.names().keys() == tried | ELSEWHERE | SERVERS


# -- real text ------------------------------------------------------------------------------------------------


# -- the programs around them -----------------------------------------------------------------------------------


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["nothing"]) == 2
    assert "no benchmark is named 'nothing'" in capsys.readouterr().err
    assert runner.main(["list"]) == 0
    assert "stages" in capsys.readouterr().out


def test_without_a_checkout_the_command_says_where_the_benchmarks_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="run `make bench` in a clone"):
        conformance.run_benchmarks(["list"], tmp_path)


@pytest.mark.process
def test_the_command_runs_the_benchmarks_of_the_checkout(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "list"]) == 0
    assert "stages" in capfd.readouterr().out
    assert run(["bench", "nothing", "--rows", "10"]) == 2  # an option is the benchmark's, not the command's
    assert "no benchmark is named 'nothing'" in capfd.readouterr().err
