"""The keys of the configuration, `api/access/credentials.py`: what a guess costs, and what it is compared with."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from aidre.api.access.credentials import ApiKeys
from aidre.api.config.settings import Key

GOLD = "gold-secret"


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def test_how_near_a_guess_comes_is_not_compared_byte_by_byte() -> None:
    """No guess is ever compared with a digest of the configuration unless it is the secret itself."""
    keys = ApiKeys([Key(f"key {number}", digest(f"secret {number}")) for number in range(100)])
    compared: list[tuple[bytes, bytes]] = []

    def comparing(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aidre.api.access.credentials.hmac.compare_digest", comparing)
        for number in range(200):
            assert (keys.grant(f"secret {number}".encode()) is not None) == (number < 100)
    assert len(compared) == 200
    assert all(other == bytes(32) for _, other in compared[100:])


def test_every_guess_costs_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: what is hashed, and what is compared, however near a guess comes."""
    keys = ApiKeys([Key("gold", digest(GOLD)), Key("other", digest("another secret"))])
    work: list[tuple[str, int]] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(content: bytes, *more: Any, **members: Any) -> Any:
            work.append((name, len(content)))
            return function(content, *more, **members)

        return counting

    for name in ("sha256", "blake2b"):
        monkeypatch.setattr(f"aidre.api.access.credentials.hashlib.{name}", counted(name, getattr(hashlib, name)))
    monkeypatch.setattr("aidre.api.access.credentials.hmac.compare_digest", counted("compare", hmac.compare_digest))
    secret = GOLD.encode()
    guesses = [secret[:at] + bytes([secret[at] ^ 1]) + secret[at + 1 :] for at in range(len(secret))]
    costs = []
    for guess in (*guesses, *guesses, b"x" * len(secret), secret):
        work.clear()
        found = keys.grant(guess)
        assert (found is not None) == (guess == secret)
        costs.append(tuple(work))
    assert len(set(costs)) == 1, "the first time that a secret comes it costs what a guess costs"
    work.clear()
    assert keys.grant(secret) is not None
    assert work == [("blake2b", len(secret))], "who is known pays less, which no guess can find out"
