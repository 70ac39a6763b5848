"""The settings that the documentation gives for proxies, in the proxies themselves: signatures hold for the addresses
that clients asked for, whatever a proxy makes of them on the way."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import pytest

from aidre.api.protocols.provenance.keys import make_key
from tests import ROOT
from tests.integration.proxies import PROXIES, proxied
from tests.support.clients import AGENTS, AIDRE, TEXT, a_document, fill
from tests.support.issuer import AUDIENCE, EC, ISSUER, public
from tests.support.servers import served
from tests.support.signatures import Received, verified_answer, verified_chunk

pytestmark = [pytest.mark.process, pytest.mark.slow]

ORIGIN = "http://localhost"
BASE = f"{ORIGIN}/ai"
IDS = ("notes/sub/a.md", "https://x.example/b?c=d%2Fe&f", "ä b/100%")
SPELLINGS = (
    "/chunks/notes%2Fsub%2Fa.md%23chunk_1",
    "/chunks/notes/sub/a.md%23chunk_1?collection=notes",
    "/chunks/notes%2fsub%2fa%2Emd%23chunk_1?collection=notes&x=%2F",
    "/chunks/https%3A%2F%2Fx.example%2Fb%3Fc%3Dd%252Fe%26f%23chunk_1",
    "/chunks/%C3%A4%20b%2F100%25%23chunk_1",
)


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("p")
    make_key(folder / "keys.pem", time.time())
    (folder / "jwks.json").write_bytes(public(EC))
    fill(folder / "store", "notes", [a_document(one, "alpha") for one in IDS], (TEXT,))
    configuration = f"""
[server]
base_url = "{BASE}"
origin = "{ORIGIN}"
tls = "proxy"
trusted_proxies = ["127.0.0.1"]
[provenance]
key = "{folder / "keys.pem"}"
[oauth]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
jwks = "{folder / "jwks.json"}"
{AGENTS.replace("docs", "notes")}"""
    with served(folder / "store", configuration) as (server, _), proxied(request.param, server.port, folder) as client:
        yield client


@pytest.fixture(scope="module")
def keys(proxy: httpx.Client) -> bytes:
    return proxy.get(f"{ORIGIN}/.well-known/aidre-keys.json").content


WELL_KNOWN = [
    "ai-discovery",
    "api-catalog",
    "ai-catalog.json",
    "mcp/server-card.json",
    "aidre-keys.json",
    "aip.json",
    "agent-intake.json",
    "oauth-protected-resource",
    "oauth-protected-resource/ai/mcp",
]


def test_the_table_of_the_documentation_is_what_these_tests_ask_for() -> None:
    text = (ROOT / "docs/proxies.md").read_text("utf-8").partition("## Well-known documents")[2]
    assert set(re.findall(r"^\| `([\w./-]+)`", text, re.M)) == {name.removesuffix("/ai/mcp") for name in WELL_KNOWN}


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_a_well_known_document_is_at_the_root_of_the_website(name: str, proxy: httpx.Client, keys: bytes) -> None:
    response = proxy.get(f"{ORIGIN}/.well-known/{name}")
    assert response.status_code == 200, response.text
    verified_answer(Received.of(response, f"{ORIGIN}/.well-known/{name}"), keys)
    verified_answer(Received.of(ask(proxy, f"/.well-known/{name}"), f"{BASE}/.well-known/{name}"), keys)


REST = (
    "/",
    "/aid",
    "/collections",
    "/page/ai/collections",
    "/.well-known/security.txt",
    "/.well-known/ai-discovery/more",
    "/.well-known/aip.json.txt",
    "/.well-known/oauth-protected-resources",
)


def test_the_rest_of_the_website_is_its_own(proxy: httpx.Client) -> None:
    for path in REST:
        response = proxy.get(ORIGIN + path)
        assert response.status_code in {403, 404}, path
        assert "signature" not in response.headers, f"aidre answers {path}"


@pytest.mark.parametrize("target", SPELLINGS)
def test_a_signed_chunk_verifies_for_the_address_that_was_asked_for(
    target: str, proxy: httpx.Client, keys: bytes
) -> None:
    response = ask(proxy, target)
    assert response.status_code == 200, response.text
    verified_answer(Received.of(response, BASE + target), keys)
    _, claims = verified_chunk(response.json()["metadata"]["provenance"], keys)
    assert claims["sub"].removesuffix("#chunk_1") in IDS


def ask(proxy: httpx.Client, target: str, **headers: str) -> httpx.Response:
    """The answer to this target as it is written: httpx would encode some characters anew."""
    request = proxy.build_request("GET", BASE, headers=headers)
    request.extensions["target"] = ("/ai" + target).encode()
    return proxy.send(request)


@pytest.mark.parametrize("target", ["/chunks/no%2Fsuch", "/chunks/a//b", "/nowhere/%2E%2E/%41", "/collections?x=%41"])
def test_other_answers_verify_too(target: str, proxy: httpx.Client, keys: bytes) -> None:
    verified_answer(Received.of(ask(proxy, target), BASE + target), keys)


def test_an_answer_to_post_verifies_with_compression_asked_for(proxy: httpx.Client, keys: bytes) -> None:
    body = {"query": "alpha", "collection": "notes", "mode": "lexical"}
    response = proxy.post(f"{BASE}/search", json=body, headers={"content-type": AIDRE, "accept-encoding": "gzip, br"})
    assert response.status_code == 200, response.text
    assert "content-encoding" not in response.headers
    verified_answer(Received.of(response, f"{BASE}/search"), keys)


def test_the_header_of_a_client_is_replaced(proxy: httpx.Client, keys: bytes) -> None:
    response = ask(proxy, SPELLINGS[0], **{"x-original-uri": "/ai" + SPELLINGS[1].partition("?")[0]})
    verified_answer(Received.of(response, BASE + SPELLINGS[0]), keys)
