"""What is verified of servers whose signers and keys change while they run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import aidre_client
from aidre.api.protocols.provenance.keys import KeyRing, make_key
from tests.support.remote import connected, signing

CHUNK = "a b/7#chunk_1"


def test_an_old_answer_does_not_hold(store: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signing(store, key_file) as (proxy, server), connected(proxy.url) as client:
        _ = client.discovery
        signer = server.app.state.provenance.answers
        for away in (-3_000, 3_000):
            monkeypatch.setattr(signer, "_clock", lambda away=away: time.time() + away)
            with pytest.raises(aidre_client.VerificationFailed):
                client.collections()
        monkeypatch.setattr(signer, "_clock", lambda: time.time() - 30)
        assert client.collections() == ["docs"]


def test_a_new_key_is_found_and_another_one_is_not_trusted(store: Path, key_file: Path, tmp_path: Path) -> None:
    with signing(store, key_file) as (proxy, server), connected(proxy.url) as client:
        docs = client.collection("docs")
        docs.chunk(CHUNK)
        make_key(key_file, time.time())
        ring = server.app.state.provenance.ring
        ring._read()
        ring.signing = ring.keys.signing
        assert docs.chunk(CHUNK).provenance
        assert docs.search("alpha", k=1)
        asked = sum(one.target.endswith("aidre-keys.json") for one in proxy.asked)
        assert asked == 2
        make_key(tmp_path / "other.pem", time.time())
        ring.signing = KeyRing(tmp_path / "other.pem").signing
        for _ in range(3):
            with pytest.raises(aidre_client.VerificationFailed):
                docs.search("alpha", k=1)
        assert sum(one.target.endswith("aidre-keys.json") for one in proxy.asked) == 3, "asked for once a minute"


def test_a_signed_chunk_that_was_replaced_with_a_digest_of_its_own_does_not_hold(store: Path, key_file: Path) -> None:
    """Where answers are signed by somebody who may sign answers, the statement about the chunk has to hold still."""
    with signing(store, key_file) as (proxy, server), connected(proxy.url) as client:
        docs = client.collection("docs")
        docs.chunk(CHUNK)
        signer, other = server.app.state.provenance.chunks, docs.chunk("a b/8#chunk_1").provenance
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(signer, "sign", lambda claims: other)
            with pytest.raises(aidre_client.VerificationFailed, match="differs from what was signed") as caught:
                docs.chunk(CHUNK)
            assert caught.value.details["members"] == ["content_hash", "source_url", "sub"]
            patched.setattr(signer, "sign", lambda claims: "a.b.c")
            with pytest.raises(aidre_client.VerificationFailed):
                docs.chunk(CHUNK)
