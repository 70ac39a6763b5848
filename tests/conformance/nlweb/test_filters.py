"""NLWeb 0.55: filter attributes, elicitation and actions, asked over HTTP. Names begin with the check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import Client, a_document, fill, serving
from tests.support.recipes import CONFIGURATION, an_object, ask, failed, names, query, results, told

RULES = """
[nlweb.elicitation."breakfast.example"]
text = "What would you like?"
required = ["diet"]
questions = [
    { id = "diet", text = "Any diet?", type = "multi_select", options = ["vegan", "none"], default = ["none"] },
    { id = "minutes", text = "How long?", type = "number", default = 20 },
]
[[nlweb.actions]]
name = "cook"
description = "Cook {name}"
protocol = "HTTP"
types = ["HowTo"]
method = "POST"
endpoint = "https://api.example/cook"
params = { recipe = "{url}" }
"""


@pytest.fixture(scope="module")
def ruled(client: Client) -> Iterator[Client]:
    with serving(client.store, CONFIGURATION + RULES) as shared:
        yield shared


@pytest.mark.parametrize("kind", ["Recipe", "https://schema.org/Recipe", "http://schema.org/Recipe", "HowTo"])
def test_r6_an_item_type_is_a_schema_org_name_its_address_or_a_supertype(client: Client, kind: str) -> None:
    found = results(ask(client, query("eggs lamp", itemType=kind, limit=20)))
    assert len(found) == 11
    assert {item["@type"] for item in found} == {"Recipe"}


def test_r6_an_item_type_finds_an_object_of_several_types(client: Client) -> None:
    assert len(results(ask(client, query("lamp", itemType="Product")))) == 3
    answer = told(ask(client, query("lamp", itemType="Product")), "answer")
    assert "ignored_filters" not in answer["_meta"]


def test_r6_of_an_item_type_that_nothing_has_there_are_no_results(client: Client) -> None:
    failed(ask(client, query("lamp", itemType="Movie")), "NO_RESULTS")


def test_r6_an_article_is_what_is_served_as_one(client: Client) -> None:
    assert names(ask(client, query("cinnamon", itemType="Article", site="docs"))) == ["Story"]
    assert names(ask(client, query("cinnamon", itemType="WebPage", site="docs"))) == ["Page"]


@pytest.mark.parametrize(
    ("price", "left"),
    [
        ("less than $20", [5, 15]),
        ("under 20", [5, 15]),
        ("10-20", [15]),
        (">= 15", [15, 25]),
        (15, [15]),
        ("between $10 and $30", [15, 25]),
    ],
)
def test_r7_a_price_bounds_the_offers(client: Client, price: Any, left: list[int]) -> None:
    found = names(ask(client, query("reading lamp", price=price, limit=20)))
    assert sorted(found) == sorted(f"Lamp {one}" for one in left)


def test_r8_a_location_is_found_in_addresses(client: Client) -> None:
    assert names(ask(client, query("restaurant", location="Idaho"))) == ["Idaho Pumpkin Place"]


def test_r8_a_location_is_found_in_an_address_of_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"@type": "Restaurant", "name": "Town Hall", "address": "Main Street 1, Springfield, Idaho"}
    served = {"@type": "Bakery", "name": "Baker", "areaServed": "all of Springfield"}
    far = {"@type": "Restaurant", "name": "Far", "address": "Springfield Road 3, Boston"}
    items = {"town": place, "baker": served, "far": far}
    fill(tmp_path, "docs", [an_object(name, f"food {name}", item) for name, item in items.items()])
    with serving(tmp_path, CONFIGURATION) as client:
        assert sorted(names(ask(client, query("food", location="Springfield, Idaho")))) == ["Town Hall"]
        assert sorted(names(ask(client, query("food", location="springfield")))) == ["Baker", "Far", "Town Hall"]
        failed(ask(client, query("food", location="Spring")), "NO_RESULTS")
        monkeypatch.setattr("aidre.api.protocols.nlweb.answer.document_search.MAX_PLACE_TEXTS", 2)
        answer = told(ask(client, query("food", location="springfield")), "answer")
        assert answer["_meta"]["ignored_filters"] == ["location"]
        monkeypatch.setattr("aidre.api.protocols.nlweb.answer.document_search.MAX_TEXTS_SCANNED", 500)
        answer = told(ask(client, query("food", location="Boston")), "answer")
        assert answer["_meta"]["ignored_filters"] == ["location"]


def test_r5_an_attribute_selects_by_the_members_of_documents(client: Client) -> None:
    assert names(ask(client, query("cinnamon", title="story", site="docs"))) == ["Story"]
    assert names(ask(client, query("cinnamon", id="page", site="docs"))) == ["Page"]
    answer = told(ask(client, query("cinnamon", section="one", site="docs")), "answer")
    assert answer["_meta"]["ignored_filters"] == ["section"]


def test_r5_metadata_of_one_collection_select_there_alone(tmp_path: Path) -> None:
    members = {"section": "news", "title": "Soup", "id": "sku"}
    fill(tmp_path, "marked", [a_document("a", "warm soup", title="A", url="https://a.example/", metadata=members)])
    fill(tmp_path, "plain", [a_document("b", "cold soup", title="Soup", url="https://b.example/")])
    with serving(tmp_path, CONFIGURATION) as client:
        assert names(ask(client, query("soup", section="news"))) == ["A"]
        assert sorted(names(ask(client, query("soup", title="soup")))) == ["A", "Soup"]
        assert names(ask(client, query("soup", id="b"))) == ["Soup"]


def test_r5_what_was_not_applied_is_listed(client: Client) -> None:
    answer = told(ask(client, query("lamp", price="a song", personalized=True)), "answer")
    assert sorted(answer["_meta"]["ignored_filters"]) == ["personalized", "price"]
    assert len(answer["results"]) == 7


def test_l1_l2_l3_a_required_attribute_is_asked_for(ruled: Client) -> None:
    body = {**query("eggs", site="breakfast.example"), "meta": {"session_context": {"id": 1}}}
    answer = told(ask(ruled, body), "elicitation")
    assert answer["elicitation"] == {
        "text": "What would you like?",
        "questions": [
            {
                "id": "diet",
                "text": "Any diet?",
                "type": "multi_select",
                "options": ["vegan", "none"],
                "default": ["none"],
            }
        ],
    }
    session = answer["_meta"]["session_context"]
    assert session["id"] == 1
    assert results(ask(ruled, {**body, "meta": {"session_context": session}}))
    assert results(ask(ruled, query("eggs", site="breakfast.example", diet="vegan")))


def test_l1_other_sites_and_other_configurations_ask_nothing_back(ruled: Client, client: Client) -> None:
    assert results(ask(ruled, query("pasta", site="recipes.example")))
    assert results(ask(client, query("eggs", site="breakfast.example")))


def test_x1_x2_x3_configured_actions_come_with_the_items_they_suit(ruled: Client) -> None:
    found = results(ask(ruled, query("pasta", limit=20)))
    pasta = next(item for item in found if item["name"].startswith("Classic"))
    [action] = pasta["actions"]
    assert action["name"] == "cook"
    assert action["description"] == "Cook Classic Homemade Pasta Dough"
    assert (action["protocol"], action["method"], action["endpoint"]) == ("HTTP", "POST", "https://api.example/cook")
    assert action["params"] == {"recipe": "https://recipes.example/pasta"}
    others = [item for item in found if "Recipe" not in item["@type"]]
    assert {"Product"} < {kind for item in others for kind in item["@type"]}
    assert not any("actions" in item for item in others if item["name"] != "Odd")  # which has one of its own


TOOLS = """
[nlweb]
min_score = 0
[[nlweb.actions]]
name = "cart"
description = "Put {name} into the cart"
protocol = "MCP"
server = "shop"
tool = "cart_add"
arguments = { name = "{name}" }
[[nlweb.actions]]
name = "advise"
description = "Talk about {name}"
protocol = "A2A"
agent_url = "https://agent.example/"
skill = "advice"
message = { text = "Which {name}?" }
"""


def test_x1_x2_x3_actions_of_mcp_and_a2a_say_whom_to_ask_for_what(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [an_object("lamp", "a lamp", {"@type": "Product", "name": "Lamp"})])
    with serving(tmp_path, TOOLS) as client:
        [found] = results(ask(client, query("lamp")))
    cart, advise = found["actions"]
    assert {
        "protocol": "MCP",
        "server": "shop",
        "tool": "cart_add",
        "arguments": {"name": "Lamp"},
    }.items() <= cart.items()
    whom = {"protocol": "A2A", "agent_url": "https://agent.example/", "skill": "advice"}
    assert {**whom, "message": {"text": "Which Lamp?"}}.items() <= advise.items()
    assert [action["description"] for action in (cart, advise)] == ["Put Lamp into the cart", "Talk about Lamp"]


QUESTIONS = """
[nlweb.elicitation."*"]
required = ["diet"]
questions = [
    { id = "diet", text = "Any diet?", type = "single_select", options = ["vegan", "none"], default = "none" },
    { id = "with", text = "With what?", type = "multi_select", options = ["salt", "oil"] },
    { id = "why", text = "Why?" },
    { id = "minutes", text = "How long?", type = "number", default = 20 },
    { id = "alone", text = "Alone?", type = "boolean", default = false },
]
"""


def test_l1_l2_l3_questions_of_every_type_have_their_options_and_a_fitting_default(client: Client) -> None:
    required = QUESTIONS.replace('["diet"]', '["diet", "with", "why", "minutes", "alone"]')
    with serving(client.store, CONFIGURATION + required) as asking:
        questions = told(ask(asking, query("eggs")), "elicitation")["elicitation"]["questions"]
    assert [one["type"] for one in questions] == ["single_select", "multi_select", "free_text", "number", "boolean"]
    assert len({one["id"] for one in questions}) == len(questions)
    assert [one.get("options") for one in questions] == [["vegan", "none"], ["salt", "oil"], None, None, None]
    assert [one.get("default") for one in questions] == ["none", None, None, 20, False]


def test_x4_a_potential_action_becomes_an_action(tmp_path: Any) -> None:
    entry = {"@type": "EntryPoint", "urlTemplate": "https://shop.example/buy", "httpMethod": "POST"}
    item = {"@type": "Product", "name": "Lamp", "potentialAction": {"@type": "BuyAction", "target": entry}}
    fill(tmp_path, "docs", [an_object("lamp", "a lamp", item)])
    with serving(tmp_path, "[nlweb]\nmin_score = 0") as client:
        [found] = results(ask(client, query("lamp")))
        [action] = found["actions"]
        assert (action["@type"], action["protocol"], action["method"]) == ("BuyAction", "HTTP", "POST")
        assert action["endpoint"] == "https://shop.example/buy"
        assert found["potentialAction"] == item["potentialAction"]
