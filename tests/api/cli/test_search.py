"""`aidre search`, and what it does without a server, `api/cli/search.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aidre.api.config.settings import parse_settings
from tests.support.clients import serving
from tests.support.shell import CONFIGURATION, TEXTS, Shell, one_line


def test_search_prints_one_hit_a_line(read_only: Shell) -> None:
    hits = read_only.json("search", "tea steeped in water", "-k", "2")
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert hits[0]["id"] == "texts/tea.md#chunk_1"
    assert hits[0]["score"] >= hits[1]["score"]
    assert TEXTS["tea"] in hits[0]["text"]
    assert hits[0]["source"]["title"] == "Tea"
    assert hits[0]["metadata"]["content_hash"].startswith("sha256:")


def test_search_shows_people_title_score_and_text(read_only: Shell) -> None:
    status, out, _ = read_only.run("search", "rain jacket", "--store", read_only.store)
    assert status == 0
    first, *rest = out.splitlines()
    assert first.split()[0] == "1"
    assert first.endswith("Rain")
    assert any("taped seams" in line for line in rest)


def test_search_takes_a_filter(read_only: Shell) -> None:
    hits = read_only.json("search", "tea", "--filter", '{"document_id": "texts/bread.md"}')
    assert [hit["document_id"] for hit in hits] == ["texts/bread.md"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--filter", '{"type": "Nothing"}'], "nothing found among the documents that match the filter"),
        (["--mode", "lexical"], "nothing found"),
    ],
    ids=["filter", "words"],
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "programs"])
def test_a_search_that_finds_nothing_says_so(read_only: Shell, form: list[str], more: list[str], said: str) -> None:
    status, out, err = read_only.run("search", "xyzzyplugh", "--store", read_only.store, *more, *form)
    assert (status, out) == (0, "")
    assert err == f"aidre: {said}\n"


@pytest.mark.parametrize("filter", ["{", "[]", '{"and": 1}', "[" * 100_000])
def test_a_wrong_filter_is_one_line_and_2(read_only: Shell, filter: str) -> None:
    status, _, err = read_only.run("search", "tea", "--store", read_only.store, "--filter", filter)
    assert status == 2
    assert one_line(err)


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


def test_search_by_an_alias_takes_its_own_section_and_else_that_of_its_collection(filled: Shell) -> None:
    assert filled.run("alias", "current", "docs", "--store", filled.store)[0] == 0

    def found(name: str, more: str) -> list[Any]:
        filled.config.write_text(CONFIGURATION + more, encoding="utf-8")
        options = ("--collection", name, "--config", filled.config)
        return [(hit["id"], hit["score"]) for hit in filled.json("search", "tea that rises overnight", *options)]

    own, of_alias = "[collections.docs.fusion]\na = 0.9\nc = 2.0\n", "[collections.current.fusion]\na = 0.2\nc = 1.0\n"
    plain, fused = found("docs", ""), found("docs", own)
    assert found("current", own) == fused
    assert found("current", own + of_alias) == found("docs", of_alias.replace("current", "docs"))
    assert found("docs", own + of_alias) == fused != plain


def test_search_takes_the_default_collection_of_the_configuration(filled: Shell) -> None:
    def searched(default: str) -> int:
        filled.config.write_text(f'{CONFIGURATION}[server]\ndefault_collection = "{default}"\n', encoding="utf-8")
        return filled.run("search", "tea", "--store", filled.store, "--config", filled.config)[0]

    assert searched("gone") == 0, "the only one that there is"
    filled.ingest(collection="more")
    assert (searched("more"), searched("gone")) == (0, 2)
    assert filled.run("search", "tea", "--store", filled.store, "--config", filled.store / "none.toml")[0] == 2


@pytest.mark.parametrize("words", [["--collection", "dcos"], ["--mode", "dens"]])
def test_an_unknown_name_is_one_line_and_2(read_only: Shell, words: list[str]) -> None:
    status, _, err = read_only.run("search", "tea", "--store", read_only.store, *words)
    assert status == 2
    assert one_line(err)
    assert words[1] in err


@pytest.mark.parametrize("recall", ["0.9", "1", "0.97"])
def test_a_recall_may_be_asked_for(read_only: Shell, recall: str) -> None:
    hits = read_only.json("search", "tea steeped in water", "--recall", recall)
    assert hits == read_only.json("search", "tea steeped in water")


@pytest.mark.parametrize("recall", ["0", "1.5", "nan", "much"])
def test_another_recall_is_one_line_and_2(read_only: Shell, recall: str) -> None:
    status, _, err = read_only.run("search", "tea", "--store", read_only.store, "--recall", recall)
    assert status == 2
    assert one_line(err)
    assert "recall" in err


def test_a_filter_on_a_field_that_no_document_has_is_answered_and_said(read_only: Shell) -> None:
    words: list[str | Path] = ["search", "tea", "--store", read_only.store, "--filter"]
    status, out, err = read_only.run(*words, '{"kin": {"ne": 1}, "id": {"ne": "texts/rain.md"}}')
    assert (status, "no document has kin" in err, one_line(err)) == (0, True, True)
    assert "tea.md" in out
    assert "rain.md" not in out
    status, _, err = read_only.run(*words, '{"text": "tea"}')
    assert (status, "mode lexical" in err, one_line(err)) == (2, True, True)


def test_a_hit_is_a_document_unless_chunks_are_asked_for(filled: Shell, tmp_path: Path) -> None:
    parts = "\n\n".join(f"# Part {part}\n\nThe heron waits by pond {part}. " + "reed " * 150 for part in range(4))
    folder = tmp_path / "herons"
    folder.mkdir()
    (folder / "long.md").write_text(parts, encoding="utf-8")
    filled.run("ingest", folder, "--store", filled.store, "--collection", "docs")
    hits = filled.json("search", "the heron waits by the pond")
    assert len({hit["document_id"] for hit in hits}) == len(hits)
    assert {one["id"].partition("#")[0] for one in hits[0]["passages"]} == {"herons/long.md"}
    status, out, _ = filled.run("search", "the heron waits by the pond", "-k", "1", "--store", filled.store)
    assert (status, "also: Part" in out) == (0, True)
    chunks = filled.json("search", "the heron waits by the pond", "--group", "chunk", "-k", "3")
    assert [hit["document_id"] for hit in chunks] == ["herons/long.md"] * 3
    assert not any("passages" in hit for hit in chunks)
    status, _, err = filled.run("search", "heron", "--store", filled.store, "--group", "page")
    assert (status, one_line(err), "--group" in err, "'document', 'chunk'" in err) == (2, True, True, True)


def test_near_copies_are_told_and_shown_where_that_is_asked_for(filled: Shell, tmp_path: Path) -> None:
    text = "The heron waits. " + " ".join(f"reed{number}" for number in range(100))
    folder = tmp_path / "herons"
    folder.mkdir()
    for number in range(4):
        (folder / f"copy{number}.txt").write_text(f"{text} Edition {number}.", encoding="utf-8")
    filled.run("ingest", folder, "--store", filled.store, "--collection", "docs")
    best, *rest = filled.json("search", "the heron waits")
    names = {one.partition("#")[0] for one in best["copies"]["ids"]} | {best["document_id"]}
    assert (best["copies"]["count"], names) == (3, {f"herons/copy{number}.txt" for number in range(4)})
    assert not any(one["document_id"].startswith("herons") for one in rest)
    status, out, _ = filled.run("search", "the heron waits", "--store", filled.store)
    assert (status, "and 3 near-copies, which --copies shows" in out) == (0, True)
    shown = filled.json("search", "the heron waits", "--copies", "-k", "4")
    assert {one["document_id"] for one in shown} == {f"herons/copy{number}.txt" for number in range(4)}
    assert not any("copies" in one for one in shown)


def test_a_blank_query_is_refused(read_only: Shell) -> None:
    assert read_only.run("search", "  ", "--store", read_only.store)[0] == 2


def test_vectors_of_another_revision_of_the_model_are_not_searched(
    read_only: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.engine.embedding.graph.REVISION", "another")
    status, _, err = read_only.run("search", "tea", "--store", read_only.store, "--mode", "dense")
    assert status == 2
    assert one_line(err)
    assert "revision" in err
    status, out, err = read_only.run("search", "tea", "--store", read_only.store)  # by its words, and it says so
    assert status == 0
    assert "lexical search only" in err
    assert "revision" in err
    assert out


def test_a_typing_error_is_answered_repaired_and_said(read_only: Shell) -> None:
    at = ("--store", read_only.store, "--mode", "lexical")
    status, out, err = read_only.run("search", "jackat", *at)
    assert status == 0
    assert out.splitlines()[0].endswith("Rain")
    assert err == "aidre: results for 'jacket'; --as-typed searches for 'jackat'\n"
    [hit] = read_only.json("search", "jackat", "--mode", "lexical")
    assert hit["corrected"] == "jacket"
    assert 0.51 <= hit["relevance"] <= 1
    assert read_only.run("search", "jackat", *at, "--as-typed") == (0, "", "aidre: nothing found\n")
    status, out, err = read_only.run("search", "a jackat for tea", *at)
    assert (status, err) == (0, "aidre: did you mean 'a jacket for tea'?\n")
    assert out.splitlines()[0].endswith("Tea")
    assert "corrected" not in read_only.json("search", "tea", "--mode", "lexical")[0]


def test_quotes_and_a_minus_are_read_and_said(read_only: Shell) -> None:
    at = ("--store", read_only.store, "--mode", "lexical")
    texts = {hit["id"]: hit["text"] for hit in read_only.json("search", "tea", "--mode", "lexical")}
    first = next(iter(texts.values()))
    phrase = " ".join(first.split()[:3])
    status, out, err = read_only.run("search", f'tea "{phrase}"', *at)
    assert (status, err) == (0, f"aidre: hits with {phrase!r} as it is written\n")
    assert out
    status, _, err = read_only.run("search", "tea -jacket", *at)
    assert (status, err) == (0, "aidre: hits without 'jacket'\n")
    assert read_only.run("search", "tea -jacket", *at, "--as-typed")[2] == ""


def test_conditions_are_read_and_said(shell: Shell) -> None:
    folder = shell.store.parent / "rows"
    folder.mkdir()
    rows = [{"id": f"{price}", "text": "a bag of leather", "price": price} for price in (100, 300, 500)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert shell.ingest(folder)[0] == 0
    at = ("--store", shell.store, "--mode", "lexical")
    status, out, err = shell.run("search", "a bag under 400 euros", *at)
    assert (status, err) == (0, "aidre: 'under 400 euros' is read as --filter '{\"price\": {\"lt\": 400}}'\n")
    assert "500" not in out
    _, _, err = shell.run("search", "a bag under 400", *at)
    assert err.startswith("aidre: 'under 400' may mean --filter '{\"price\": {\"lt\": 400}}'\n")
    _, out, err = shell.run("search", "the most expensive bag", *at)
    assert err == "aidre: 'most expensive': ordered by price, descending\n"
    assert "500" in out.splitlines()[0]
    assert shell.run("search", "a bag under 5 euros", *at)[2].startswith("aidre: nothing fits it: 'under 5 euros'\n")
    assert "price" not in shell.run("search", "a bag under 400 euros", *at, "--as-typed")[2]


def test_facets_come_after_the_hits(filled: Shell) -> None:
    for name, tags in (("tea", "[warm, green]"), ("rain", "[green]")):
        (filled.source / f"{name}.md").write_text(f"---\ntags: {tags}\n---\n# {name.title()}\n\n{TEXTS[name]}\n")
    assert filled.ingest()[0] == 0
    asked = ("search", "tea", "--facets", "tags", "--facets", "nothing", "--mode", "dense")
    status, out, _ = filled.run(*asked, "--store", filled.store)
    assert status == 0
    shown = ["tags: green (2), warm (1); 1 document without", "nothing: no values; 3 documents without"]
    assert out.splitlines()[-2:] == shown
    *hits, last = filled.json(*asked)
    assert len(hits) == 3
    assert last["facets"]["tags"]["values"] == [{"value": "green", "count": 2}, {"value": "warm", "count": 1}]
    assert last["facets"]["nothing"] == {"documents": 3, "missing": 3, "distinct": 0, "values": []}


def test_a_terminal_shows_words_of_the_query_in_bold(
    read_only: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("search", "jackets", "--store", read_only.store, "-k", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in read_only.run(*asked)[1]
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    assert "A rain \x1b[1mjacket\x1b[22m has taped seams" in read_only.run(*asked)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in read_only.run(*asked)[1]


def test_nothing_that_fits_is_said_before_the_nearest_hits(shell: Shell) -> None:
    shell.config.write_text("")
    assert shell.ingest()[0] == 0
    at = ("--store", shell.store)
    status, out, err = shell.run("search", "who won the world cup in 1998", *at)
    assert (status, err) == (0, "aidre: nothing fits the query; these are the nearest hits\n")
    assert out
    status, out, err = shell.run("search", "which water for green tea", *at)
    assert (status, err) == (0, "")
    relevance = shell.json("search", "which water for green tea")[0]["relevance"]
    assert f"{relevance:.0%}" in out.splitlines()[0]
    assert relevance >= 0.51
