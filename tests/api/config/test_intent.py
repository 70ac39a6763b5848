"""[intent] in aidre.toml, what follows from it, and what an operator is told, at start and by `status`."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from aidre.api.cli.main import run
from aidre.api.cli.select import check_granted_collections
from aidre.api.config.intent import Intent
from aidre.api.config.settings import load_settings, parse_settings
from aidre.api.protocols.intent import routes
from aidre.api.protocols.intent.limits import estimate_tokens, is_citable, session_chunk_limit
from aidre.api.protocols.intent.signing import parse_rfc3339
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from tests.support import publishers
from tests.support.clients import Client, a_document, fill
from tests.support.intent_platform import Platform
from tests.support.intent_schemas import RETRIEVE_RESPONSE, valid
from tests.support.publishers import CONFIGURATION, configured, fill_news, printed, publishing

store = publishers.own_store


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[intent]\nenabled = true", "intent.editorial_domains is empty"),
        ("[intent]\nmax_chunks = 0", "intent.max_chunks must be at least 1"),
        ("[intent]\nmax_tokens = -1", "intent.max_tokens must be at least 1"),
        ("[intent]\nmax_document_fraction = 0", "intent.max_document_fraction must be above 0"),
        ("[intent]\nmax_document_fraction = 1.5", "intent.max_document_fraction"),
        ("[intent]\nmax_document_fraction = nan", "intent.max_document_fraction"),
        ("[intent]\nstate = 'closed'", "intent.state must be one of"),
        ("[intent]\npublisher = { id = 'A' }", "intent.publisher.id"),
        ("[intent]\npublisher = { name = '' }", "intent.publisher.name"),
        ("[intent]\npublisher = { domain = 'https://example.com' }", "intent.publisher.domain"),
        ("[intent.editorial_domains.real-estate]\ncollection = 'a'", 'intent.editorial_domains."real-estate"'),
        ("[intent.editorial_domains.a]\ncollection = 'a'\nfilter = { and = 5 }", 'intent.editorial_domains."a".filter'),
        ("[intent.keys]\n'a b' = 'secret'", "'a b' is not a valid key id"),
        ("[intent.keys]\na = 's'\nb = 's'", "give every partner its own"),
        ("[intent.keys]\na = 'fifteen letters'", 'intent.keys."a" must have at least 16 characters'),
        ("[intent.compliance]\nsunset = 'soon'", "intent.compliance.sunset must be a date"),
        ("[intent.compliance]\nlast_updated = 5", "intent.compliance.last_updated must be a date"),
        ("[intent.compliance]\nrevocation_reason = 'whim'", "intent.compliance.revocation_reason"),
    ],
)
def test_a_wrong_key_is_named_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_secret_stands_in_a_complaint() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings("[intent.keys]\na = 'hidden words'\nb = 'hidden words'")
    assert "hidden" not in str(caught.value)


def test_the_declaration_was_last_updated_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "aidre.toml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    moment = datetime(2025, 3, 4, 12, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    assert load_settings(path).intent.compliance.last_updated == date(2025, 3, 4)
    path.write_text(CONFIGURATION + "[intent.compliance]\nlast_updated = 2024-01-02", encoding="utf-8")
    assert load_settings(path).intent.compliance.last_updated == date(2024, 1, 2)


@pytest.mark.parametrize(
    ("fraction", "chunks", "most"),
    [(0.5, 1, 0), (0.5, 2, 1), (0.5, 3, 1), (0.5, 10, 5), (0.29, 100, 29), (0.3, 10, 3), (1.0, 1, 0), (1.0, 7, 6)],
)
def test_a_fraction_is_rounded_down_and_never_all(fraction: float, chunks: int, most: int) -> None:
    assert session_chunk_limit(Intent(max_document_fraction=fraction), chunks) == most
    assert session_chunk_limit(Intent(max_document_fraction=fraction, full_article=True), chunks) == chunks


@pytest.mark.parametrize(
    ("url", "citable"),
    [
        ("https://example.com/a", True),
        ("http://example.com", True),
        (None, False),
        ("", False),
        ("/a", False),
        ("ftp://example.com/a", False),
        ("https:///a", False),
        ("https://[::1", False),
        ("urn:a:b", False),
        ("https://example.com/a b", False),
        ("https://example.com/ş", True),
    ],
)
def test_a_citation_needs_an_absolute_address(url: str | None, citable: bool) -> None:
    assert is_citable(url) is citable


def test_tokens_are_estimated_where_no_model_counts_them(tmp_path: Path) -> None:
    assert estimate_tokens("three little words") == 5
    assert estimate_tokens("a, b, c.") == 6
    assert estimate_tokens("単一サインオン") == 6
    assert estimate_tokens("") == 0


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01t00:00:01.25z", 1.25),
        ("1970-01-01T02:00:01+02:00", 1.0),
        ("2016-12-31T23:59:60Z", 1_483_228_800.0),
        ("1970-01-01T00:00:01", None),
        ("1970-01-01 00:00:01Z", None),
        ("1970-02-30T00:00:01Z", None),
        ("1970-01-01T25:00:01Z", None),
        ("1970-01-01T00:00:01+24:00", None),
        ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ("0000-01-01T00:00:00Z", None),
        ("٢٠٢٦-01-01T00:00:01Z", None),
        ("1970-01-01T00:00:01Z\n", None),
    ],
)
def test_instants_are_those_of_rfc_3339(text: str, instant: float | None) -> None:
    assert parse_rfc3339(text) == instant


def test_at_start_the_operator_is_told_what_can_never_be_served(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = CONFIGURATION.replace('collection = "vault"', 'collection = "absent"').replace(
        "[server]", "[server]\n" + ORIGIN
    )
    text = text.replace('topic = "metals"', 'topik = "metals"')
    with publishing(store, text) as (client, _), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "collection news: 1 of 10 documents have too few chunks" in said
    assert "collection news: 1 documents have no url" in said
    assert "collection absent: an editorial domain opens it, but it is not in the store" in said
    assert 'intent.editorial_domains."finance.markets.metals".filter: no document of news has topik' in said
    assert "has topic" not in said
    assert "intent.publisher.domain is 127.0.0.1, but aip.json is served at example.com" in said


def test_a_protocol_that_nobody_has_a_key_to_is_told_of(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    keyless = CONFIGURATION.partition("[intent.keys]")[0]
    with publishing(store, keyless) as (client, _), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
    assert "intent.keys is empty" in caplog.text


ORIGIN = 'base_url = "https://ai.example.com"\norigin = "https://example.com"'


def test_a_collection_that_returns_no_text_is_told_of(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = CONFIGURATION.replace('protocols = ["intent"]', 'protocols = ["aidre"]')
    with publishing(store, text) as (client, platform), caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intent.open())
        assert platform.retrieve()["denial"]["reason"] == "unsupported"
    assert 'it needs return_text, and "intent" among its protocols' in caplog.text


def test_status_tells_what_can_never_be_served(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = store.parent / "aidre.toml"
    _, lines, _ = printed(capsys, "status", "--store", store, "--config", config, "--json")
    warnings = {one["collection"]: one["warnings"] for one in map(json.loads, lines)}
    assert len(warnings["news"]) == 2
    assert warnings["vault"] == warnings["open"] == []
    _, lines, _ = printed(capsys, "status", "--store", store, "--config", config)
    assert any("too few chunks to be served by Agentic Intent" in line for line in lines)
    _, lines, _ = printed(capsys, "status", "--store", store, "--json")
    assert all(one["warnings"] == [] for one in map(json.loads, lines))


def test_a_domain_over_a_collection_that_is_not_there_does_not_start(tmp_path: Path) -> None:
    fill_news(tmp_path / "store")
    store = Store(tmp_path / "store")
    wrong = parse_settings(CONFIGURATION.replace('collection = "vault"', 'collection = "vaults"'))
    with pytest.raises(ConfigurationError, match=r"""intent\.editorial_domains\."archive" .*did you mean 'vault'\?"""):
        check_granted_collections(store, wrong)
    intake = parse_settings('[[intakes]]\nid = "ask"\ncollection = "zzz"')
    with pytest.raises(ConfigurationError, match=r"intake 'ask' opens collection 'zzz', .* it has news, open, vault"):
        check_granted_collections(store, intake)
    check_granted_collections(store, parse_settings(CONFIGURATION))
    (tmp_path / "empty").mkdir()
    check_granted_collections(Store(tmp_path / "empty"), wrong)


def test_a_server_that_opens_what_is_not_there_ends_in_one_line(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "aidre.toml"
    config.write_text(CONFIGURATION.replace('collection = "vault"', 'collection = "vaults"'), encoding="utf-8")
    for command in ("serve", "mcp"):
        assert run([command, "--store", str(store), "--config", str(config)]) == 2
        assert "did you mean 'vault'?" in capsys.readouterr().err


def test_the_description_covers_every_exchange(store: Path) -> None:
    with publishing(store) as (client, platform):
        described = client.get("/openapi.json").json()
        paths = {
            route.path: {method.lower() for method in route.methods or () if method != "HEAD"}
            for route in routes.routes
        }
        assert {path: set(described["paths"][path]) for path in paths} == paths
        for schema in described["components"]["schemas"].values():
            Draft202012Validator.check_schema(schema)
        for sent, path in exchanges(client, platform):
            stated = described["paths"][path]["post" if path in POSTED else "get"]["responses"][str(sent[0])]
            schema = stated["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": described["components"]}).validate(json.loads(sent[2]))
        discovered = client.get("/.well-known/ai-discovery").json()
        assert discovered["endpoints"]["intent"] == "http://127.0.0.1:8000/.well-known/aip.json"


POSTED = {"/aip/retrieve", "/aip/events"}


def exchanges(client: Client, platform: Platform) -> list[tuple[Any, str]]:
    answer = platform.retrieve()
    event = platform.citation(answer)
    shown = [(client.get(path), path) for path in ("/.well-known/aip.json", "/aip/capabilities")]
    posted: list[tuple[str, Any]] = [
        ("/aip/retrieve", platform.request()),
        ("/aip/retrieve", platform.request(domain="sports")),
        ("/aip/retrieve", {}),
        ("/aip/retrieve", b"{"),
        ("/aip/events", event),
        ("/aip/events", event),
        ("/aip/events", {**event, "event_type": "access"}),
        ("/aip/events", {**event, "request_id": "none"}),
    ]
    unsigned = client.request("POST", "/aip/retrieve")
    return [
        *(((response.status_code, {}, response.content), path) for response, path in shown),
        *((platform.post(path, body), path) for path, body in posted),
        ((unsigned.status_code, {}, unsigned.content), "/aip/retrieve"),
    ]


def test_a_collection_without_a_model_is_asked_by_words(tmp_path: Path) -> None:
    from tests.support.clients import COSINE

    fill(
        tmp_path,
        "news",
        [a_document("a", "alpha words here", url="https://example.com/a", metadata={"topic": "markets"})],
        (COSINE,),
    )
    with publishing(tmp_path, configured("full_article = true")) as (_, platform):
        answer = platform.retrieve(platform.request("words"))
        valid(RETRIEVE_RESPONSE, answer)
        assert [chunk["token_count"] for chunk in answer["content"]["chunks"]] == [4]
