"""OAuth tokens: whom they name and what they open, and every way in which one is not to be believed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, Key

from aidre.api.access import jwt as module
from aidre.api.access.caller import Caller
from aidre.api.access.credentials import Grant
from aidre.api.access.guard import Guard
from aidre.api.config.settings import OAuth, OAuthGrant, parse_settings
from aidre.api.config.toml import Rate
from aidre.api.http.http_errors import Unauthorized
from tests.support.issuer import (
    AUDIENCE,
    CLAIMS,
    EC,
    ED,
    ISSUER,
    NOW,
    RSA,
    SIGNERS,
    Issuer,
    encoded,
    oauth,
    public,
    signed,
    without,
)


def asked(token: bytes, settings: OAuth | None = None, *keys: Key) -> Grant:
    issuer = Issuer(*(keys or (RSA, EC, ED)))

    async def ask() -> Grant:
        tokens = issuer.tokens(settings)
        await tokens.open()
        return await tokens.grant(token)

    return asyncio.run(ask())


@pytest.mark.parametrize("alg", SIGNERS)
def test_a_token_of_the_issuer_names_its_subject(alg: str) -> None:
    holder = asked(signed(alg=alg))
    assert holder == Grant(Caller("oauth reader", frozenset(), vectors=False), True, None)
    assert holder.caller.account == "oauth reader"


def test_scopes_are_words_or_a_list_and_open_what_is_granted_for_them() -> None:
    settings = oauth(
        grants={"archive": OAuthGrant(("vault", "cellar"), ("search", "vectors")), "vectors": OAuthGrant(scopes=())},
        rate=Rate(5, 1),
        scope_claim="roles",
        collections_claim="sets",
    )
    for roles in ("archive other", ["archive", "other", 7]):
        holder = asked(signed(without(roles=roles, sets=["more", 1])), settings)
        assert holder.caller == Caller("oauth reader", frozenset({"vault", "cellar", "more"}), vectors=True)
        assert (holder.may_search, holder.rate) == (True, Rate(5, 1))
    assert not asked(signed(without(roles="vectors")), settings).caller.vectors
    assert asked(signed(without(roles="search", sets="one two")), settings).caller.collections == {"one", "two"}


@pytest.mark.parametrize("scope", ["", "openid", "SEARCH", [], ["search vectors"], 7, None, {"search": True}])
def test_a_token_without_the_scope_is_known_and_may_not_search(scope: Any) -> None:
    assert not asked(signed(without(scope=scope))).may_search


@pytest.mark.parametrize(
    "claims",
    [
        without("exp"),
        without("iss"),
        without("aud"),
        without("sub"),
        without(sub=""),
        without(sub=7),
        without(sub="x" * 1_000),
        without(exp=NOW - 31),
        without(exp="never"),
        without(exp=True),
        without(exp=-1),
        without(exp=2**60),
        without(exp=None),
        without(nbf=NOW + 31),
        without(iat=NOW + 31),
        without(nbf="soon"),
        without(iss="https://evil.example.com"),
        without(iss=[ISSUER]),
        without(iss=ISSUER + "/"),
        without(aud="https://other.example.com"),
        without(aud=[]),
        without(aud=[[AUDIENCE]]),
        without(aud={AUDIENCE: 1}),
        without(aud=AUDIENCE + "/x"),
        {},
    ],
)
def test_a_token_whose_claims_do_not_fit_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(Unauthorized) as caught:
        asked(signed(claims))
    assert "reader" not in caught.value.message


def test_a_subject_that_is_no_text_names_nobody() -> None:
    claims = json.dumps(without(sub="half \ud83d")).encode()
    with pytest.raises(Unauthorized):
        asked(jws.serialize_compact({"alg": "ES256", "kid": "e"}, claims, EC).encode())


def test_clocks_may_differ_by_the_leeway() -> None:
    assert asked(signed(without(exp=NOW - 29, nbf=NOW + 29, iat=NOW + 29, aud=["x", AUDIENCE])))


def forged(header: dict[str, Any], secret: bytes = b"", claims: Any = None) -> bytes:
    text = f"{encoded(header)}.{encoded(CLAIMS if claims is None else claims)}"
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest() if secret else b""
    return f"{text}.{encoded(signature)}".encode()


PEM = RSA.as_pem(private=False)


@pytest.mark.parametrize(
    "token",
    [
        forged({"alg": "none"}),
        forged({"alg": "None", "kid": "r"}),
        forged({"alg": "HS256", "kid": "r"}, PEM),
        forged({"alg": "HS256", "kid": "e"}, public(EC)),
        forged({"alg": "RS256", "kid": "r"}, PEM),
        forged({"alg": "ES256", "kid": "e"}),
        forged({"alg": "ES256", "kid": "e"}, b"x"),
        forged({"kid": "e"}),
        forged({"alg": ["ES256"], "kid": "e"}),
        forged({"alg": {"ES256": 1}, "kid": "e"}),
        signed(alg="RS256", kid="e"),
        signed(alg="ES256", kid="r"),
        signed(alg="ES256", kid="unknown"),
        signed(alg="ES256", kid="../../etc/passwd"),
        signed(key=ECKey.generate_key("P-256", {"kid": "e"})),
        signed(typ="dpop+jwt"),
        signed(typ="logout+jwt"),
        forged({"alg": "ES256", "kid": "e", "typ": []}),
        forged({"alg": "ES256", "kid": "e", "typ": {"jwt": 1}}),
        signed()[:-2],
        signed() + b"A",
        signed().replace(b".", b"..", 1),
        signed() + b".x.y",
        b"..",
        b"a.b.c",
        b"\xff.\xff.\xff",
        *(f"{encoded(header)}.{encoded(CLAIMS)}.AA".encode() for header in ([1], ["alg"], "alg", None)),
        f"{encoded(b'[' * 5_000)}.{encoded(CLAIMS)}.AA".encode(),
        f"{encoded({'alg': 'ES256', 'crit': ['b64'], 'b64': False})}.{encoded(CLAIMS)}.AA".encode(),
    ],
)
def test_a_token_that_the_issuer_did_not_sign_is_refused(token: bytes) -> None:
    with pytest.raises(Unauthorized):
        asked(token)


def test_members_of_a_header_that_nobody_here_knows_are_ignored() -> None:
    assert asked(signed(nonce="q", zip="none"))


def test_only_listed_algorithms_are_believed() -> None:
    assert asked(signed(alg="RS256"), oauth(algorithms=("RS256",)))
    with pytest.raises(Unauthorized):
        asked(signed(alg="ES256"), oauth(algorithms=("RS256",)))


def test_a_key_says_itself_what_it_is_for() -> None:
    pinned = ECKey.import_key({**EC.as_dict(), "alg": "ES384"})
    with pytest.raises(Unauthorized):
        asked(signed(), None, pinned, RSA)
    other_curve = ECKey.generate_key("P-384", {"kid": "e"})
    with pytest.raises(Unauthorized):
        asked(signed(), None, other_curve, RSA)


def test_a_token_that_names_no_key_is_tried_with_those_there_are() -> None:
    assert asked(signed(kid=None))


def test_remembered_tokens_are_not_verified_again_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    verified = 0
    verify = module._verify

    def counting(token: bytes, key: Key, algorithm: str) -> Any:
        nonlocal verified
        verified += 1
        return verify(token, key, algorithm)

    monkeypatch.setattr(module, "_verify", counting)
    monkeypatch.setattr(module, "CACHE_SIZE", 3)
    issuer = Issuer(EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        many = [signed(without(sub=f"reader {number}")) for number in range(6)]
        for token in [many[0]] * 10 + many:
            await tokens.grant(token)
        assert verified == 6
        assert len(tokens._verified) == 3

    asyncio.run(ask())


def test_the_guard_lets_tokens_in_and_refuses_others(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(public(EC))
    text = f'[server]\nbase_url = "http://127.0.0.1:8000"\n[oauth]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"'
    settings = parse_settings(f'{text}\njwks = "{path}"\n')
    later = time.time() + 600
    good = signed(without("iat", "nbf", exp=int(later), scope="search vectors"))

    async def ask() -> None:
        guard = Guard(settings)
        await guard.open()
        for token, passes in [(good, True), (good + b"x", False), (b"secret", False)]:
            state: dict[str, Any] = {}
            scope = {"path": "/search", "headers": [(b"authorization", b"Bearer " + token)], "state": state}
            if passes:
                admission = guard.admit(scope)
                assert not isinstance(admission, list), "a token is verified first"
                await admission
                assert state["caller"] == Caller("oauth reader", frozenset(), vectors=True)
            else:
                with pytest.raises(Unauthorized):
                    admission = guard.admit(scope)
                    if not isinstance(admission, list):
                        await admission
        await guard.close()

    asyncio.run(ask())
