"""GET /llms.txt: a map of what this caller may see, in the shape that llmstxt.org describes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import AGENTS, Client, a_document, fill, serving

SECRET = "s" * 32
KEY = {"authorization": f"Bearer {SECRET}"}
CONFIGURATION = f"""
[server]
organization = "The [big] press"
[collections.docs]
description = "About\\n boats [and] water"
[collections.hidden]
visibility = "private"
[collections.asked]
protocols = ["nlweb"]
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["hidden"]
{AGENTS}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    fill(store, "docs", [a_document("a", "alpha"), a_document("b", "beta")])
    for name in ("hidden", "asked"):
        fill(store, name, [a_document("a", "alpha")])
    with serving(store, CONFIGURATION) as shared:
        yield shared


def test_it_has_a_title_a_summary_and_lists_of_links(client: Client) -> None:
    answer = client.get("/llms.txt")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    lines = answer.text.splitlines()
    assert lines[0] == "# The \\[big\\] press"
    assert lines[2].startswith("> ")
    assert [line for line in lines if line.startswith("## ")] == ["## Collections", "## Interfaces"]
    items = [line for line in lines if line.startswith("- ")]
    assert items
    assert all(re.fullmatch(r"- \[[^\]]+\]\(http[^)]+\): .+", line) for line in items)


def test_collections_are_listed_as_far_as_the_caller_may_see_them(client: Client) -> None:
    anonymous, partner = client.get("/llms.txt"), client.get("/llms.txt", KEY)
    assert "/collections/docs): About boats \\[and\\] water (2 documents)" in anonymous.text
    assert "hidden" not in anonymous.text
    assert "/collections/asked" not in anonymous.text, "no route of AIDRE shows it"
    assert "/collections/hidden): About hidden (1 document)" in partner.text
    assert "Authorization" in partner.headers["vary"]


def test_every_link_leads_to_an_answer(client: Client) -> None:
    for link in re.findall(r"\]\(http://127\.0\.0\.1:8000(/[^)]*)\)", client.get("/llms.txt").text):
        assert client.get(link).status_code in {200, 405}, link


def test_a_copy_that_is_current_is_not_sent_again(client: Client) -> None:
    first = client.get("/llms.txt")
    again = client.get("/llms.txt", {"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.request("HEAD", "/llms.txt").headers["etag"] == first.headers["etag"]


def test_a_server_without_collections_has_one_too(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        text = client.get("/llms.txt").text
    assert "## Collections" not in text
    assert "/openapi.json" in text
    assert "/ask" not in text
