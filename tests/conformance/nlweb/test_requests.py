"""NLWeb 0.55: which requests are accepted, and what they mean (3). Names begin with the check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import Client, a_document, fill, serving
from tests.support.recipes import (
    ASYNC,
    CHATGPT,
    CONFIGURATION,
    ask,
    events,
    failed,
    names,
    preferring,
    query,
    results,
    told,
)


def test_r1_a_query_text_alone_is_answered(client: Client) -> None:
    assert results(ask(client, {"query": {"text": "cinnamon"}}))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": None},
        {"query": 5},
        {"query": ["cinnamon"]},
        {"query": {}},
        {"query": {"text": None}},
        {"query": {"text": 5}},
        {"query": {"text": ["x"]}},
        {"query": {"text": ""}},
        {"query": {"text": " \t\n\u3000"}},
        {"prefer": {"streaming": True}},
        {"query": ""},
        {"query": "   "},
    ],
)
def test_r2_without_a_query_text_the_query_is_invalid(client: Client, body: Any) -> None:
    failed(ask(client, body), "INVALID_QUERY", 400)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"5", b"null", b"\xff", b"[" * 5_000, b'{"a":' * 3_000])
def test_r3_what_is_no_json_object_is_400(client: Client, content: bytes) -> None:
    response = client.request("POST", "/ask", content=content, headers={"content-type": "application/json"})
    failed(response, "INVALID_QUERY", 400)


def test_r4_a_site_restricts_every_result(client: Client) -> None:
    found = results(ask(client, query("eggs", site="breakfast.example")))
    assert {item["site"] for item in found} == {"breakfast.example"}
    assert names(ask(client, query("pasta", site="recipes.example"))) == [
        "Classic Homemade Pasta Dough",
        "Secret sauce",
    ]
    assert names(ask(client, query("eggs", site="long"))) == ["Book", "Leaf"]
    assert names(ask(client, query("eggs", site="LONG"))) == ["Book", "Leaf"]
    for same in (
        "www.breakfast.example",
        "https://www.breakfast.example/a/b?c",
        "Breakfast.EXAMPLE",
        ["breakfast.example"],
    ):
        assert results(ask(client, query("eggs", site=same))) == found


@pytest.mark.parametrize(
    "site", ["absent.example", "shut.example", "shut", "elsewhere", "elsewhere.example", "://", "["]
)
def test_r4_an_unknown_site_has_no_results_and_neither_has_one_that_is_not_shown(client: Client, site: str) -> None:
    failed(ask(client, query(site=site)), "NO_RESULTS")


@pytest.mark.parametrize(
    "site", [None, "", [], "all", "*", "http://127.0.0.1:8000", "127.0.0.1:8000/ask", ["all", "x"]]
)
def test_r4_no_site_and_the_servers_own_origin_mean_all(client: Client, site: Any) -> None:
    assert names(ask(client, query(site=site))) == names(ask(client, query()))


def test_r4_several_sites_are_searched_together(client: Client) -> None:
    found = results(ask(client, query("whale eggs", site=["long", "recipes.example"], limit=20)))
    assert {item["site"] for item in found} == {"long", "recipes.example"}


def test_r4_a_host_in_the_letters_of_its_language_is_that_of_dns(tmp_path: Path) -> None:
    urls = {"read": "https://bücher.example/a", "coded": "https://www.xn--bcher-kva.example:8443/b"}
    urls["other"] = "https://strasse.example/c"
    fill(tmp_path, "docs", [a_document(name, f"book {name}", title=name, url=url) for name, url in urls.items()])
    with serving(tmp_path, CONFIGURATION) as client:
        for site in ("bücher.example", "https://BÜCHER.example/x", "xn--bcher-kva.example"):
            assert sorted(names(ask(client, query("book", site=site)))) == ["coded", "read"]
        for site in ("xn--.example", "xn--" + "ü" * 300, "ü..x", "xn--\u00ad", "straße.example"):
            failed(ask(client, query("book", site=site)), "NO_RESULTS")


def test_r4_the_fields_of_other_collections_are_none_of_a_site(client: Client) -> None:
    answer = told(ask(client, query("eggs", site="long", cookTime="PT45M")), "answer")
    assert "Classic Homemade Pasta Dough" in names(ask(client, query("eggs", cookTime="PT45M")))
    assert answer["_meta"]["ignored_filters"] == ["cookTime"]


def test_r5_any_filter_attribute_is_accepted(client: Client) -> None:
    body = query(
        "eggs", personalized=True, location={"a": [1]}, price=None, **{"@context": "https://x.example", "ä": []}
    )
    answer = told(ask(client, body), "answer")
    assert answer["results"]
    assert "personalized" in answer["_meta"]["ignored_filters"]


def test_r9_a_context_is_conversational_unless_it_says_otherwise(client: Client) -> None:
    context = {"prev": ["breakfast muffins", "high fiber snacks"], "text": "planning a party", "memory": "vegetarian"}
    plain = results(ask(client, {**query("and eggs"), "context": context}))
    assert plain != results(ask(client, query("and eggs")))
    assert plain == results(
        ask(client, {**query("and eggs"), "context": {"@type": "ConversationalContext", **context}})
    )


@pytest.mark.parametrize(
    "context", [{"memory": ["vegetarian", "no nuts"]}, {"prev": "muffins"}, {"prev": []}, {}, None]
)
def test_r10_a_context_may_be_written_as_older_clients_do(client: Client, context: Any) -> None:
    assert results(ask(client, {**query("eggs"), "context": context}))


@pytest.mark.parametrize(
    "context",
    [
        5,
        "x",
        [],
        {"prev": 5},
        {"prev": [5]},
        {"prev": {"a": 1}},
        {"text": 5},
        {"text": ["x"]},
        {"memory": 5},
        {"@type": 5},
    ],
)
def test_r10_a_context_of_the_wrong_type_is_invalid(client: Client, context: Any) -> None:
    failed(ask(client, {**query("eggs"), "context": context}), "INVALID_QUERY", 400)


def test_r11_a_context_of_another_type_is_accepted(client: Client) -> None:
    context = {
        "@type": "UserDiet",
        "@context": "https://example.com/schemas/diet",
        "restrictions": ["vegan"],
        "text": {"of": "its own"},
        "prev": 7,
    }
    assert results(ask(client, {**query("eggs"), "context": context}))


def test_r12_earlier_queries_change_what_is_found(client: Client) -> None:
    alone = told(ask(client, query("and the second one")), "answer")
    leaning = told(ask(client, {**query("and the second one"), "context": {"prev": ["reading lamp"]}}), "answer")
    assert "decontextualized_query" not in alone["_meta"]
    assert "lamp" in leaning["_meta"]["decontextualized_query"]
    assert leaning["results"][0]["name"].startswith("Lamp")


def test_r12_a_rewriting_of_the_client_is_taken(client: Client) -> None:
    answer = told(ask(client, query("those", decontextualized_query="pumpkin restaurant in Idaho")), "answer")
    assert answer["results"][0]["name"] == "Idaho Pumpkin Place"
    assert answer["_meta"]["decontextualized_query"] == "pumpkin restaurant in Idaho"


def test_r13_preferences_are_optional_and_unknown_ones_ignored(client: Client) -> None:
    for prefer in (None, {}, {"unknown": [1], "user-agent": "Copilot/1.0.0", "streaming": None, "mode": None}):
        assert results(ask(client, {**query(), "prefer": prefer}))


@pytest.mark.parametrize(
    "prefer",
    [
        5,
        [],
        {"streaming": "yes"},
        {"streaming": 1},
        {"mode": 5},
        {"mode": [5]},
        {"response_format": {}},
        {"respond-async": "true"},
        {"accept-language": 5},
    ],
)
def test_r13_a_preference_of_the_wrong_type_is_invalid(client: Client, prefer: Any) -> None:
    failed(ask(client, {**query(), "prefer": prefer}), "INVALID_QUERY", 400)


def test_r14_streaming_decides_the_media_type(client: Client) -> None:
    assert results(ask(client, preferring(streaming=False), accept="text/event-stream, application/json"))
    assert events(ask(client, preferring(streaming=True), accept="application/json"))


def test_r15_the_format_is_conversational_search_unless_another_is_wanted(client: Client) -> None:
    answer = told(ask(client, query()), "answer")
    assert answer["_meta"]["response_format"] == "conversational_search"
    assert told(ask(client, preferring(**CHATGPT)), "answer")["_meta"]["response_format"] == "chatgpt_app"
    assert "xml" in failed(ask(client, preferring(response_format="xml")), "UNSUPPORTED_FORMAT")


@pytest.mark.parametrize(
    "format", ["foo, chatgpt_app", ["foo", "chatgpt_app"], "chatgpt_app,conversational_search", " ChatGPT_App "]
)
def test_r16_of_several_formats_the_first_supported_one_wins(client: Client, format: Any) -> None:
    assert told(ask(client, preferring(response_format=format)), "answer")["_meta"]["response_format"] == "chatgpt_app"


@pytest.mark.parametrize(
    "mode", ["list, summarize", "list,summarize", " Summarize ,LIST", ["list", "summarize"], "summarize"]
)
def test_r17_modes_come_in_any_spelling(client: Client, mode: Any) -> None:
    assert results(ask(client, preferring(mode=mode)))[-1]["@type"] == "SearchSummary"


@pytest.mark.parametrize("mode", ["sing", "list, sing", "summarise"])
def test_r17_an_unknown_mode_is_unsupported(client: Client, mode: str) -> None:
    failed(ask(client, preferring(mode=mode)), "UNSUPPORTED_MODE")


@pytest.mark.parametrize("mode", [None, "list", "", " , "])
def test_r18_a_list_has_no_summary(client: Client, mode: Any) -> None:
    assert "SearchSummary" not in [item["@type"] for item in results(ask(client, preferring(mode=mode)))]


def test_r18_a_summary_is_one_item_beside_the_same_results(client: Client) -> None:
    summarized = results(ask(client, preferring(mode="list, summarize")))
    assert [item["@type"] for item in summarized].count("SearchSummary") == 1
    assert summarized[:-1] == results(ask(client, query()))


def test_r19_a_language_is_accepted(client: Client) -> None:
    for language in ("de", "de-AT, en;q=0.5", "*", "", "xx-nonsense-😀"):
        assert results(ask(client, {**query(), "prefer": {"accept-language": language, "mode": "summarize"}}))


@pytest.mark.parametrize("version", [None, "0.55", "0.54", "9.9", ""])
def test_r20_any_version_is_answered_in_0_55(client: Client, version: Any) -> None:
    assert told(ask(client, {**query(), "meta": {"version": version}}), "answer")["_meta"]["version"] == "0.55"


def test_r21_the_session_context_comes_back_with_whatever_is_answered(client: Client) -> None:
    session = {"conversation_id": "conv_1", "deep": [{"x": None}]}
    meta = {"session_context": session}
    for body in (query(), query(site="absent.example"), ASYNC):
        assert ask(client, {**body, "meta": meta}).json()["_meta"]["session_context"] == session
    assert "session_context" not in told(ask(client, query()), "answer")["_meta"]


@pytest.mark.parametrize(
    "meta",
    [
        5,
        [],
        {"session_context": "x"},
        {"session_context": []},
        {"user": 5},
        {"user": ["x"]},
        {"remember": "yes"},
        {"version": 0.55},
    ],
)
def test_r21_meta_of_the_wrong_type_is_invalid(client: Client, meta: Any) -> None:
    failed(ask(client, {**query(), "meta": meta}), "INVALID_QUERY", 400)


def test_r21_a_session_context_too_deep_to_be_sent_back_is_invalid(client: Client) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"x": deep}
    failed(ask(client, {**query(), "meta": {"session_context": deep}}), "INVALID_QUERY", 400)


def test_r21_a_session_context_that_nobody_would_keep_is_too_large(client: Client) -> None:
    large = {"session_context": {"x": "y" * 16_400}}
    failed(ask(client, {**query(), "meta": large}), "TOKEN_LIMIT")


@pytest.mark.parametrize("user", ["user_12345", {"@type": "Person", "identifier": "user_12345"}, None])
def test_r22_a_user_is_a_string_or_an_object(client: Client, user: Any) -> None:
    assert results(ask(client, {**query(), "meta": {"user": user}}))


def test_r23_nothing_is_remembered_and_the_answer_says_so(client: Client) -> None:
    assert told(ask(client, {**query(), "meta": {"remember": True}}), "answer")["_meta"]["remembered"] is False
    assert "remembered" not in told(ask(client, {**query(), "meta": {"remember": False}}), "answer")["_meta"]


def test_r24_unknown_members_are_accepted_everywhere(client: Client) -> None:
    more = {"@context": "https://example.com", "unknown": {"a": [None]}}
    body = {"query": {"text": "cinnamon", "@context": "x"}, "context": more, "prefer": more, "meta": more, **more}
    assert names(ask(client, body)) == names(ask(client, query()))


def test_what_has_no_effect_is_named(client: Client) -> None:
    def ignored(**sections: Any) -> Any:
        return ask(client, {**query("pasta"), **sections}).json()["_meta"].get("ignored_members")

    assert ignored() is None
    assert ignored(prefer={"mode": "list", "accept-language": "de", "user-agent": "x"}) == [
        "prefer.user-agent",
        "prefer.accept-language",
    ]
    assert ignored(context={"@type": "UserDiet", "restrictions": ["vegan"]}) == ["context.restrictions"]
    assert ignored(context={"memory": "and the"}) == ["context.memory"]
    assert ignored(context={"memory": "likes flour"}) is None
    assert ignored(meta={"user": "me", "version": "0.55", "session_context": {}}) == ["meta.user"]
    assert ignored(meta={"user": "me", "api_version": "0.54"}) is None
