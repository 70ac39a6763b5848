"""Signed chunks, verified by libraries that others wrote."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given, settings, strategies as st
from joserfc import jws
from joserfc.errors import BadSignatureError, ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from aidre.api.protocols.provenance.keys import KeyRing, make_key
from aidre.api.protocols.provenance.signers import ChunkClaims, ChunkSigner, canonical_json
from tests.support.clocks import Clock
from tests.support.properties import REPEATABLE
from tests.support.signatures import verified_chunk

ISSUER = "https://example.com"
MONTH = 30 * 86_400
CLAIMS = ChunkClaims("docs", "a b#chunk_1", "sha256:" + "0" * 64, "https://example.com/ä", "2026-04-01T10:00:00Z")


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@settings(REPEATABLE, max_examples=50)
@given(
    st.dictionaries(
        st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1), st.one_of(TEXT, st.none(), st.integers(0, 2**53 - 1))
    )
)
def test_claims_are_written_as_rfc_8785_writes_them(claims: dict[str, Any]) -> None:
    assert canonical_json(claims) == rfc8785.dumps(claims)


def test_a_chunk_is_signed_with_all_that_it_claims(ring: KeyRing, clock: Clock) -> None:
    header, claims = verified_chunk(ChunkSigner(ring, ISSUER, MONTH, clock=clock).sign(CLAIMS), ring.keys.document())
    assert header == {"alg": "Ed25519", "kid": ring.signing.public.id, "typ": "aidre-provenance+jws"}
    assert claims == {
        "iss": ISSUER,
        "sub": "a b#chunk_1",
        "collection": "docs",
        "content_hash": CLAIMS.content_hash,
        "source_url": "https://example.com/ä",
        "updated_at": "2026-04-01T10:00:00Z",
        "iat": int(clock.now),
        "exp": int(clock.now) + MONTH,
    }


def test_a_chunk_without_an_address_says_so(ring: KeyRing) -> None:
    signed = ChunkSigner(ring, ISSUER, MONTH).sign(replace(CLAIMS, source_url=None))
    assert verified_chunk(signed, ring.keys.document())[1]["source_url"] is None


def test_every_flipped_character_of_a_chunks_signature_is_found(ring: KeyRing) -> None:
    token = ChunkSigner(ring, ISSUER, MONTH).sign(CLAIMS)
    keys = KeySet.import_key_set(orjson.loads(ring.keys.document()))
    assert jws.deserialize_compact(token, keys, algorithms=["Ed25519"])
    for place in range(0, len(token) - 1):  # of the last character two bits are of no byte
        other = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        with pytest.raises((JoseError, ValueError)):
            jws.deserialize_compact(other, keys, algorithms=["Ed25519"])


def test_another_publishers_key_does_not_verify(ring: KeyRing, tmp_path: Path) -> None:
    token = ChunkSigner(ring, ISSUER, MONTH).sign(CLAIMS)
    make_key(tmp_path / "other.pem", 0.0)
    document = orjson.loads(KeyRing(tmp_path / "other.pem").keys.document())
    with pytest.raises((JoseError, ValueError)):
        verified_chunk(token, orjson.dumps(document))
    document["keys"][0]["kid"] = ring.signing.public.id
    with pytest.raises(BadSignatureError):
        verified_chunk(token, orjson.dumps(document))


def test_a_signature_is_kept_until_half_of_its_lifetime_and_no_longer(ring: KeyRing, clock: Clock) -> None:
    signer = ChunkSigner(ring, ISSUER, 100, clock=clock)
    clock.now = 1_000_000.9
    first = signer.sign(CLAIMS)
    clock.now = 1_000_049.9
    assert signer.sign(CLAIMS) == first
    assert signer.sign(replace(CLAIMS, updated_at="2026-04-02T10:00:00Z")) != first
    clock.now = 1_000_050.0
    assert signer.sign(CLAIMS) != first
    clock.now = 1_000_000.0
    assert signer.sign(CLAIMS) == first  # a clock that was set back: nothing that claims to be of the future


def test_no_lifetime_is_longer_than_keys_stay_published(ring: KeyRing) -> None:
    assert ChunkSigner(ring, ISSUER, 400 * 86_400).lifetime == MONTH


def test_an_expired_signature_is_refused_by_the_verifier(ring: KeyRing, clock: Clock) -> None:
    clock.now -= 101
    with pytest.raises(ExpiredTokenError):
        verified_chunk(ChunkSigner(ring, ISSUER, 100, clock=clock).sign(CLAIMS), ring.keys.document())


def test_few_signatures_are_remembered_and_those_that_are_asked_for_stay(ring: KeyRing, clock: Clock) -> None:
    signer = ChunkSigner(ring, ISSUER, 1_000, clock=clock, cache_size=2)
    one, two, three = (replace(CLAIMS, chunk_id=name) for name in "abc")
    first = signer.sign(one)
    second = signer.sign(two)
    clock.now += 1
    assert signer.sign(one) == first
    signer.sign(three)
    assert signer.sign(one) == first
    assert signer.sign(two) != second


def test_after_rotation_old_signatures_hold_and_no_more_are_made(path: Path, clock: Clock) -> None:
    ring = KeyRing(path)
    signer = ChunkSigner(ring, ISSUER, MONTH, clock=clock)
    former, mark = signer.sign(CLAIMS), signer.mark
    make_key(path, clock.now)
    ring.refresh()
    ring.signing = ring.keys.signing
    assert signer.mark != mark
    assert verified_chunk(former, ring.keys.document())[0]["kid"] != ring.signing.public.id
    assert verified_chunk(signer.sign(CLAIMS), ring.keys.document())[0]["kid"] == ring.signing.public.id


def test_who_holds_a_chunk_under_the_present_mark_may_keep_it_and_its_signature_stays_good(
    ring: KeyRing, clock: Clock
) -> None:
    worker, other = (ChunkSigner(ring, ISSUER, 100, clock=clock) for _ in range(2))
    held: dict[str, str] = {}
    for second in range(400):
        clock.now = 1_000_000.0 + second
        signed = (worker if second % 3 else other).sign(CLAIMS)
        held.setdefault(worker.mark, signed)
        payload = held[worker.mark].split(".")[1]
        assert orjson.loads(base64.urlsafe_b64decode(payload + "=="))["exp"] >= clock.now + worker.fresh
    assert len(held) == 16
