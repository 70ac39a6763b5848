"""Questions after others: follow-ups take words of the question before, a change of subject is answered as typed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

import aidre
from tests import ROOT
from tests.support.clients import Client, serving
from tests.support.recipes import ask, query, told

FOLLOW_UPS = [
    ("recipes for dinner", "with chickpeas", "Chickpea and spinach curry"),
    ("bread", "for beginners", "Sourdough for beginners"),
    ("winter swimming", "what do newcomers ask about it?", "Winter swimming: questions of newcomers"),
    ("kitchen knife", "how do I sharpen it?", "Sharpen a kitchen knife on a stone"),
    ("cast iron pan", "how do I season it again?", "How do I season a cast iron pan again?"),
    ("bicycle", "how to patch the tube", "Patch a bicycle tube"),
    ("tomatoes", "save seeds", "Save the seeds of tomatoes"),
    ("tomatoes", "and a salad?", "Tomato and bread salad"),
    ("library", "the card", "The library card"),
    ("laptop", "backup", "Back up a laptop so that it helps"),
    ("trees", "pruning", "Pruning fruit trees"),
    ("trees", "how many are there in the city?", "How a city counts its trees"),
    ("jacket", "for rain", "Harbour rain jacket"),
    ("bicycle", "lights", "City bicycle light set"),
    ("train", "at night", "The return of the night train"),
    ("python", "for archivists", "Python for archivists"),
    ("harbour", "jazz", "Harbour jazz weekend"),
    ("harbour", "tides", "Why two neighbouring harbours have different tides"),
    ("salt marsh", "where is it?", "Wendham salt marsh"),
    ("salt marsh", "and the sea wall?", "The salt marsh that replaced a sea wall"),
    ("outdoors", "first aid", "First aid outdoors"),
    ("camping", "stove", "Ember camping stove"),
    ("camping", "at a lake", "Pine lake campsite"),
    ("headlamp", "how bright is it?", "Nightjar headlamp"),
    ("coffee", "slow", "Slow-drip coffee maker"),
    ("pancakes", "without wheat", "Oat pancakes without wheat"),
    ("pie", "leek", "Leek and potato pie"),
    ("buns", "cardamom", "Cardamom buns"),
    ("heat pumps", "in old houses", "Heat pumps in old houses: what the meters say"),
    ("bees", "on the roof", "Bees on the roof of the bank"),
    ("mackerel", "on toast", "Grilled mackerel on rye toast"),
    ("observatory", "open night", "Night of open observatories"),
    ("observatory", "where is it", "Hill observatory"),
    ("seeds", "exchange in spring", "Spring seed exchange"),
    ("running", "half marathon", "Half marathon along the dyke"),
    ("navigation", "by the stars", "Celestial navigation"),
    ("old data", "workshop", "Workshop: rescuing old data"),
    ("dessert", "plum", "Plum crumble"),
    ("dialect", "why did it die?", "The quiet death of a dialect"),
    ("goose count", "why must I stay in the hide?", "Why must I stay in the hide during the goose count?"),
]
THINGS = {
    "rain jacket": "keeps water out on wet days", "hiking boots": "for long walks in the hills",
    "winter gloves": "keep hands warm in snow", "travel bag": "holds clothes for a week",
    "reading lamp": "gives light beside a bed", "office chair": "supports the back at a desk",
    "water bottle": "keeps drinks cold", "garden table": "stands on the terrace",
}  # fmt: skip
LOOKS = ("red", "leather", "vintage", "foldable", "waterproof")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("store")
    with aidre.open(folder) as store:
        with store.collection("ellery").writer() as writer:
            for number, line in enumerate((ROOT / "demo/corpus/items.jsonl").read_text().splitlines()):
                members = json.loads(line)
                kept = [str(value) for name, value in members.items() if name[0] != "@" and name != "url"]
                writer.add({"id": str(number), "title": members["name"], "text": "\n".join(kept)})
        with store.collection("shop").writer() as writer:
            for thing, use in THINGS.items():
                for look in LOOKS:
                    title = f"{look.capitalize()} {thing}"
                    writer.add({"id": title, "title": title, "text": f"This {look} {thing} {use}."})
    with serving(folder) as shared:
        yield shared


def best(client: Client, site: str, text: str, prev: Sequence[str] = ()) -> str:
    answer = told(ask(client, {**query(text, site=site), "context": {"prev": list(prev)}}), "answer")
    name: str = answer["results"][0]["name"]
    return name


def test_follow_ups_go_on_with_the_question_before(client: Client) -> None:
    assert len(FOLLOW_UPS) == 40
    lost = [asked for *asked, title in FOLLOW_UPS if best(client, "ellery", asked[1], asked[:1]) != title]
    assert not lost


def test_an_attribute_alone_goes_on_with_the_thing_before(client: Client) -> None:
    pairs = [(thing, look) for thing in THINGS for look in LOOKS]
    lost = [pair for pair in pairs if best(client, "shop", pair[1], pair[:1]) != f"{pair[1].capitalize()} {pair[0]}"]
    assert not lost


@pytest.mark.parametrize("turns", [1, 5])
def test_a_change_of_subject_is_answered_as_it_is_typed(client: Client, turns: int) -> None:
    lines = (ROOT / "demo/corpus/items.jsonl").read_text().splitlines()
    titles = [json.loads(line)["name"] for line in lines]
    own = [title for title in titles if best(client, "ellery", title) == title][:40]
    assert len(own) == 40
    prev = {title: [own[(place + 7 * turn) % 40] for turn in range(1, turns + 1)] for place, title in enumerate(own)}
    changed = [title for title in own if best(client, "ellery", title, prev[title]) != title]
    assert len(changed) <= 1, changed


def test_another_thing_is_a_change_of_subject(client: Client) -> None:
    things = list(THINGS)
    pairs = [(one, other) for one in things for other in things if one != other][::2]
    changed = [pair for pair in pairs if not best(client, "shop", pair[1], pair[:1]).endswith(pair[1])]
    assert len(changed) <= len(pairs) // 40
    assert best(client, "shop", "red travel bag", ["leather winter gloves"]) == "Red travel bag"


def test_what_was_answered_is_said(client: Client) -> None:
    body = {**query("jazz", site="ellery"), "context": {"prev": ["lentil soup"]}}
    answer = told(ask(client, body), "answer")
    assert answer["results"][0]["name"] == "Harbour jazz weekend"
    assert {"decontextualized_query", "rewriting_method"}.isdisjoint(answer["_meta"])
    body = {**query("red", site="shop"), "context": {"prev": ["travel bag"]}}
    meta = told(ask(client, body), "answer")["_meta"]
    assert (meta["decontextualized_query"], meta["rewriting_method"]) == ("red travel bag", "rule")
