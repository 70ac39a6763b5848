"""The load test: steps against a real server, and when it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.serve.load_test import main, stops
from tests.support.clients import TEXT, a_document, fill
from tests.support.servers import served

GOOD = {"answers": 1_000, "errors": 0, "p99_ms": 20.0, "late_p99_ms": 0.1}


@pytest.mark.process
@pytest.mark.slow
def test_each_step_is_reported_until_one_is_too_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "store", "notes", [a_document("a", "alpha beta"), a_document("b", "gamma")], (TEXT,))
    questions = tmp_path / "questions.txt"
    questions.write_text("alpha\ngamma\n", "utf-8")
    words = ["--questions", str(questions), "--seconds", "0.2", "--connections", "4", "--late-ms", "60000"]
    with served(tmp_path / "store") as (server, _):
        port = ["--port", str(server.port)]
        assert main([*words, *port, "--rates", "20", "30", "--p99-ms", "60000"]) == 0
        steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(step["asked_rate"], step["answers"], step["errors"]) for step in steps] == [(20, 4, 0), (30, 6, 0)]
        assert main([*words, *port, "--rates", "20", "30", "--p99-ms", "0"]) == 1
        output = capsys.readouterr()
        assert len(output.out.splitlines()) == 1 and "percentile" in output.err


def test_a_step_is_the_last_where_it_is_slow_or_wrong_or_the_generator_is_late() -> None:
    assert stops(GOOD, 200.0, 5.0, 0.001) is None
    assert "errors" in str(stops({**GOOD, "errors": 2}, 200.0, 5.0, 0.001))
    assert "percentile" in str(stops({**GOOD, "p99_ms": 201.0}, 200.0, 5.0, 0.001))
    assert "generator" in str(stops({**GOOD, "late_p99_ms": 6.0}, 200.0, 5.0, 0.001))


def test_a_file_without_questions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("\n\n", "utf-8")
    assert main(["--port", "1", "--questions", str(questions)]) == 2
    assert "has no question" in capsys.readouterr().err
