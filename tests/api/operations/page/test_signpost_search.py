"""The search page, `api/operations/page/signpost.py`: who gets it, what it may do, and that it is answered."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from aidre.api.operations.page import assembly, signpost
from aidre.api.protocols.provenance.keys import make_key
from tests.support.clients import AIDRE, BASE, COSINE, TEXT, Client, a_document, fill, serving
from tests.support.signatures import Received, verified_answer

HTML = "text/html; charset=utf-8"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
SECRET = "the secret of the partner"
CONFIGURATION = f"""
[server]
organization = "<i>A & B</i>"
default_collection = "docs"
[collections.textless]
return_text = false
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["archive"]
[[keys]]
name = "visitor"
sha256 = "{hashlib.sha256(b"visiting").hexdigest()}"
scopes = []
"""
BEARING = {"authorization": f"Bearer {SECRET}"}
VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """What a strict reader finds: it takes no end tag for granted, unlike a browser."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {"script": [], "style": []}
        self._open: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if len(dict(attrs)) != len(attrs):
            self.faults.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        is_data = self.elements[-1:] == [("script", {"type": "application/ld+json"})]  # which browsers do not run
        if self._open and self._open[-1] in self.contents and not is_data:
            self.contents[self._open[-1]].append(data)

    def values(self, name: str) -> list[str]:
        return [str(attributes[name]) for _, attributes in self.elements if name in attributes]

    @property
    def script(self) -> str:
        return "".join(self.contents["script"])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    documents = [a_document(f"d{n}", f"alpha {n}", title="<b>T</b>", url="javascript:alert(1)") for n in range(7)]
    fill(store, "docs", documents)
    fill(store, "textless", [a_document("t", "beta")], (COSINE,))
    fill(store, "archive", [a_document("secret", "gamma", title="SECRET")], (TEXT,), "private")
    with serving(store, CONFIGURATION) as shared:
        yield shared


