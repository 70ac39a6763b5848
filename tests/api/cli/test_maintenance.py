"""The work of status, delete, compact and of the generations that are kept, `api/cli/maintenance.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from tests.support.publishers import printed
from tests.support.shell import Shell, one_line


def test_status_tells_what_can_never_be_served(publisher: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, config = publisher / "store", publisher / "aidre.toml"
    _, lines, _ = printed(capsys, "status", "--store", store, "--config", config, "--json")
    warnings = {one["collection"]: one["warnings"] for one in map(json.loads, lines)}
    assert len(warnings["news"]) == 2
    assert warnings["vault"] == warnings["open"] == []
    _, lines, _ = printed(capsys, "status", "--store", store, "--config", config)
    assert any("too few chunks to be served by Agentic Intent" in line for line in lines)
    _, lines, _ = printed(capsys, "status", "--store", store, "--json")
    assert [one["warnings"] for one in map(json.loads, lines)] == [[], [], []]


def test_status_tells_counts_spaces_and_size(read_only: Shell) -> None:
    [collection] = read_only.json("status")
    assert collection["collection"] == "docs"
    assert (collection["generation"], collection["documents"], collection["chunks"]) == (1, 3, 3)
    assert collection["spaces"][0]["id"] == "words"
    assert collection["disk_bytes"] > 1000
    status, out, _ = read_only.run("status", "--store", read_only.store)
    assert status == 0
    assert "3 documents" in out
    assert "exact" in out


def test_status_shows_the_collections_that_are_sound(filled: Shell) -> None:
    filled.ingest(collection="more")
    for file in (filled.store / "docs" / "segments").glob("*/chunks.arrow"):
        file.chmod(0o600)
        file.write_bytes(b"")
    status, out, err = filled.run("status", "--store", filled.store, "--json")
    assert status == 1
    assert [json.loads(line)["collection"] for line in out.splitlines()] == ["more"]
    assert one_line(err)
    assert "docs/segments/" in err
    assert filled.run("search", "tea", "--store", filled.store, "--collection", "docs")[0] == 1


def test_delete_removes_documents_and_passes_over_unknown_ones(filled: Shell) -> None:
    [answer] = filled.json("delete", "texts/tea.md", "texts/gone.md")
    assert answer["deleted"] == 1
    assert {hit["document_id"] for hit in filled.json("search", "tea")} == {"texts/rain.md", "texts/bread.md"}


def test_delete_removes_what_passes_a_filter(filled: Shell) -> None:
    [answer] = filled.json("delete", "--filter", '{"id": {"nin": ["texts/tea.md", "texts/rain.md"]}}')
    assert answer["deleted"] == 1
    assert {hit["document_id"] for hit in filled.json("search", "tea")} == {"texts/tea.md", "texts/rain.md"}
    [answer] = filled.json("delete", "--filter", '{"id": "texts/tea.md", "kin": {"ne": 1}}', "--allow-unknown")
    assert answer["deleted"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--filter", '{"kin": {"ne": "draft"}}'], "no document has filter.kin"),
        (["--filter", '{"text": {"ne": "a"}}', "--allow-unknown"], "mode lexical"),
        (["--filter", "{kin"], "--filter is not JSON"),
        (["--filter", '{"id": "a"}', "texts/tea.md"], "not by both"),
        ([], "by their ids or by --filter"),
    ],
)
def test_delete_refuses_in_one_line_and_removes_nothing(read_only: Shell, words: list[str], said: str) -> None:
    status, _, err = read_only.run("delete", *words, "--store", read_only.store)
    assert status == 2
    assert one_line(err)
    assert said in err
    assert read_only.json("status")[0]["documents"] == 3


def test_purge_leaves_no_byte_of_a_deleted_document(filled: Shell) -> None:
    def held() -> bool:
        return any(b"taped seams" in path.read_bytes() for path in filled.store.rglob("*") if path.is_file())

    filled.json("delete", "texts/rain.md")
    assert held()
    [answer] = filled.json("delete", "texts/rain.md", "--purge")
    assert answer["deleted"] == 0
    assert not held()
    assert filled.json("status")[0]["documents"] == 2
    assert filled.json("verify")[0]["ok"]


def test_compact_makes_one_segment(ingested: Shell) -> None:
    (ingested.source / "soup.md").write_text("# Soup\n\nLentil soup.\n", encoding="utf-8")
    ingested.ingest()
    assert ingested.json("status")[0]["segments"] == 2
    [answer] = ingested.json("compact")
    assert (answer["collection"], answer["documents"]) == ("docs", 4)
    assert (answer["segments_before"], answer["segments"]) == (2, 1)
    assert ingested.json("status")[0]["segments"] == 1


def generation(shell: Shell) -> int:
    return Store(shell.store).current("docs")


def test_how_many_generations_are_kept_is_said_once_and_holds_for_every_command(changed: Shell, tmp_path: Path) -> None:
    before = generation(changed)
    listed = changed.json("generations", "--keep", "5")
    assert [old["generation"] for old in listed[:2]] == [before + 1, before]
    assert generation(changed) == before + 1
    changed.json("rollback", "1")
    changed.json("compact")
    assert Store(changed.store).open("docs").manifest.keep == 5
    configuration = tmp_path / "aidre.toml"
    configuration.write_text("[collections.docs]\ngenerations = 7\n")
    assert changed.ingest(changed.source, "--config", str(configuration), "--dry-run")[0] == 0
    assert Store(changed.store).open("docs").manifest.keep == 5
    assert changed.ingest(changed.source, "--config", str(configuration))[0] == 0
    assert Store(changed.store).open("docs").manifest.keep == 7
    after = generation(changed)
    assert changed.ingest(changed.source, "--config", str(configuration))[0] == 0
    assert generation(changed) == after, "it is said once"
    status, _, err = changed.run("generations", "--keep", "1", "--store", changed.store)
    assert status == 2
    assert one_line(err)
    assert "from 2 to 10,000" in err


@pytest.mark.slow
def test_a_new_collection_keeps_what_its_configuration_says(shell: Shell, tmp_path: Path) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text("[collections.docs]\ngenerations = 3\n")
    assert shell.ingest(shell.source, "--config", str(configuration))[0] == 0
    assert Store(shell.store).open("docs").manifest.keep == 3
    configuration.write_text("[collections.docs]\ngenerations = 1\n")
    status, _, err = shell.ingest(shell.source, "--config", str(configuration))
    assert status == 2
    assert "collections.docs.generations must be from 2 to 10,000, not 1" in err
