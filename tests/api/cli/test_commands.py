"""The commands that bring documents in and find them: ingest and search."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from tests.support.clients import serving
from tests.support.shell import CONFIGURATION, TEXTS, Shell, one_line

# -- ingest ------------------------------------------------------------------------------------------------


def test_ingest_reports_commits_and_a_summary(shell: Shell) -> None:
    status, events, err = shell.ingest()
    assert (status, err) == (0, "")
    assert [event["event"] for event in events] == ["commit", "done"]
    assert events[0] == {"event": "commit", "generation": 1, "documents": 3, "chunks": 3}
    assert events[1].pop("seconds") > 0
    assert events[1] == {
        "event": "done",
        "documents": 3,
        "chunks": 3,
        "embedded": 3,
        "updated": 3,
        "unchanged": 0,
        "deleted": 0,
        "failed": 0,
        "skipped": 0,
    }


def test_ingest_commits_every_n_documents(shell: Shell) -> None:
    _, events, _ = shell.ingest(shell.source, "--commit-every", "1")
    commits = [event for event in events if event["event"] == "commit"]
    assert [commit["documents"] for commit in commits] == [1, 2, 3]


def test_a_second_ingest_changes_nothing(filled: Shell) -> None:
    before = Store(filled.store).current("docs")
    status, [done], _ = filled.ingest()
    assert status == 0
    assert (done["event"], done["unchanged"], done["updated"], done["embedded"]) == ("done", 3, 0, 0)
    assert Store(filled.store).current("docs") == before


def test_a_second_ingest_without_the_configuration_of_the_first_changes_nothing(filled: Shell) -> None:
    [done] = filled.json("ingest", filled.source, "--collection", "docs")
    assert (done["unchanged"], done["updated"], done["embedded"]) == (3, 0, 0)


def test_a_bad_row_is_named_and_the_others_are_stored(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good"}\n{"id": "b", \n{"id": "c", "text": "better"}\n', encoding="utf-8")
    status, events, err = shell.ingest(rows)
    assert status == 1
    assert "rows.jsonl:2" in err
    assert (events[-1]["updated"], events[-1]["failed"]) == (2, 1)
    assert Store(shell.store).open("docs").documents == 2


def test_a_dry_run_writes_nothing(shell: Shell) -> None:
    status, events, _ = shell.ingest(shell.source, "--dry-run")
    assert status == 0
    assert (events[-1]["event"], events[-1]["documents"]) == ("done", 3)
    assert not shell.store.exists() or Store(shell.store).collections() == []


def test_mirror_deletes_what_the_source_no_longer_has(filled: Shell) -> None:
    (filled.source / "rain.md").unlink()
    assert filled.ingest()[1][-1]["deleted"] == 0
    assert filled.ingest(filled.source, "--mirror")[1][-1]["deleted"] == 1
    (filled.source / "tea.md").unlink()
    (filled.source / "bread.md").unlink()
    (filled.source / "soup.md").write_text("# Soup\n", encoding="utf-8")
    status, _, err = filled.ingest(filled.source, "--mirror")
    assert status == 1
    assert "--force" in err
    assert filled.ingest(filled.source, "--mirror", "--force")[1][-1]["deleted"] == 2


def test_rows_bring_vectors_for_a_space_without_a_model(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    status, _, err = shell.ingest(rows, collection="both")
    assert status == 0, err
    [collection] = shell.json("status")
    assert [space["id"] for space in collection["spaces"]] == ["words", "given"]


def test_an_existing_collection_keeps_its_spaces_without_a_configuration_of_them(shell: Shell) -> None:
    rows = shell.source.parent / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "good", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    shell.ingest(rows, collection="both")
    rows.write_text('{"id": "a", "text": "better", "vectors": {"given": [1, 2]}}\n', encoding="utf-8")
    words = ("ingest", rows, "--store", shell.store, "--collection", "both")
    status, _, err = shell.run(*words)
    assert status == 0, err
    assert [space["id"] for space in shell.json("status")[0]["spaces"]] == ["words", "given"]


def test_ingest_speaks_to_people_without_json(shell: Shell) -> None:
    words = ("ingest", shell.source, "--store", shell.store, "--collection", "docs", "--config", shell.config)
    status, out, err = shell.run(*words)
    assert status == 0, err
    assert "3 documents" in out
    assert "\x1b" not in out + err


# -- search ------------------------------------------------------------------------------------------------


def test_search_prints_one_hit_a_line(filled: Shell) -> None:
    hits = filled.json("search", "tea steeped in water", "-k", "2")
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert hits[0]["id"] == "texts/tea.md#chunk_1"
    assert hits[0]["score"] >= hits[1]["score"]
    assert TEXTS["tea"] in hits[0]["text"]
    assert hits[0]["source"]["title"] == "Tea"
    assert hits[0]["metadata"]["content_hash"].startswith("sha256:")


def test_search_shows_people_title_score_and_text(filled: Shell) -> None:
    status, out, _ = filled.run("search", "rain jacket", "--store", filled.store)
    assert status == 0
    first, *rest = out.splitlines()
    assert first.split()[0] == "1"
    assert first.endswith("Rain")
    assert any("taped seams" in line for line in rest)


def test_search_takes_a_filter(filled: Shell) -> None:
    hits = filled.json("search", "tea", "--filter", '{"document_id": "texts/bread.md"}')
    assert [hit["document_id"] for hit in hits] == ["texts/bread.md"]


@pytest.mark.parametrize("filter", ["{", "[]", '{"and": 1}', "[" * 100_000])
def test_a_wrong_filter_is_one_line_and_2(filled: Shell, filter: str) -> None:
    status, _, err = filled.run("search", "tea", "--store", filled.store, "--filter", filter)
    assert status == 2
    assert one_line(err)


def test_the_collection_must_be_named_where_there_are_several(filled: Shell) -> None:
    filled.ingest(collection="more")
    status, _, err = filled.run("search", "tea", "--store", filled.store)
    assert status == 2
    assert "docs" in err
    assert "more" in err
    assert filled.json("search", "tea", "--collection", "more")


def test_search_answers_as_a_server_with_the_configuration_would(filled: Shell) -> None:
    def found(more: str) -> list[Any]:
        filled.config.write_text(CONFIGURATION + more, encoding="utf-8")
        options = ("--collection", "docs", "--config", filled.config)
        return [(hit["id"], hit["score"]) for hit in filled.json("search", "tea that rises overnight", *options)]

    plain, fused = found(""), found("[collections.docs.fusion]\na = 0.9\nc = 2.0\n")
    assert plain == [(hit["id"], hit["score"]) for hit in filled.json("search", "tea that rises overnight")]
    assert plain != fused
    with serving(filled.store, parse_settings(filled.config.read_text(encoding="utf-8"))) as client:
        answer = client.search({"collection": "docs", "query": "tea that rises overnight"}).json()
    assert [(hit["id"], hit["score"]) for hit in answer["results"]] == [
        (id, pytest.approx(score, rel=1e-6)) for id, score in fused
    ]


def test_search_takes_the_default_collection_of_the_configuration(filled: Shell) -> None:
    filled.ingest(collection="more")
    for name, found in [("more", 0), ("gone", 2)]:
        filled.config.write_text(f'{CONFIGURATION}[server]\ndefault_collection = "{name}"\n', encoding="utf-8")
        words = ("search", "tea", "--store", filled.store, "--config", filled.config)
        assert filled.run(*words)[0] == found
    assert filled.run("search", "tea", "--store", filled.store, "--config", filled.store / "none.toml")[0] == 2


@pytest.mark.parametrize("words", [["--collection", "dcos"], ["--mode", "dens"]])
def test_an_unknown_name_is_one_line_and_2(filled: Shell, words: list[str]) -> None:
    status, _, err = filled.run("search", "tea", "--store", filled.store, *words)
    assert status == 2
    assert one_line(err)
    assert words[1] in err


def test_a_blank_query_is_refused(filled: Shell) -> None:
    assert filled.run("search", "  ", "--store", filled.store)[0] == 2


def test_vectors_of_another_revision_of_the_model_are_not_searched(
    filled: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.engine.embedding.hashing.REVISION", "another")
    status, _, err = filled.run("search", "tea", "--store", filled.store, "--mode", "dense")
    assert status == 2
    assert one_line(err)
    assert "revision" in err
    status, out, err = filled.run("search", "tea", "--store", filled.store)  # by its words, and it says so
    assert status == 0
    assert "lexical search only" in err
    assert "revision" in err
    assert out
