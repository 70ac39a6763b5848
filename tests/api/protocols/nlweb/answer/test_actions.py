"""What can be done with an item: its own potential actions, and those of the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from aidre.api.config.nlweb import ActionSettings
from aidre.api.protocols.nlweb.answer.actions import MAX_ACTIONS, build_actions
from tests.support.properties import REPEATABLE

SOUP = {
    "@type": "Recipe",
    "@id": "soup#1",
    "name": "Soup & bread",
    "url": "https://x.example/a/soup",
    "site": "x.example",
    "recipeIngredient": ["4 eggs", "salt"],
    "offers": [{"price": 4.5}],
}
CART = ActionSettings(
    "add_to_cart", "Put what {name} needs into the cart", "HTTP", types=("CreativeWork",), type="AddToCartAction",
    method="POST", endpoint="https://shop.example/cart/{name}?from={url}", params={"items": "{recipeIngredient}"},
)  # fmt: skip


def potential(*actions: Any) -> list[dict[str, Any]]:
    return build_actions({**SOUP, "potentialAction": list(actions)})


def test_a_configured_action_is_filled_in_from_the_item() -> None:
    assert build_actions(SOUP, [CART]) == [
        {
            "@context": "https://schema.org/",
            "@type": "AddToCartAction",
            "name": "add_to_cart",
            "description": "Put what Soup & bread needs into the cart",
            "protocol": "HTTP",
            "method": "POST",
            "endpoint": "https://shop.example/cart/Soup%20%26%20bread?from=https%3A%2F%2Fx.example%2Fa%2Fsoup",
            "params": {"items": ["4 eggs", "salt"]},
        }
    ]


def test_actions_over_mcp_and_a2a_say_what_their_protocol_needs() -> None:
    tool = ActionSettings(
        "cart", "Cart", "MCP", server="shop-mcp", tool="cart_add", arguments={"id": "{id}", "price": "{offers.price}"}
    )
    agent = ActionSettings(
        "plan", "Plan", "A2A", agent_url="https://agent.example/", skill="plan", message={"text": "Cook {name}"}
    )
    assert build_actions(SOUP, [tool, agent]) == [
        {
            "name": "cart", "description": "Cart", "protocol": "MCP", "server": "shop-mcp", "tool": "cart_add",
            "arguments": {"id": "soup#1", "price": 4.5},
        },
        {
            "name": "plan", "description": "Plan", "protocol": "A2A", "agent_url": "https://agent.example/",
            "skill": "plan", "message": {"text": "Cook Soup & bread"},
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "sites", "suits"),
    [
        ((), (), True),
        (("recipe",), (), True),
        (("HowTo",), (), True),
        (("Product",), (), False),
        ((), ("www.x.example",), True),
        ((), ("y.example",), False),
        (("Recipe",), ("y.example",), False),
    ],
)
def test_an_action_belongs_to_types_and_sites(types: tuple[str, ...], sites: tuple[str, ...], suits: bool) -> None:
    rule = ActionSettings("open", "Open", "HTTP", types=types, sites=sites, method="GET", endpoint="{url}")
    assert bool(build_actions(SOUP, [rule])) is suits


def test_an_action_whose_placeholder_the_item_lacks_is_left_out() -> None:
    rules = [
        ActionSettings("a", "A {missing}", "HTTP", method="GET", endpoint="{url}"),
        ActionSettings("b", "B", "HTTP", method="GET", endpoint="https://x.example/{offers.sku}"),
        ActionSettings("c", "C", "HTTP", method="GET", endpoint="https://x.example/{recipeIngredient}"),
        ActionSettings("d", "D", "MCP", server="s", tool="t", arguments={"x": "{url.deep}"}),
    ]
    assert build_actions(SOUP, rules) == []


def test_a_description_is_text_whatever_the_item_has_there() -> None:
    whole = ActionSettings("buy", "{name}", "MCP", server="{seller}", tool="buy", arguments={"name": "{name}"})
    [action] = build_actions({"name": 7, "seller": "shop-mcp"}, [whole])
    assert (action["description"], action["server"], action["arguments"]) == ("7", "shop-mcp", {"name": 7})
    assert build_actions({"name": ["a", "b"], "seller": "shop-mcp"}, [whole]) == []
    assert build_actions({"name": "a", "seller": {"name": "shop"}}, [whole]) == []


def test_an_action_has_a_name_in_any_script() -> None:
    [action] = potential({"@type": "注文", "target": "https://x.example/o"})
    assert (action["name"], action["description"]) == ("act", "注文: Soup & bread")


def test_an_item_cannot_turn_a_configured_address_into_another() -> None:
    rule = ActionSettings("open", "Open", "HTTP", method="GET", endpoint="https://shop.example/{name}")
    [action] = build_actions({**SOUP, "name": "../../@evil.example/?#"}, [rule])
    assert action["endpoint"] == "https://shop.example/..%2F..%2F%40evil.example%2F%3F%23"
    opened = ActionSettings("open", "Open", "HTTP", method="GET", endpoint="{url}")
    assert build_actions({**SOUP, "url": "javascript:alert(1)"}, [opened]) == []


def test_a_potential_action_becomes_one_over_http() -> None:
    [action] = potential(
        {
            "@type": "OrderAction",
            "target": {
                "@type": "EntryPoint", "urlTemplate": "/order?amount={amount}", "httpMethod": "post",
                "contentType": "application/json",
            },
            "amount-input": {"@type": "PropertyValueSpecification", "valueName": "amount", "valueRequired": True},
        }
    )  # fmt: skip
    assert action == {
        "@context": "https://schema.org/",
        "@type": "OrderAction",
        "name": "order",
        "description": "Order: Soup & bread",
        "protocol": "HTTP",
        "method": "POST",
        "endpoint": "https://x.example/order?amount={amount}",
        "params": {"amount": "required"},
        "headers": {"Content-Type": "application/json"},
    }


def test_the_usual_search_action_of_a_site_is_understood() -> None:
    [action] = potential(
        {
            "@type": "https://schema.org/SearchAction",
            "target": "https://x.example/?s={search_term_string}",
            "query-input": "required name=search_term_string",
        }
    )
    assert (action["@type"], action["method"], action["params"]) == (
        "SearchAction", "GET", {"search_term_string": "required"},
    )  # fmt: skip


def test_every_entry_point_is_an_action_and_names_are_unique() -> None:
    actions = potential(
        {"@type": "WatchAction", "name": "Watch now!", "target": ["https://a.example", "https://b.example"]}
    )
    assert [action["name"] for action in actions] == ["watch_now", "watch_now_2"]
    assert [action["description"] for action in actions] == ["Watch now!", "Watch now!"]


@pytest.mark.parametrize(
    "action",
    [
        None, 7, "text", [], {}, {"@type": "ViewAction"}, {"target": 7}, {"target": {"urlTemplate": 7}},
        {"target": "javascript:alert(1)"}, {"target": "android-app://com.example"}, {"target": "ftp://x.example/"},
        {"target": "https://"}, {"target": "http://[broken"}, {"target": "https://x.example/a b"}, {"target": ""},
        {"target": "https://x.example/\r\nX: 1"}, {"target": "https://x.example/" + "a" * 5_000},
        {"target": {"urlTemplate": "https://x.example/", "httpMethod": "TRACE /"}},
        {"target": {"urlTemplate": "https://x.example/", "httpMethod": ["GET"]}},
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_no_action(action: Any) -> None:
    assert build_actions({**SOUP, "potentialAction": action}) == []
    assert potential(action) == []


def test_an_item_has_few_actions() -> None:
    many = [{"@type": "ViewAction", "target": f"https://x.example/{number}"} for number in range(1_000)]
    assert len(potential(*many)) == MAX_ACTIONS


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("https://x.example/{q}"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["@type", "target", "urlTemplate", "httpMethod", "name", "url", "description", "query-input",
                         "valueName", "valueRequired", "contentType", "potentialAction", "offers"]), inner, max_size=5,
    ),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.slow
@settings(REPEATABLE, max_examples=60)
@given(st.dictionaries(st.sampled_from(["potentialAction", "@type", "url", "name", "site"]), JUNK))
def test_any_item_has_actions_that_say_all_they_must(item: dict[str, Any]) -> None:
    for action in build_actions(item, [CART]):
        assert action["protocol"] == "HTTP"
        for member in ("name", "description", "method", "endpoint"):
            assert isinstance(action[member], str)
            assert action[member]
        assert str(action["endpoint"]).startswith(("http://", "https://", "HTTP://", "HTTPS://"))
