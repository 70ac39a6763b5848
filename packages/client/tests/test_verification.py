"""A changed byte anywhere fails the verification; so do old signatures, other keys, and keys of another origin."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aidre_client
from aidre_client.exchange import Retry
from aidre_client.messages import ChunkAnswer, Source
from aidre_client.verification import check_claims
from tests.support.clocks import Clock
from tests.support.fault_proxy import Asked, Fault, FaultyServer, answering, foreign, refusal
from tests.support.remote import connected, signing

CHUNK = "a b/7#chunk_1"
SIGNED = "/chunks/"


def changed_at(position: int) -> Callable[[bytes], bytes]:
    return lambda answer: answer[:position] + bytes([answer[position] ^ 1]) + answer[position + 1 :]


def on(prefix: str, change: Callable[[bytes], bytes]) -> Callable[[Asked], Fault | None]:
    return lambda asked: Fault(change=change) if asked.target.startswith(prefix) else None


@pytest.mark.parametrize("algorithm", ["Ed25519", "EdDSA"])
def test_what_a_server_signs_holds(store: Path, key_file: Path, algorithm: str) -> None:
    configuration = f'alg = "{algorithm}"'
    with signing(store, key_file, configuration) as (proxy, _), connected(proxy.url, verify="required") as client:
        docs = client.collection("docs")
        assert docs.search("alpha word 7", k=1)[0].text == "alpha word 7"
        assert docs.chunk(CHUNK).provenance
        assert len(list(docs.changes())) == 130
        assert client.nlweb.ask("alpha word 7").items
        with pytest.raises(aidre_client.CollectionMissing):
            client.collection("nope").search("alpha")
        assert sum(asked.target.endswith("aidre-keys.json") for asked in proxy.asked) == 1


@pytest.mark.slow
def test_a_changed_byte_anywhere_fails_the_verification_or_changes_nothing(store: Path, key_file: Path) -> None:
    """Every byte of a signed answer, of its head as well: fields that are not signed are not used."""
    with signing(store, key_file) as (proxy, _), connected(proxy.url, attempts=1) as client:
        docs = client.collection("docs")
        whole = list[bytes]()
        proxy.plan = on(SIGNED, lambda answer: whole.append(answer) or answer)  # type: ignore[func-returns-value]
        truth = docs.chunk(CHUNK)
        [answer] = whole
        body = answer.index(b"\r\n\r\n") + 4
        outcomes = {position: outcome(proxy, docs, position) for position in range(len(answer))}
        assert set(outcomes.values()) <= {"VerificationFailed", "RequestFailed", repr(truth)}
        assert {outcomes[position] for position in range(body, len(answer))} == {"VerificationFailed"}
        head, status = answer[:body].lower(), answer.index(b" ") + 1
        assert {outcomes[position] for position in range(status, status + 3)} == {"VerificationFailed"}
        for name in (b"content-digest: ", b"signature-input: ", b"signature: ", b"content-type: "):
            start = head.index(b"\r\n" + name) + 2 + len(name)
            positions = range(start, head.index(b"\r\n", start))
            assert {outcomes[position] for position in positions} == {"VerificationFailed"}, name


def outcome(proxy: FaultyServer, docs: aidre_client.RemoteCollection, position: int) -> str:
    proxy.plan = on(SIGNED, changed_at(position))
    try:
        return repr(docs.chunk(CHUNK))
    except aidre_client.AidreError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "target", ["/.well-known/ai-discovery", "/search", "/collections", "/ask", "/.well-known/aidre"]
)
def test_a_changed_byte_of_a_body_fails_on_every_route(store: Path, key_file: Path, target: str) -> None:
    with signing(store, key_file) as (proxy, _):
        for part in (0.0, 0.3, 0.6, 0.99):

            def change(answer: bytes, part: float = part) -> bytes:
                body = answer.index(b"\r\n\r\n") + 4
                return changed_at(body + int((len(answer) - body) * part))(answer)

            proxy.plan = on(target, change)
            with connected(proxy.url, attempts=1) as client, pytest.raises(aidre_client.VerificationFailed):
                client.collections()
                client.collection("docs").search("alpha")
                client.nlweb.ask("alpha")


def without_signature(answer: bytes) -> bytes:
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.lower().startswith(b"signature"))


def test_a_server_that_declares_to_sign_has_to(store: Path, key_file: Path) -> None:
    with signing(store, key_file) as (proxy, _):
        proxy.plan = on("/search", without_signature)
        with connected(proxy.url) as client, pytest.raises(aidre_client.VerificationFailed, match="not signed"):
            client.collection("docs").search("alpha")
        with connected(proxy.url, verify="off") as client:
            assert client.collection("docs").search("alpha", k=1)
        proxy.plan = lambda asked: answering(404, b'{"error":"not_found"}') if asked.target == "/search" else None
        with connected(proxy.url) as client, pytest.raises(aidre_client.VerificationFailed):
            client.collection("docs").search("alpha")
        proxy.plan = lambda asked: refusal(503) if asked.target == "/search" else None
        with connected(proxy.url, attempts=2) as client, pytest.raises(aidre_client.RequestFailed):
            client.collection("docs").search("alpha")


def test_a_server_that_does_not_sign_is_refused_where_that_is_required(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        assert client.collections() == ["docs"]
    with connected(proxy.url, verify="required") as client, pytest.raises(aidre_client.VerificationFailed) as caught:
        client.collections()
    assert caught.value.code == "verification_failed"
    assert caught.value.details["problem"] == "the answer is not signed"


def test_an_answer_to_another_request_does_not_hold(store: Path, key_file: Path) -> None:
    with signing(store, key_file) as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        kept = list[bytes]()
        proxy.plan = on(SIGNED, lambda answer: kept.append(answer) or answer)  # type: ignore[func-returns-value]
        docs.chunk(CHUNK)
        proxy.plan = lambda asked: Fault(answer=kept[0]) if asked.target.startswith(SIGNED) else None
        with pytest.raises(aidre_client.VerificationFailed, match="signature does not hold"):
            docs.chunk("a b/8#chunk_1")


def test_keys_are_read_again_after_an_hour(store: Path, key_file: Path) -> None:
    clock = Clock(time.time())
    with signing(store, key_file) as (proxy, _), connected(proxy.url) as client:
        client._session.verifier.retry = Retry(clock=clock)
        for away, asked in ((0, 1), (3_000, 1), (3_700, 2), (3_800, 2), (-10_000, 3)):
            clock.now = time.time() + away
            client.collections()
            assert sum(one.target.endswith("aidre-keys.json") for one in proxy.asked) == asked


def test_keys_of_another_origin_are_not_trusted(store: Path, key_file: Path) -> None:
    with signing(store, key_file) as (proxy, _):
        elsewhere = proxy.url.replace("127.0.0.1", "localhost")
        with connected(elsewhere) as client, pytest.raises(aidre_client.VerificationFailed, match="trust="):
            client.collections()
        with connected(elsewhere, trust=proxy.url) as client, pytest.raises(aidre_client.VerificationFailed):
            client.collections()  # the document was signed for the other address
        with connected(elsewhere, verify="off") as client:
            assert client.collections() == ["docs"]


def test_a_signed_discovery_document_that_names_no_keys_does_not_hold(store: Path, key_file: Path) -> None:
    def renamed(answer: bytes) -> bytes:
        head, _, body = answer.partition(b"\r\n\r\n")
        body = body.replace(b'"provenance":{"issuer"', b'"provenancf":{"issuer"')
        digest = base64.b64encode(hashlib.sha256(body).digest())
        lines = [
            b"content-digest: sha-256=:" + digest + b":" if line.lower().startswith(b"content-digest") else line
            for line in head.split(b"\r\n")
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    with signing(store, key_file) as (proxy, _):
        proxy.plan = on("/.well-known/ai-discovery", renamed)
        with connected(proxy.url) as client, pytest.raises(aidre_client.VerificationFailed, match="names no keys"):
            client.collections()


def declared(proxy_url: str) -> bytes:
    keys = {"jwks_uri": f"{proxy_url}/keys", "typ": "aidre-provenance+jws", "responses": {}}
    return json.dumps({"version": "1", "endpoints": {"collections": "/c"}, "provenance": keys}).encode()


@pytest.mark.parametrize("keys", [b"", b"[]", b'{"keys":[{"kty":"OKP"}]}', b'{"keys":7}'])
def test_a_set_of_keys_that_is_none_fails_the_verification(keys: bytes) -> None:
    signature = {"Signature_Input": "aidre=();created=1;tag=aidre-provenance", "Signature": "aidre=:AA==:"}

    def plan(asked: Asked) -> Fault:
        host = next(line for line in asked.head.split(b"\r\n") if line.lower().startswith(b"host:"))
        body = {"/.well-known/ai-discovery": declared("http://" + host[6:].decode()), "/keys": keys}
        return answering(200, body[asked.target], **signature)

    with foreign(plan) as proxy, connected(proxy.url) as client, pytest.raises(aidre_client.VerificationFailed):
        client.collections()


# -- digests and encodings ---------------------------------------------------------------------------------------------


def digest_of(body: bytes, name: str = "sha256") -> str:
    return base64.b64encode(hashlib.new(name, body).digest()).decode()


LISTED = b'{"collections":[]}'


@pytest.mark.parametrize(
    ("digest", "holds"),
    [
        (f"sha-256=:{digest_of(LISTED)}:", True),
        (f"sha-512=:{digest_of(LISTED, 'sha512')}:, sha-256=:{digest_of(LISTED)}:", True),
        (f"sha-512=:{digest_of(LISTED, 'sha512')}:, sha-256=:{digest_of(b'')}:", False),
        (f"unixsum=:AA==:, sha-256=:{digest_of(LISTED)}:", True),
        ("sha-256=:AA:", False),
        ("sha-256=AA==", False),
        ("md5=:AA==:", False),
        ("", False),
    ],
)
def test_every_known_digest_has_to_hold(digest: str, holds: bool) -> None:
    def plan(asked: Asked) -> Fault:
        if asked.target == "/c":
            return answering(200, LISTED, Content_Digest=digest)
        return answering(200, b'{"version":"1","endpoints":{"collections":"/c"}}')

    with foreign(plan) as proxy, connected(proxy.url) as client:
        if holds:
            assert client.collections() == []
        else:
            with pytest.raises(aidre_client.VerificationFailed):
                client.collections()


def test_a_digest_is_that_of_the_encoded_body() -> None:
    packed = gzip.compress(LISTED)

    def plan(asked: Asked) -> Fault:
        assert b"accept-encoding: identity" in asked.head.lower()
        if asked.target == "/c":
            digest = f"sha-256=:{digest_of(packed)}:"
            return answering(200, packed, Content_Encoding="gzip", Content_Digest=digest)
        return answering(200, b'{"version":"1","endpoints":{"collections":"/c"}}')

    with foreign(plan) as proxy, connected(proxy.url) as client:
        assert client.collections() == []


@pytest.mark.parametrize(
    ("coding", "body"), [("gzip", b"x"), ("br", LISTED), ("gzip", gzip.compress(LISTED, mtime=0)[:-3])]
)
def test_an_encoding_that_cannot_be_read_is_a_failed_request(coding: str, body: bytes) -> None:
    plan = lambda asked: answering(200, body, Content_Encoding=coding)  # noqa: E731
    with foreign(plan) as proxy, connected(proxy.url) as client, pytest.raises(aidre_client.RequestFailed):
        client.collections()


# -- what is signed of a chunk -----------------------------------------------------------------------------------------

TEXT = "a text"
NOW = 1_000_000.0
CLAIMS: dict[str, Any] = {
    "iss": "https://x.example",
    "sub": "d#1",
    "collection": "docs",
    "content_hash": "sha256:" + hashlib.sha256(TEXT.encode()).hexdigest(),
    "source_url": "https://x.example/d",
    "updated_at": "2026-04-01T10:00:00Z",
    "iat": NOW - 10,
    "exp": NOW + 10,
}
STATED = {name: CLAIMS[name] for name in ("content_hash", "updated_at")}


def a_chunk(text: str | None = TEXT) -> ChunkAnswer:
    return ChunkAnswer("d#1", "docs", Source("https://x.example/d"), STATED, text)


def test_a_chunk_is_compared_with_what_was_signed_of_it() -> None:
    check_claims("u", a_chunk(), CLAIMS, "https://x.example", NOW)
    check_claims("u", a_chunk(None), CLAIMS, "https://x.example", NOW)
    for name in CLAIMS:
        for other in (None, "other", NOW + 1e6 if name == "iat" else NOW - 1e6):
            with pytest.raises(aidre_client.VerificationFailed):
                check_claims("u", a_chunk(), {**CLAIMS, name: other}, "https://x.example", NOW)
    with pytest.raises(aidre_client.VerificationFailed):
        check_claims("u", a_chunk("another text"), CLAIMS, "https://x.example", NOW)
    with pytest.raises(aidre_client.VerificationFailed):
        check_claims("u", a_chunk(), CLAIMS, "https://y.example", NOW)
