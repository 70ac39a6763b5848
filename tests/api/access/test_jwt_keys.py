"""The keys of an OAuth issuer: where they come from, which can be used, and how long each is believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import OctKey

from aidre.api.access import jwt as module
from aidre.api.access.jwt import TokenVerifier
from aidre.api.config.settings import OAuth
from aidre.api.http.http_errors import Unauthorized, Unavailable
from aidre.engine.errors import ConfigurationError
from tests.support.clocks import WAIT_SECONDS
from tests.support.issuer import AUDIENCE, EC, ISSUER, NOW, RSA, Issuer, encoded, oauth, public, signed, without

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
        json.dumps({"keys": [OctKey.import_key("not a public key").as_dict(private=True)]}).encode(),
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
            await tokens.grant(signed())

    asyncio.run(ask())


def test_keys_are_fetched_again_for_a_new_one_but_not_for_every_stranger() -> None:
    issuer = Issuer(RSA)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        for _ in range(50):
            with pytest.raises(Unauthorized):
                await tokens.grant(signed())
        assert issuer.fetched == 1
        issuer.document, issuer.now = public(RSA, EC), NOW + 31
        await asyncio.gather(*(tokens.grant(signed()) for _ in range(20)))
        assert issuer.fetched == 2
        assert await tokens.grant(signed(alg="RS256"))

    asyncio.run(ask())


def test_few_wait_for_an_issuer_that_takes_its_time() -> None:
    issuer, released = Issuer(EC), Event()
    load = issuer.load

    def slowly() -> bytes:
        if issuer.fetched:
            assert released.wait(WAIT_SECONDS)
        return load()

    async def ask() -> None:
        tokens = TokenVerifier(oauth(), slowly, lambda: issuer.now)
        await tokens.open()
        issuer.now = NOW + 31
        strange = [signed(kid=f"{number}") for number in range(module.MAX_WAITING + 9)]
        asked = [asyncio.create_task(tokens.grant(token)) for token in strange]
        while tokens._waiting < module.MAX_WAITING or sum(one.done() for one in asked) < 9:
            await asyncio.sleep(0)
        waiting = [one for one in asked if not one.done()]
        assert all(isinstance(one.exception(), Unavailable) for one in asked if one.done())
        assert await tokens.grant(signed())
        released.set()
        assert all(isinstance(one, Unauthorized) for one in await asyncio.gather(*waiting, return_exceptions=True))
        assert issuer.fetched == 2

    asyncio.run(ask())


def test_a_clock_that_is_set_back_puts_no_new_key_off() -> None:
    issuer = Issuer(EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        issuer.document, issuer.now = public(RSA, EC), NOW - 7_000
        assert await tokens.grant(signed(without("iat", "nbf"), alg="RS256"))
        assert issuer.fetched == 2

    asyncio.run(ask())


def test_an_issuer_that_is_gone_takes_nothing_away_that_was_known() -> None:
    issuer = Issuer(EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        assert await tokens.grant(signed())
        issuer.broken, issuer.now = OSError("gone"), NOW + module.REFRESH_SECONDS + 1
        late = signed(without(exp=NOW + 9_000))
        assert await tokens.grant(late)
        await tokens.close()
        assert issuer.fetched == 2
        assert await tokens.grant(late)

    asyncio.run(ask())


@pytest.mark.parametrize("later", [module.MAX_KEY_AGE_SECONDS + 1, -module.MAX_KEY_AGE_SECONDS - 1])
def test_an_issuer_that_is_gone_for_long_is_believed_no_longer(later: float, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(EC)
    token = signed(without("iat", "nbf", exp=NOW + 200_000))

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        issuer.broken, issuer.now = OSError("gone"), NOW + later * 0.99
        assert await tokens.grant(token)
        await tokens.close()
        assert "tokens are refused" not in caplog.text
        issuer.now = NOW + later
        for _ in range(5):
            with pytest.raises(Unavailable):
                await tokens.grant(token)
        assert issuer.fetched == 3
        assert "tokens are refused" in caplog.text
        with pytest.raises(Unauthorized):
            await tokens.grant(signed(alg="ES256")[:-3] + b".x.")
        issuer.broken, issuer.now = None, issuer.now + 31
        assert await tokens.grant(token)

    asyncio.run(ask())


def test_an_issuer_that_never_answered_makes_tokens_unavailable_not_wrong() -> None:
    issuer = Issuer(EC)
    issuer.broken = OSError("gone")

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        with pytest.raises(Unavailable):
            await tokens.grant(signed())
        issuer.broken, issuer.now = None, NOW + 31
        assert await tokens.grant(signed())

    asyncio.run(ask())


def test_a_key_that_was_withdrawn_takes_its_tokens_with_it_and_an_expired_token_is_not_remembered() -> None:
    issuer = Issuer(RSA, EC)

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        token = signed(without(exp=NOW + 20_000))
        short = signed(alg="RS256")
        assert await tokens.grant(token)
        assert await tokens.grant(short)
        issuer.document, issuer.now = public(RSA), NOW + module.REFRESH_SECONDS + 1
        with pytest.raises(Unauthorized):
            await tokens.grant(short)
        await tokens.close()
        with pytest.raises(Unauthorized):
            await tokens.grant(token)

    asyncio.run(ask())


@pytest.mark.parametrize("content", [None, b"", b'{"keys": []}'])
def test_a_file_of_keys_that_cannot_be_used_is_named_at_the_start(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"oauth\.jwks"):
        asyncio.run(TokenVerifier(OAuth(ISSUER, AUDIENCE, jwks=str(path))).open())


def test_keys_in_a_file_are_followed_and_their_tokens_stay_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "jwks.json", NOW
    path.write_bytes(public(RSA, EC))
    token, other = signed(without(exp=NOW + 90_000)), signed(without(exp=NOW + 90_000), alg="RS256")

    async def ask() -> None:
        nonlocal now
        tokens = TokenVerifier(OAuth(ISSUER, AUDIENCE, jwks=str(path)), clock=lambda: now)
        await tokens.open()
        now += 3 * module.REFRESH_SECONDS
        assert await tokens.grant(token)
        await tokens.close()
        assert await tokens.grant(token)
        with monkeypatch.context() as patched:
            patched.setattr(module, "_verify", pytest.fail)
            assert await tokens.grant(token)
        path.write_bytes(public(RSA))
        now += module.REFRESH_SECONDS + 1
        assert await tokens.grant(other)
        await tokens.close()
        with pytest.raises(Unauthorized):
            await tokens.grant(token)

    asyncio.run(ask())


@pytest.mark.parametrize("key", [{"kty": []}, {"kty": {}}, {"kty": "RSA"}, {"kty": "EC", "crv": 5}, 7])
def test_keys_that_are_none_are_passed_over(key: Any) -> None:
    issuer = Issuer(EC)
    issuer.document = json.dumps({"keys": [key, *json.loads(issuer.document)["keys"]]}).encode()

    async def ask() -> None:
        tokens = issuer.tokens()
        await tokens.open()
        assert await tokens.grant(signed())

    asyncio.run(ask())


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
        tokens = TokenVerifier(OAuth(ISSUER, AUDIENCE, jwks_uri=base + path), clock=lambda: NOW)
        await tokens.open()
        return await tokens.grant(signed())

    assert asyncio.run(ask("/jwks"))
    for path in ("/away", "/endless"):
        with pytest.raises(Unavailable):
            asyncio.run(ask(path))
    assert asked_for == ["/jwks", "/away", "/endless"]
