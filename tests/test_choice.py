"""Which tests `make check FILE=` runs: those that can tell what is wrong with the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import ROOT, __main__ as choice

CASES: Sequence[tuple[str, Sequence[str]]] = [
    ("engine/search/cost.py", ["engine/search/test_cost.py", "engine/search/test_cost_estimate.py"]),
    ("engine/search/bm25.py", ["engine/search/test_bm25.py", "engine/search/test_bm25_bounds.py"]),
    (
        "aidre/library/collection.py",
        [
            f"aidre/library/test_collection{aspect}.py"
            for aspect in (
                "",
                "_filters",
                "_groups",
                "_listing",
                "_operators",
                "_order",
                "_patch",
                "_pickle",
                "_shown",
                "_upkeep",
            )
        ],
    ),
    ("aidre/library/arguments.py", ["aidre/library"]),
    (
        "packages/client/aidre_client/messages.py",
        [f"../packages/client/tests/test_{name}.py" for name in ("client_changes", "verification")],
    ),
    ("packages/conformance/aidre_conformance/checks/search.py", ["../packages/conformance/tests"]),
    ("packages/conformance/aidre_conformance/report.py", ["../packages/conformance/tests/test_report.py"]),
    ("aidre/__init__.py", ["test_architecture.py", "aidre/library"]),
    ("aidre/__main__.py", ["engine/test_checkout.py"]),
    ("engine/address.py", ["engine/test_address.py"]),
    ("packages/milvus/aidre_milvus/catalog.py", ["../packages/milvus/tests/test_catalog.py"]),
    ("packages/postgres/aidre_postgres/writer.py", ["../packages/postgres/tests/test_postgres.py"]),
    ("packages/postgres/aidre_postgres/sql_filters.py", ["../packages/postgres/tests"]),
    ("packages/rows/aidre_rows/sink.py", ["backends"]),
    ("packages/milvus/aidre_milvus/__init__.pyi", ["test_architecture.py", "../packages/milvus/tests"]),
    ("packages/milvus/pyproject.toml", ["test_packages.py"]),
    ("packages/milvus/README.md", ["test_docs.py"]),
    ("engine/native/search.c", ["engine/native"]),
    ("engine/search/__init__.pyi", ["test_architecture.py", "engine/search"]),
    ("tests/engine/search/test_hybrid.py", ["engine/search/test_hybrid.py"]),
    ("examples/README.md", ["examples/test_examples.py", "test_docs.py"]),
    ("docs/guide.md", ["test_docs.py"]),
    ("integrations/langchain/README.md", ["test_docs.py"]),
    (".ci/programs", ["test_not_proved.py"]),
]


@pytest.mark.parametrize(("file", "tests"), CASES, ids=[file for file, _ in CASES])
def test_a_file_has_its_tests(file: str, tests: Sequence[str]) -> None:
    assert [os.path.relpath(path, ROOT / "tests") for path in choice.tests_of(Path(file))] == tests


def test_a_module_without_tests_in_its_room_is_tested_by_the_room_and_by_those_that_import_it() -> None:
    chosen = choice.tests_of(Path("api/protocols/nlweb/stream.py"))
    assert chosen[-1] == ROOT / "tests" / "api" / "protocols" / "nlweb"
    assert ROOT / "tests" / "conformance" / "nlweb" / "test_stream.py" in chosen


def test_an_example_is_tested_by_its_own_commands() -> None:
    chosen = choice.tests_of(Path("examples/agent/agent.py"))
    assert [path.name.partition("::")[2] for path in chosen] == [f"{choice.COMMANDS}[agent]", choice.LISTED]


@pytest.mark.process
def test_the_tests_of_an_example_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert choice.main(["examples/agent/agent.py", "--collect-only", "-q", "-pno:cacheprovider"]) == 0
    assert f"{choice.COMMANDS}[agent]" in capsys.readouterr().out


def test_a_file_behind_a_link_is_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def run(files: Sequence[Path], options: Sequence[str]) -> int:
        asked.extend(files)
        return 0

    monkeypatch.setattr(choice, "run_ours", run)
    assert choice.main(["aidre/engine/search/hybrid.py", "-x"]) == 0
    assert asked == [Path("engine/search/hybrid.py")]


def test_an_adapter_without_its_environment_is_not_said_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(choice, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(choice, "run_ours", lambda files, options: pytest.fail("its own tests alone can tell"))
    assert choice.main(["integrations/langchain/langchain_aidre/retrievers.py"]) == 1
    assert "`make integrations INTEGRATIONS=langchain` makes it" in capsys.readouterr().err


def test_an_adapter_is_tested_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "langchain" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\npwd > {tmp_path}/said\necho "$@" >> {tmp_path}/said\nexit 3\n', "utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(choice, "ENVIRONMENTS", tmp_path)
    assert choice.main(["integrations/langchain/pyproject.toml", "-x"]) == 3
    said = (tmp_path / "said").read_text("utf-8").splitlines()
    assert said == [str(ROOT / "integrations" / "langchain"), "-m pytest -x"]


def test_a_file_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert choice.main(["engine/no_such.py"]) == 2
    assert "no such file: engine/no_such.py" in capsys.readouterr().err
