"""NLWeb 0.55: envelopes, answers, failures (4). Names begin with the check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import Client, a_document, fill, serving
from tests.support.recipes import (
    ASYNC,
    CHATGPT,
    CONFIGURATION,
    PASTA,
    an_object,
    ask,
    failed,
    fill_chunks,
    names,
    preferring,
    query,
    results,
    told,
)


@pytest.mark.slow
def test_e5_meta_tells_how_long_it_took(client: Client) -> None:
    spent = told(ask(client, query()), "answer")["_meta"]["processing_time_ms"]
    assert isinstance(spent, int) and spent >= 0


def test_e1_e2_e3_e4_every_body_is_an_object_that_says_its_type_version_and_format(client: Client) -> None:
    asked = {"answer": query(), "promise": ASYNC, "failure": query(site="absent.example")}
    for kind, body in asked.items():
        answer = ask(client, body).json()
        assert (answer["_meta"]["response_type"], answer["_meta"]["version"]) == (kind, "0.55")
        assert "meta" not in answer
    assert ask(client, query()).json()["_meta"]["response_format"] == "conversational_search"
    checked = client.request("POST", "/await", json={"promise_token": "unknown", "action": "checkin"}).json()
    assert (checked["_meta"]["response_type"], checked["_meta"]["version"]) == ("failure", "0.55")


def test_e6_every_answer_has_exactly_its_content(client: Client) -> None:
    told(ask(client, query()), "answer")
    told(ask(client, preferring(**CHATGPT)), "answer")
    told(ask(client, ASYNC), "promise", 202)
    told(ask(client, query(site="absent.example")), "failure")


def test_a1_results_are_objects_best_first(client: Client) -> None:
    found = results(ask(client, query("eggs number 3", limit=20)))
    scores = [item["score"] for item in found]
    assert len(set(scores)) > 5
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 100 for score in scores)


def test_a2_a3_an_object_comes_back_as_it_was_ingested(client: Client) -> None:
    [item] = results(ask(client, query("homemade pasta dough egg flour", site="recipes.example", limit=1)))
    assert {name: item[name] for name in PASTA} == PASTA
    assert set(item) - set(PASTA) == {"score", "site", "grounding"}
    assert item["site"] == "recipes.example"


def test_a3_an_object_without_id_or_url_gets_them_from_its_document(client: Client) -> None:
    [item] = results(ask(client, query("reading lamp at 5", limit=1)))
    assert (item["@id"], item["site"], item["@type"]) == ("lamp_5", "docs", ["Product", "IndividualProduct"])
    assert "url" not in item


def test_a3_members_of_nlweb_stand_once_whatever_the_object_has(client: Client) -> None:
    response = ask(client, query("an odd object", limit=1))
    [item] = results(response)
    assert (item["name"], item["site"]) == ("Odd", "docs")
    assert isinstance(item["score"], float)
    assert item["actions"] == [{"name": "own"}]
    assert response.text.count('"score"') == 1


def test_a4_actions_that_are_no_list_do_not_leave(tmp_path: Path) -> None:
    acts = {"@type": "OrderAction", "target": "https://shop.example/order"}
    items: dict[str, dict[str, Any]] = {"odd": {"actions": "none"}, "both": {"actions": {}, "potentialAction": acts}}
    fill(tmp_path, "docs", [an_object(name, f"food {name}", {"name": name, **item}) for name, item in items.items()])
    with serving(tmp_path, CONFIGURATION) as client:
        response = ask(client, query("food"))
        found = {item["name"]: item["actions"] for item in results(response)}
        assert found["odd"] == []
        assert [action["endpoint"] for action in found["both"]] == ["https://shop.example/order"]
        assert response.text.count('"actions"') == 2


def test_a3_a_document_without_an_object_becomes_an_article_and_with_an_address_a_webpage(client: Client) -> None:
    found = {item["name"]: item for item in results(ask(client, query("cinnamon")))}
    story, page = found["Story"], found["Page"]
    assert "url" not in story
    assert (story["@type"], story["@id"], story["dateModified"]) == (
        "Article",
        "notes/story.md",
        "2026-04-01T10:00:00Z",
    )
    assert story["description"].startswith("a story of cinnamon.") and len(story["description"]) < 300
    assert (page["@type"], page["url"], page["site"]) == ("WebPage", "https://pages.example/c", "pages.example")


def test_a3_an_article_is_described_by_its_beginning_whatever_was_found_of_it(tmp_path: Path) -> None:
    fill_chunks(tmp_path, "guides", {"guide": ["mending a flat tyre", "oiling the chain"]})
    with serving(tmp_path, CONFIGURATION) as fresh:
        for text in ("oiling the chain", "mending a flat tyre"):
            [item] = results(ask(fresh, query(text)))
            assert (item["grounding"]["passage"], item["description"]) == (text, "mending a flat tyre")


def test_a4_grounding_tells_the_source_and_the_passage(client: Client) -> None:
    [item] = results(ask(client, query("homemade pasta dough egg flour", site="recipes.example", limit=1)))
    chunk = client.get("/chunks/pasta%23chunk_1").json()
    assert item["grounding"] == {
        "source_url": "https://recipes.example/pasta",
        "chunk_ids": ["pasta#chunk_1"],
        "content_hashes": [chunk["metadata"]["content_hash"]],
        "passage": "homemade pasta dough egg flour tutorial",
    }


def test_a4_without_text_neither_bodies_nor_passages_leave(client: Client) -> None:
    for mode in ("list", "summarize"):
        for format in ("conversational_search", "chatgpt_app"):
            body = {**query("secret sauce", site="textless"), "prefer": {"mode": mode, "response_format": format}}
            response = ask(client, body)
            assert response.status_code == 200
            assert "SENTINEL" not in response.text
            assert "Secret sauce" in response.text
    [item] = results(ask(client, query("secret sauce", site="textless")))
    assert "articleBody" not in item and "passage" not in item["grounding"]
    assert item["nutrition"] == PASTA["nutrition"]


def test_a5_the_summary_is_an_item_of_its_own_type_with_a_text(client: Client) -> None:
    found = results(ask(client, preferring(mode="list, summarize")))
    [summary] = [item for item in found if item["@type"] == "SearchSummary"]
    assert isinstance(summary["text"], str)
    assert any(item["name"] in summary["text"] for item in found if item is not summary)


def test_a1_one_document_is_one_result_with_all_its_chunks(client: Client) -> None:
    found = results(ask(client, query("whale", site="long", limit=2)))
    assert {item["@id"] for item in found} == {"book", "leaf"}
    book = next(item for item in found if item["@id"] == "book")
    assert len(book["grounding"]["chunk_ids"]) == len(book["grounding"]["content_hashes"]) > 1


def test_a1_a_limit_counts_documents_and_is_clamped(client: Client) -> None:
    everything = len(results(ask(client, query("eggs", limit=10**9))))
    assert everything == 20
    assert len(results(ask(client, query("eggs")))) == 7
    for name in ("limit", "num_results", "max_results"):
        assert len(results(ask(client, query("eggs", **{name: 3})))) == 3
    assert len(results(ask(client, query("eggs", max_results=2, num_results=50)))) == 2


@pytest.mark.parametrize("limit", [0, -1, 1.5, "x", "", [3], {}, True, "-1"])
def test_a1_a_limit_that_is_no_count_is_invalid(client: Client, limit: Any) -> None:
    failed(ask(client, query("eggs", limit=limit)), "INVALID_QUERY", 400)


def test_a1_results_go_on_where_they_ended(client: Client) -> None:
    whole = names(ask(client, query("eggs", limit=10)))
    assert names(ask(client, query("eggs", limit=4))) + names(ask(client, query("eggs", limit=6, start_num=4))) == whole


def test_c1_c2_a_chatgpt_app_gets_prose_and_structured_data(client: Client) -> None:
    answer = told(ask(client, preferring(**CHATGPT)), "answer")
    assert answer["content"]
    assert all(part["type"] == "text" and part["text"].strip() for part in answer["content"])
    assert answer["structuredData"] == results(ask(client, query()))


def test_c3_the_template_of_the_configuration_is_named(client: Client) -> None:
    template = 'template = { uri = "ui://widget/list.html", widget_accessible = true }'
    with serving(client.store, f"{CONFIGURATION}{template}") as widgets:
        meta = told(ask(widgets, preferring(**CHATGPT)), "answer")["_meta"]
        assert (meta["openai/outputTemplate"], meta["openai/widgetAccessible"]) == ("ui://widget/list.html", True)
        assert "openai/outputTemplate" not in told(ask(widgets, query()), "answer")["_meta"]
    assert "openai/outputTemplate" not in told(ask(client, preferring(**CHATGPT)), "answer")["_meta"]


def test_c4_the_summary_of_a_chatgpt_app_stands_in_its_content(client: Client) -> None:
    summary = results(ask(client, preferring(mode="summarize")))[-1]["text"]
    answer = told(ask(client, preferring(mode="summarize", **CHATGPT)), "answer")
    assert summary in [part["text"] for part in answer["content"]]
    assert "SearchSummary" not in [item["@type"] for item in answer["structuredData"]]
    assert answer["_meta"]["summary_method"] == "extractive"


def test_f1_a_failure_has_a_code_and_a_message(client: Client) -> None:
    for body, status in ((query(site="absent.example"), 200), ({}, 400)):
        error = told(ask(client, body), "failure", status)["error"]
        assert all(isinstance(error[name], str) and error[name] for name in ("code", "message"))


def test_f2_too_much_to_process_is_token_limit(client: Client) -> None:
    context = {"text": "x" * 801}
    failed(ask(client, {**query(), "context": context}), "TOKEN_LIMIT")
    assert results(ask(client, {**query(), "context": {"text": "x" * 800}}))
    failed(ask(client, {"query": {"text": "cinnamon"} | dict.fromkeys(map(str, range(65)), 1)}), "TOKEN_LIMIT")
    failed(ask(client, query(site=[f"{number}.example" for number in range(65)])), "TOKEN_LIMIT")


def test_f2_a_query_beyond_its_characters_is_invalid(client: Client) -> None:
    assert ask(client, query("é" * 100)).status_code == 200
    failed(ask(client, query("é" * 101)), "INVALID_QUERY", 400)


def test_f3_nothing_found_is_an_answer_of_status_200(client: Client) -> None:
    failed(ask(client, query(site="absent.example")), "NO_RESULTS")
    with serving(client.store, CONFIGURATION.replace("min_score = 0", "min_score = 1.0")) as strict:
        failed(ask(strict, query("recipes from planet Mars")), "NO_RESULTS")


def test_f3_an_empty_store_has_no_results(tmp_path: Path) -> None:
    with serving(tmp_path) as empty:
        failed(ask(empty, query()), "NO_RESULTS")


def test_f3_equal_requests_have_equal_answers_over_several_collections(client: Client) -> None:
    first, second = (results(ask(client, query("cinnamon whale", limit=20))) for _ in range(2))
    assert first == second
    assert len({item["site"] for item in first}) > 2


def test_a3_an_object_is_whole_however_large_it_is(tmp_path: Path) -> None:
    item = {**PASTA, "articleBody": "word " * 100_000}
    fill(tmp_path, "docs", [an_object("large", "large pasta", item), a_document("small", "pasta")])
    with serving(tmp_path, "[nlweb]\nmin_score = 0") as client:
        found = {item["@id"]: item for item in results(ask(client, query("pasta")))}
        assert found[PASTA["@id"]]["articleBody"] == item["articleBody"]
