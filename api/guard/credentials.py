"""Whose secret a request bears: the keys of the configuration, which knows only their digests.

A secret is found by a keyed hash of its digest, under a key of this process that nobody else has: how long the look
takes says nothing about how near a guess came, and it takes no longer for many keys than for one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from aidre.api.access import ANONYMOUS, Caller
from aidre.api.guard.refusals import Unauthorized
from aidre.api.settings import Key
from aidre.api.tables import Rate

MOST_BYTES = 8_192
"""Of a credential; the largest are signed tokens."""
NOBODY = bytes(32)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who comes in, whether they may read, and how often (None: as often as anybody)."""

    caller: Caller
    may_search: bool = True
    rate: Rate | None = None


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The credential of a request, None where it has none; raises Unauthorized for anything but one Bearer."""
    found: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            if found is not None:
                raise Unauthorized("there are two Authorization fields: send one")
            found = value
    if found is None:
        return None
    scheme, _, credential = found.partition(b" ")
    credential = credential.strip(b" ")
    if scheme.lower() != b"bearer" or not credential or len(credential) > MOST_BYTES:
        raise Unauthorized("these credentials are not accepted here: send Authorization: Bearer SECRET, or none")
    return credential


class Keys:
    """The keys of the configuration."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._blind = secrets.token_bytes(32)
        self._held = {self._hidden(bytes.fromhex(key.sha256)): _held(key) for key in keys}
        self._nobody = NOBODY, Holder(ANONYMOUS)
        self._known: dict[bytes, Holder] = {}

    def holder(self, secret: bytes) -> Holder | None:
        """Whose secret it is, if it is one. One that was found before is known by one keyed hash."""
        mark = self._hidden(secret)
        known = self._known.get(mark)
        if known is not None:
            return known
        digest = hashlib.sha256(secret).digest()
        expected, holder = self._held.get(self._hidden(digest), self._nobody)
        if not hmac.compare_digest(digest, expected):
            return None
        self._known[mark] = holder
        return holder

    def _hidden(self, value: bytes) -> bytes:
        return hashlib.blake2b(value, key=self._blind, digest_size=32).digest()


def _held(key: Key) -> tuple[bytes, Holder]:
    name = f"key {key.name}"
    caller = Caller(name, frozenset(key.collections), "vectors" in key.scopes, account=name)
    return bytes.fromhex(key.sha256), Holder(caller, "search" in key.scopes, key.rate)
