"""OAuth tokens: whom they name and what they open, and every way in which one is not to be believed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from aidre.api.access import Caller
from aidre.api.guard import tokens as module
from aidre.api.guard.credentials import Holder
from aidre.api.guard.guard import Guard
from aidre.api.guard.refusals import Unauthorized
from aidre.api.guard.settings import OAuth, OAuthGrant, check_oauth
from aidre.api.guard.tokens import Tokens
from aidre.api.refusals import Unavailable
from aidre.api.settings import parse_settings
from aidre.api.tables import Duration, Rate
from aidre.engine.errors import ConfigurationError

NOW = 1_800_000_000.0
ISSUER, AUDIENCE = "https://login.example.com", "https://ai.example.com"
RSA = RSAKey.generate_key(2_048, {"kid": "r", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "e"})
ED = OKPKey.generate_key("Ed25519", {"kid": "o"})
SIGNERS: dict[str, Key] = {"RS256": RSA, "ES256": EC, "Ed25519": ED}
CLAIMS = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "reader",
    "iat": int(NOW) - 10,
    "nbf": int(NOW) - 10,
    "exp": int(NOW) + 600,
    "scope": "openid search",
}


def public(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def oauth(**members: Any) -> OAuth:
    return OAuth(ISSUER, AUDIENCE, jwks_uri="https://login.example.com/jwks", **members)


def signed(claims: dict[str, Any] | None = None, alg: str = "ES256", key: Key | None = None, **header: Any) -> bytes:
    key = key or SIGNERS[alg]
    heading = {"alg": alg, "kid": key.kid, **header}
    heading = {name: value for name, value in heading.items() if value is not None}
    return jwt.encode(heading, CLAIMS if claims is None else claims, key, algorithms=[alg]).encode()


def without(*names: str, **changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changed}.items() if name not in names}


class Issuer:
    """What is fetched, and how often."""

    def __init__(self, *keys: Key) -> None:
        self.document = public(*keys)
        self.fetched = 0
        self.broken: Exception | None = None
        self.now = NOW

    def load(self) -> bytes:
        self.fetched += 1
        if self.broken is not None:
            raise self.broken
        return self.document

    def tokens(self, settings: OAuth | None = None) -> Tokens:
        return Tokens(settings or oauth(), self.load, lambda: self.now)


def asked(token: bytes, settings: OAuth | None = None, *keys: Key) -> Holder:
    issuer = Issuer(*(keys or (RSA, EC, ED)))

    async def ask() -> Holder:
        tokens = issuer.tokens(settings)
        await tokens.open()
        return await tokens.holder(token)

    return asyncio.run(ask())


@pytest.mark.parametrize("alg", SIGNERS)
def test_a_token_of_the_issuer_names_its_subject(alg: str) -> None:
    holder = asked(signed(alg=alg))
    assert holder == Holder(Caller("oauth reader", frozenset(), vectors=False), "oauth reader", True, None)


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


def test_clocks_may_differ_by_the_leeway() -> None:
    assert asked(signed(without(exp=NOW - 29, nbf=NOW + 29, iat=NOW + 29, aud=["x", AUDIENCE])))


def encoded(part: Any) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


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
        signed()[:-2],
        signed() + b"A",
        signed().replace(b".", b"..", 1),
        signed() + b".x.y",
        b"..",
        b"a.b.c",
        b"\xff.\xff.\xff",
        f"{encoded([1])}.{encoded(CLAIMS)}.AA".encode(),
        f"{encoded(b'[' * 5_000)}.{encoded(CLAIMS)}.AA".encode(),
        f"{encoded({'alg': 'ES256', 'crit': ['b64'], 'b64': False})}.{encoded(CLAIMS)}.AA".encode(),
    ],
)
def test_a_token_that_the_issuer_did_not_sign_is_refused(token: bytes) -> None:
    with pytest.raises(Unauthorized):
        asked(token)


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


MODULUS = rsa.generate_private_key(65_537, 1_024).public_key().public_numbers().n.to_bytes(128, "big")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [1, null, {}, {"kty": "EC"}, {"kty": "RSA", "n": "!", "e": "AQAB"}]}',
        json.dumps({"keys": [EC.as_dict(private=True)]}).encode(),
        json.dumps({"keys": [OctKey.generate_key(256).as_dict(private=True)]}).encode(),
        json.dumps({"keys": [{**EC.as_dict(private=False), "use": "enc"}]}).encode(),
        json.dumps({"keys": [{**EC.as_dict(private=False), "key_ops": ["encrypt"]}]}).encode(),
        json.dumps({"keys": [EC.as_dict(private=False)] * 1_000}).encode(),
        json.dumps({"keys": [{"kty": "RSA", "e": "AQAB", "n": encoded(MODULUS)}]}).encode(),
    ],
)
def test_keys_that_cannot_be_used_are_not_and_without_any_nobody_is_believed(document: bytes) -> None:
    issuer = Issuer()
    issuer.document = document

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        with pytest.raises(Unavailable):
            await tokens.holder(signed())

    asyncio.run(ask())


def test_keys_are_fetched_again_for_a_new_one_but_not_for_every_stranger() -> None:
    issuer = Issuer(RSA)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        for _ in range(50):
            with pytest.raises(Unauthorized):
                await tokens.holder(signed())
        assert issuer.fetched == 1
        issuer.document, issuer.now = public(RSA, EC), NOW + 31
        await asyncio.gather(*(tokens.holder(signed()) for _ in range(20)))
        assert issuer.fetched == 2
        assert await tokens.holder(signed(alg="RS256"))

    asyncio.run(ask())


def test_an_issuer_that_is_gone_takes_nothing_away_that_was_known() -> None:
    issuer = Issuer(EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        assert await tokens.holder(signed())
        issuer.broken, issuer.now = OSError("gone"), NOW + module.KEYS_SECONDS + 1
        late = signed(without(exp=NOW + 9_000))
        assert await tokens.holder(late)
        await tokens.close()
        assert issuer.fetched == 2
        assert await tokens.holder(late)

    asyncio.run(ask())


def test_an_issuer_that_never_answered_makes_tokens_unavailable_not_wrong() -> None:
    issuer = Issuer(EC)
    issuer.broken = OSError("gone")

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        with pytest.raises(Unavailable):
            await tokens.holder(signed())
        issuer.broken, issuer.now = None, NOW + 31
        assert await tokens.holder(signed())

    asyncio.run(ask())


def test_a_key_that_was_withdrawn_takes_its_tokens_with_it_and_an_expired_token_is_not_remembered() -> None:
    issuer = Issuer(RSA, EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        token = signed(without(exp=NOW + 20_000))
        short = signed(alg="RS256")
        assert await tokens.holder(token)
        assert await tokens.holder(short)
        issuer.document, issuer.now = public(RSA), NOW + module.KEYS_SECONDS + 1
        with pytest.raises(Unauthorized):
            await tokens.holder(short)
        await tokens.close()
        with pytest.raises(Unauthorized):
            await tokens.holder(token)

    asyncio.run(ask())


def test_remembered_tokens_are_not_verified_again_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    verified = 0
    verify = module._verified

    def counting(token: bytes, key: Key, algorithm: str) -> Any:
        nonlocal verified
        verified += 1
        return verify(token, key, algorithm)

    monkeypatch.setattr(module, "_verified", counting)
    monkeypatch.setattr(module, "REMEMBERED", 3)
    issuer = Issuer(EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        many = [signed(without(sub=f"reader {number}")) for number in range(6)]
        for token in [many[0]] * 10 + many:
            await tokens.holder(token)
        assert verified == 6
        assert len(tokens._known) == 3

    asyncio.run(ask())


def test_the_guard_lets_tokens_in_and_refuses_others(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(public(EC))
    settings = parse_settings('[server]\nbase_url = "http://127.0.0.1:8000"')
    later = time.time() + 600
    good = signed(without("iat", "nbf", exp=int(later), scope="search vectors"))

    async def ask() -> None:
        guard = Guard(settings, oauth=OAuth(ISSUER, AUDIENCE, jwks=str(path)))
        await guard.open()
        assert guard.knows_callers
        for token, passes in [(good, True), (good + b"x", False), (b"secret", False)]:
            state: dict[str, Any] = {}
            scope = {"path": "/search", "headers": [(b"authorization", b"Bearer " + token)], "state": state}
            if passes:
                await guard.admit(scope)
                assert state["caller"] == Caller("oauth reader", frozenset(), vectors=True)
            else:
                with pytest.raises(Unauthorized):
                    await guard.admit(scope)
        await guard.close()

    asyncio.run(ask())


@pytest.mark.parametrize("content", [None, b"", b'{"keys": []}'])
def test_a_file_of_keys_that_cannot_be_used_is_named_at_the_start(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"oauth\.jwks"):
        asyncio.run(Tokens(OAuth(ISSUER, AUDIENCE, jwks=str(path))).open())


@pytest.fixture
def published() -> Iterator[tuple[str, list[str]]]:
    asked_for: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_for.append(self.path)
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", "http://localhost:1/jwks")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(public(EC) if self.path == "/jwks" else b" " * 2_000_000)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked_for
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_are_fetched_over_http_from_the_issuers_own_host_alone(published: tuple[str, list[str]]) -> None:
    base, asked_for = published

    async def ask(path: str) -> Any:
        tokens = Tokens(OAuth(ISSUER, AUDIENCE, jwks_uri=base + path), clock=lambda: NOW)
        await tokens.open()
        return await tokens.holder(signed())

    assert asyncio.run(ask("/jwks"))
    for path in ("/away", "/endless"):
        with pytest.raises(Unavailable):
            asyncio.run(ask(path))
    assert asked_for == ["/jwks", "/away", "/endless"]


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"issuer": ""}, "oauth.issuer"),
        ({"audience": ""}, "oauth.audience"),
        ({"jwks": "keys.json"}, "jwks_uri"),
        ({"jwks_uri": None}, "jwks_uri"),
        ({"jwks_uri": "https://x.example/keys?secret=1"}, "jwks_uri"),
        ({"algorithms": ()}, "oauth.algorithms"),
        ({"leeway": Duration(301.0)}, "oauth.leeway"),
        ({"scope_claim": ""}, "oauth.scope_claim"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(members: dict[str, Any], named: str) -> None:
    check_oauth(oauth())
    wrong = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_uri": "https://x.example/keys", **members}
    with pytest.raises(ConfigurationError, match=named.replace(".", r"\.")):
        check_oauth(OAuth(**wrong))