def page_of(client: Client, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get("/", {"accept": FIREFOX, **named})


@pytest.fixture(scope="module")
def page(client: Client) -> Page:
    return Page(page_of(client).text)


def directives(response: httpx.Response) -> dict[str, list[str]]:
    fields = response.headers["content-security-policy"].split("; ")
    return {name: values for name, *values in (field.split(" ") for field in fields)}


# -- who gets it -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept", [FIREFOX, CHROME, "text/html", "TEXT/HTML", "text/*", "application/json;q=0.9, text/html"]
)
def test_who_prefers_html_gets_the_page(client: Client, accept: str) -> None:
    response = client.get("/", {"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, HTML)
    assert response.text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    "accept",
    [None, "", "*/*", AIDRE, "application/json", "text/html, application/json", "text/html;q=0.5, */*", "image/png"],
)
def test_everybody_else_gets_the_signpost(client: Client, accept: str | None) -> None:
    response = client.get("/", None if accept is None else {"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {
        "service": "AIDRE",
        "discovery": f"{BASE}/.well-known/ai-discovery",
        "openapi": f"{BASE}/openapi.json",
    }


def test_caches_can_tell_page_and_signpost_apart(client: Client) -> None:
    page, signpost = page_of(client), client.get("/")
    for response in (page, signpost):
        assert response.headers.get_list("vary", split_commas=True) == ["Accept", "Authorization"]
    assert page.headers["etag"] != signpost.headers["etag"]
    assert page_of(client, if_none_match=signpost.headers["etag"]).status_code == 200
    assert client.get("/", {"if-none-match": page.headers["etag"]}).status_code == 200


@pytest.mark.parametrize("accept", [FIREFOX, "*/*"])
def test_who_has_it_already_is_told_so(client: Client, accept: str) -> None:
    whole = client.get("/", {"accept": accept})
    kept = client.get("/", {"accept": accept, "if-none-match": f'"other", W/{whole.headers["etag"]}'})
    assert (kept.status_code, kept.content) == (304, b"")
    for name in ("etag", "cache-control", "vary"):
        assert kept.headers[name] == whole.headers[name]


def test_the_query_in_the_address_changes_nothing_on_the_server(client: Client) -> None:
    asked = client.get("/?q=%3Cscript%3Ealert(1)%3C/script%3E&in=docs", {"accept": FIREFOX})
    assert asked.content == page_of(client).content


@pytest.mark.parametrize("accept", [FIREFOX, "*/*"])
def test_head_has_the_header_and_no_body(client: Client, accept: str) -> None:
    whole = client.get("/", {"accept": accept})
    head = client.request("HEAD", "/", headers={"accept": accept})
    assert (head.status_code, head.content) == (200, b"")
    known = {name: value for name, value in whole.headers.items() if name != "x-request-id"}
    assert {name: value for name, value in head.headers.items() if name != "x-request-id"} == known


def test_other_methods_are_refused(client: Client) -> None:
    response = client.request("POST", "/", headers={"accept": FIREFOX})
    assert (response.status_code, response.json()["error"]) == (405, "method_not_allowed")


# -- what it may do --------------------------------------------------------------------------------------------------


def test_the_policy_lets_run_what_is_in_the_page_and_nothing_else(client: Client, page: Page) -> None:
    def hashes(element: str) -> list[str]:
        found = [hashlib.sha256(content.encode()).digest() for content in page.contents[element]]
        return [f"'sha256-{base64.b64encode(one).decode()}'" for one in found]

    assert directives(page_of(client)) == {
        "default-src": ["'none'"],
        "script-src": hashes("script"),
        "style-src": hashes("style"),
        "connect-src": ["'self'"],
        "img-src": ["data:", "http:", "https:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["'none'"],
    }
    assert len(page.contents["script"]) == len(page.contents["style"]) == 1


def test_where_images_are_refused_the_policy_allows_none_and_the_page_asks_for_none(client: Client) -> None:
    with serving(client.store, "[server]\nimages = false") as strict:
        served = page_of(strict)
    assert directives(served)["img-src"] == ["data:"]
    assert b"<main data-plain " in served.content
    assert b"data-plain" not in page_of(client).content
    assert len(served.content) < 64 * 1000


def test_another_script_would_have_another_hash() -> None:
    page = signpost.PAGE
    altered = page.content.replace(b'"use strict";', b'"use strict" ;')
    assert altered != page.content
    policy = assembly.policy(page.content, images=True)
    assert assembly.policy(altered, images=True) != policy == page.headers["Content-Security-Policy"]


def test_nothing_is_guessed_and_nothing_is_told_to_others(client: Client) -> None:
    headers = page_of(client).headers
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cache-control"] == "no-cache"


def test_it_names_no_other_place(page: Page) -> None:
    style = page.contents["style"][0]
    assert re.findall(r"//|@import|url\(", style) == []
    assert re.findall(r"(?:https?:|[\"'`])//[\w.-]+|import\(|importScripts", page.script) == []
    named = {"opensearch.xml", "openapi.json", "llms.txt", "/.well-known/api-catalog", "/.well-known/ai-discovery"}
    links = {"data:,", "#", "#view=browse", "#view=code", "docs", *named}
    assert set(page.values("href") + page.values("src")) == links
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert page.values("style") == page.values("action") == []


def test_it_writes_text_and_no_markup(page: Page) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|eval\(|Function\(|srcdoc"
    assert re.findall(forbidden, page.script) == []


def test_only_addresses_of_the_web_and_of_the_page_are_given_to_links(page: Page) -> None:
    given = set(re.findall(r"href: ?([\w.]+)", page.script))
    assert given == {"link.href", "opened", "fragment"}
    assert "/^https?:$/.test(url.protocol)" in page.script


# -- what is in it ---------------------------------------------------------------------------------------------------


def test_it_is_well_formed_and_small(page: Page) -> None:
    assert page.faults == []
    assert len(set(page.values("id"))) == len(page.values("id"))
    assert len(signpost.PAGE.content) < 64 * 1000
    assert Page("<p><b></p>").faults and Page('<a id="x" id="y"></a>').faults and Page("<p>").faults


def test_its_script_uses_the_parts_that_it_has(page: Page) -> None:
    used = set(re.findall(r"\bpart\.(\w+)", page.script))
    styled = set(re.findall(r"#(\w+)", page.contents["style"][0]))
    named = {str(attributes["aria-labelledby"]) for _, attributes in page.elements if "aria-labelledby" in attributes}
    assert used <= set(page.values("id")) <= used | styled | named | set(re.findall(r'"(\w+)"', page.script))


def test_no_string_of_a_script_goes_over_several_lines() -> None:
    """`assembly` strips lines, and the spaces of those without a quote."""
    for path in Path(assembly.__file__).parent.glob("*.js"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            plain = line.replace("(```|~~~)", "").replace("\\`", "")
            assert plain.lstrip().startswith("//") or plain.count("`") % 2 == 0, f"{path.name}:{number}"


def test_everything_that_is_filled_in_has_a_name(page: Page) -> None:
    fields = [attributes for tag, attributes in page.elements if tag == "input"]
    assert len(fields) == 2
    assert all(attributes.get("aria-label") for attributes in fields)
    assert {"search", "combobox", "listbox", "status", "alert"} == set(page.values("role"))
    assert ("html", {"lang": "en"}) in page.elements


@pytest.mark.parametrize("credentials", [{}, BEARING])
def test_nothing_of_a_store_is_put_into_it(client: Client, tmp_path: Path, credentials: dict[str, str]) -> None:
    served = page_of(client, **credentials).content
    assert re.sub(rb'<script type="application/ld.json">[^<]*</script>', b"", served) == signpost.PAGE.content
    with serving(tmp_path) as empty:
        assert page_of(empty).content == served


# -- how it comes there ----------------------------------------------------------------------------------------------


def test_a_wrong_key_gets_no_page(client: Client) -> None:
    refused = page_of(client, authorization="Bearer wrong")
    assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
    assert page_of(client, authorization="Bearer visiting").status_code == 403


def test_what_somebody_known_gets_is_for_no_shared_cache(client: Client) -> None:
    assert page_of(client, **BEARING).headers["cache-control"] == "private, no-cache"


def test_it_is_counted_as_every_request_is(client: Client) -> None:
    with serving(client.store, '[limits]\nrate = "2/hour"') as limited:
        assert [page_of(limited).status_code for _ in range(3)] == [200, 200, 429]
        assert page_of(limited).headers["retry-after"].isdigit()
        counted = limited.get("/metrics").text
    assert re.search(r'^aidre_requests_total\{[^}]*route="/"[^}]*status="200"[^}]*\} 2$', counted, flags=re.MULTILINE)


@pytest.mark.parametrize("accept", [FIREFOX, "*/*"])
def test_it_is_signed_where_answers_are(client: Client, tmp_path: Path, accept: str) -> None:
    make_key(tmp_path / "keys.pem", time.time())
    with serving(client.store, f'[provenance]\nkey = "{tmp_path / "keys.pem"}"') as signing:
        response = signing.get("/?q=a", {"accept": accept})
        keys = signing.get("/.well-known/aidre-keys.json").content
    assert verified_answer(Received.of(response, f"{BASE}/?q=a"), keys).parameters["tag"] == "aidre-provenance"


def test_it_is_described(client: Client) -> None:
    described = client.get("/openapi.json").json()
    answers = described["paths"]["/"]["get"]["responses"]
    assert {"200", "304", "401", "403", "429", "503"} <= answers.keys()
    stated = answers["200"]["content"]
    assert stated.keys() == {"application/json", "text/html"}
    schema = {**stated["application/json"]["schema"], "components": described["components"]}
    Draft202012Validator(schema).validate(client.get("/").json())
    Draft202012Validator(stated["text/html"]["schema"]).validate(page_of(client).text)


# -- that it is answered what it asks --------------------------------------------------------------------------------


def test_what_it_asks_is_there(client: Client, page: Page) -> None:
    asked = set(re.findall(r'\b(?:ask|get)\("([^"]+)"', page.script)) - {"Retry-After"}
    elsewhere = {".well-known/aip.json", ".well-known/agent-intake.json"}
    assert asked == {".well-known/ai-discovery", "collections", "search", *elsewhere}
    named = set(re.findall(r"`(collections/)\$\{[^}]*\}/(\w+)", page.script))
    assert {name for _, name in named} == {"profile", "browse", "suggest"}
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/.well-known/ai-discovery", "/collections", "/search"} <= paths.keys()
    assert {f"/collections/{{name}}/{name}" for _, name in named} <= paths.keys()


def asks(
    client: Client, headers: dict[str, str] | None = None, *, text: bool = True, **members: str | int
) -> httpx.Response:
    """A search as the page sends it."""
    body = {**members, "return": {"text": text, "metadata": False}}
    kinds = {"accept": "application/json", "content-type": "application/json"}
    return client.request("POST", "/search", json=body, headers={**kinds, **(headers or {})})


def test_its_next_page_goes_on_in_the_mode_of_the_first(client: Client) -> None:
    first = asks(client, query="alpha", collection="docs", top_k=4).json()
    mode, cursor = first["meta"]["mode"], first["meta"]["next_cursor"]
    second = asks(client, query="alpha", collection="docs", top_k=4, mode=mode, cursor=cursor).json()
    found: Sequence[Any] = first["results"] + second["results"]
    assert len({one["id"] for one in found}) == len(found) == 7
    assert all({"id", "score", "source", "text"} <= one.keys() for one in found)
    assert "next_cursor" not in second["meta"]


def test_it_is_told_which_collection_is_meant_and_how_it_can_be_searched(client: Client) -> None:
    about = client.get("/.well-known/ai-discovery").json()
    assert (about["defaults"]["collection"], about["auth"]["type"]) == ("docs", "bearer")
    [space] = [one for one in about["embedding_spaces"] if one["query_text"]]
    listed = {one["name"]: one for one in client.get("/collections").json()["collections"]}
    assert space["id"] in listed["docs"]["embedding_spaces"]
    assert space["id"] not in listed["textless"]["embedding_spaces"]
    assert listed["docs"]["document_count"] == 7


def test_a_default_collection_that_is_hidden_is_not_named(client: Client) -> None:
    with serving(client.store, CONFIGURATION.replace('"docs"', '"archive"')) as hiding:
        assert "collection" not in hiding.get("/.well-known/ai-discovery").json()["defaults"]
        assert hiding.get("/.well-known/ai-discovery", BEARING).json()["defaults"]["collection"] == "archive"


def test_it_sees_what_its_key_opens(client: Client) -> None:
    def seen(headers: dict[str, str]) -> set[str]:
        return {one["name"] for one in client.get("/collections", headers).json()["collections"]}

    assert seen({}) == {"docs", "textless"}
    assert seen(BEARING) == {"docs", "textless", "archive"}
    hidden = asks(client, query="gamma", collection="archive")
    assert (hidden.status_code, hidden.json()["message"]) == (404, "there is no collection 'archive'")
    [found] = asks(client, BEARING, query="gamma", collection="archive").json()["results"]
    assert found["source"]["title"] == "SECRET"


def test_where_no_text_is_given_it_learns_so_and_asks_without(client: Client, page: Page) -> None:
    refused = asks(client, query="beta", collection="textless")
    assert refused.json()["error"] == "unsupported_return_field"
    assert f'"{refused.json()["error"]}"' in page.script
    again = asks(client, text=False, query="beta", collection="textless")
    assert [one["id"] for one in again.json()["results"]] == ["t#chunk_1"]
