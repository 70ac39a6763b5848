"""Agentic Intent through the client: signed requests, verified answers, denials, and citation events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import aidre_client
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, read_events
from tests.support.fault_proxy import (
    RESET_AFTER,
    RESET_BEFORE,
    Failing,
    Fault,
    FaultyServer,
    answering,
    faulty,
    foreign,
    refusal,
)
from tests.support.publishers import CONFIGURATION, SECRET, fill_news
from tests.support.remote import connected

NUMBERS = count()
DOMAIN = "finance.markets"


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("news")
    fill_news(folder)
    return folder


@pytest.fixture(scope="module")
def publisher(news: Path) -> Iterator[FaultyServer]:
    keys = "".join(f'platform-{number} = "{SECRET}-{number}"\n' for number in range(50))
    configuration = CONFIGURATION.replace("[server]", '[server]\nbase_url = "{base}"') + keys
    with faulty(news, configuration) as (proxy, _):
        yield proxy


@pytest.fixture
def proxy(publisher: FaultyServer) -> Iterator[FaultyServer]:
    publisher.plan = lambda asked: None
    publisher.asked.clear()
    yield publisher
    publisher.plan = lambda asked: None


def platform(client: aidre_client.Client) -> aidre_client.Intent:
    """A platform that was given nothing yet."""
    number = next(NUMBERS)
    return client.intent(f"platform-{number}", f"{SECRET}-{number}")


def test_passages_are_retrieved_and_cited(proxy: FaultyServer, news: Path) -> None:
    with connected(proxy.url, verify="required") as client, pytest.raises(aidre_client.VerificationFailed):
        platform(client).retrieve("alpha", DOMAIN)  # the declaration is not signed
    with connected(proxy.url) as client:
        intent = platform(client)
        assert DOMAIN in intent.declaration.editorial_domains
        found = intent.retrieve("alpha", "finance", subdomain="markets")
        assert found.passages
        assert {one.id for one in found.passages} == {one for citation in found.citations for one in citation.chunk_ids}
        event = intent.cite(found, found.citations[0])
        kept = [one for one in read_events(news / ".log" / LEDGER_FILE) if one["event_id"] == event]
        assert [one["request_id"] for one in kept] == [found.request_id]


def test_each_attempt_is_signed_anew_and_counts_once(proxy: FaultyServer, news: Path) -> None:
    waits: list[float] = []
    faults = (refusal(429, Retry_After="7"), RESET_BEFORE, refusal(503, Retry_After="9"), RESET_AFTER)
    with connected(proxy.url, waits) as client:
        intent = platform(client)
        proxy.plan = Failing(faults, "/aip/retrieve")
        found = intent.retrieve("alpha", DOMAIN)
        assert found.passages
        assert [wait for wait in waits if wait > 5] == [7.0, 9.0]
        nonces = {line for asked in proxy.asked for line in asked.head.split(b"\r\n") if b"nonce" in line.lower()}
        assert len(nonces) == 5
        proxy.plan = Failing(faults, "/aip/events")
        event = intent.cite(found, found.citations[0])
        kept = [one for one in read_events(news / ".log" / LEDGER_FILE) if one["event_id"] == event]
        assert len(kept) == 1


def test_a_denial_has_its_reason(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        with pytest.raises(aidre_client.AccessDenied) as caught:
            platform(client).retrieve("alpha", "sports")
        assert (caught.value.details["error"], caught.value.details["reason"]) == ("denied", "out_of_scope")
        assert caught.value.details["request_id"].startswith("req_")
        with pytest.raises(aidre_client.AccessDenied) as caught:
            client.intent("platform-49", "a wrong secret").retrieve("alpha", DOMAIN)
        assert caught.value.details["error"] == "auth_failed"
        with pytest.raises(aidre_client.RequestFailed) as failed:
            platform(client).retrieve("alpha", "No Domain")
        assert failed.value.details["status"] == 422


@pytest.mark.parametrize(("key", "secret", "version"), [("", "s", "0.1"), ("k", "", "0.1"), ("k", "s", "2.0")])
def test_a_misuse_is_invalid_input(key: str, secret: str, version: str) -> None:
    with aidre_client.connect("http://127.0.0.1") as client, pytest.raises(aidre_client.InvalidInput):
        client.intent(key, secret, version=version)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_changed_byte_of_a_signed_answer_fails_the_verification(proxy: FaultyServer) -> None:
    with connected(proxy.url, attempts=1) as client:
        intent = client.intent("platform", SECRET)
        intent.retrieve("alpha", "archive")
        whole = list[bytes]()

        def kept(answer: bytes) -> bytes:
            whole.append(answer)
            return answer

        proxy.plan = lambda asked: Fault(change=kept) if "retrieve" in asked.target else None
        with pytest.raises(aidre_client.AccessDenied):
            intent.retrieve("alpha", "sports")
        body = whole[0].index(b"\r\n\r\n") + 4
        names = [b"x-aip-timestamp: ", b"x-aip-nonce: ", b"x-aip-signature: ", b"x-aip-key-id: "]
        starts = [whole[0].lower().index(name) + len(name) for name in names]
        for position in [*range(body, len(whole[0]), 7), *starts, *(start - 4 for start in starts)]:

            def change(answer: bytes, position: int = position) -> bytes:
                return answer[:position] + bytes([answer[position] ^ 1]) + answer[position + 1 :]

            proxy.plan = lambda asked, change=change: Fault(change=change) if "retrieve" in asked.target else None  # type: ignore[misc]
            with pytest.raises(aidre_client.VerificationFailed):
                intent.retrieve("alpha", "sports")


def test_an_answer_to_another_request_is_refused(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        intent = platform(client)
        whole = list[bytes]()

        def kept(answer: bytes) -> bytes:
            whole.append(answer)
            return answer

        proxy.plan = lambda asked: Fault(change=kept) if "retrieve" in asked.target else None
        intent.retrieve("alpha", DOMAIN)
        proxy.plan = lambda asked: Fault(answer=whole[0]) if "retrieve" in asked.target else None
        with pytest.raises(aidre_client.VerificationFailed, match="another request"):
            intent.retrieve("alpha", DOMAIN)


def test_a_publisher_without_endpoints_is_unsupported() -> None:
    declaration = {
        "aip_version": "0.1",
        "publisher": {"id": "p1", "name": "P", "domain": "p.example"},
        "editorial_domains": ["a"],
        "intent_access": {},
        "retrieval": {},
        "compliance": {},
    }
    with (
        foreign(
            lambda asked: (
                answering(200, json.dumps(declaration).encode())
                if asked.target.endswith("aip.json")
                else answering(404, b"{}")
            )
        ) as proxy,
        connected(proxy.url) as client,
        pytest.raises(aidre_client.Unsupported),
    ):
        client.intent("k", "s").retrieve("alpha", "a")
