"""Where a token stops being valid: its times, its subject, its header, and the algorithm of its key."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from joserfc.jwk import Key, OKPKey, RSAKey

from aidre.api.access.credentials import Grant
from aidre.api.access.jwt import MAX_SUBJECT_CHARS
from aidre.api.http.http_errors import Unauthorized
from tests.support.issuer import EC, ED, NOW, Issuer, oauth, signed, without

LEEWAY = oauth().leeway


def grant(token: bytes, *keys: Key, **settings: Any) -> Grant | None:
    """The grant of a token, None where it is refused."""

    async def ask() -> Grant | None:
        verifier = Issuer(*(keys or (EC,))).tokens(oauth(**settings))
        await verifier.open()
        try:
            return await verifier.grant(token)
        except Unauthorized:
            return None

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("claims", "is_valid"),
    [
        ({"nbf": int(NOW + LEEWAY)}, True),
        ({"nbf": int(NOW + LEEWAY) + 1}, False),
        ({"iat": int(NOW + LEEWAY)}, True),
        ({"iat": int(NOW + LEEWAY) + 1}, False),
        ({"exp": int(NOW - LEEWAY) + 1}, True),
        ({"exp": int(NOW - LEEWAY)}, False),
        ({"exp": 2**53 - 1}, True),
        ({"exp": 2**53}, False),
        ({"sub": "x"}, True),
        ({"sub": "x" * MAX_SUBJECT_CHARS}, True),
        ({"sub": "x" * (MAX_SUBJECT_CHARS + 1)}, False),
    ],
)
def test_a_claim_is_valid_up_to_its_bound(claims: dict[str, Any], is_valid: bool) -> None:
    assert (grant(signed(without(**claims))) is not None) is is_valid


@pytest.mark.parametrize("header", [{"b64": True}, {"crit": ["b64"], "b64": True}, {"crit": []}])
def test_extensions_of_the_header_are_refused(header: dict[str, Any]) -> None:
    assert grant(signed()) is not None
    assert grant(signed(**header)) is None


def test_a_key_verifies_its_own_algorithm_alone() -> None:
    algorithms = ("RS256", "PS256")
    for alg in algorithms:
        key = RSAKey.generate_key(2_048, {"kid": "r", "alg": "RS256"})
        private = RSAKey.import_key({**key.as_dict(private=True), "alg": alg})
        found = grant(signed(alg=alg, key=private), key, algorithms=algorithms)
        assert (found is not None) is (alg == "RS256")


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by the library that signs here
@pytest.mark.parametrize("of_key", ["Ed25519", "EdDSA", None])
@pytest.mark.parametrize("of_token", ["Ed25519", "EdDSA"])
def test_both_names_of_one_algorithm_are_taken_whichever_the_key_has(of_key: str | None, of_token: str) -> None:
    published = OKPKey.import_key({**ED.as_dict(private=False), **({"alg": of_key} if of_key else {})})
    token = signed(alg=of_token, key=ED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grant(token, published) is not None
    assert grant(token[:-8] + b"AAAAAAAA", published) is None


def test_without_a_claim_for_collections_only_scopes_open_them() -> None:
    found = grant(signed(without(collections=["vault"])))
    assert found is not None and found.caller.collections == frozenset()
