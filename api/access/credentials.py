"""Bearer credentials, and the keys of the configuration, which holds only their SHA-256 digests.

A secret is looked up by a keyed hash of its digest, under a random key of this process. The time of a look-up therefore
reveals nothing about how close a guess was, and does not grow with the number of keys.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.config import Key, Rate
from aidre.api.http import Unauthorized

MAX_CREDENTIAL_BYTES = 8_192
"""Bytes; signed tokens are the longest credentials."""
NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a credential grants: the caller, whether it may search, and its rate (None: the default rate)."""

    caller: Caller
    may_search: bool = True
    rate: Rate | None = None


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The credential of a request, or None; raises Unauthorized for anything but one Bearer credential."""
    authorization: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            if authorization is not None:
                raise Unauthorized("there are two Authorization fields: send one")
            authorization = value
    if authorization is None:
        return None
    scheme, _, credential = authorization.partition(b" ")
    credential = credential.strip(b" ")
    if scheme.lower() != b"bearer" or not credential or len(credential) > MAX_CREDENTIAL_BYTES:
        raise Unauthorized("these credentials are not accepted here: send Authorization: Bearer SECRET, or none")
    return credential


class ApiKeys:
    """The keys of the configuration."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._hash_key = secrets.token_bytes(32)
        self._grants = {self._hashed(bytes.fromhex(key.sha256)): _grant_of(key) for key in keys}
        self._no_grant = NO_DIGEST, Grant(ANONYMOUS)
        self._verified: dict[bytes, Grant] = {}

    def grant(self, secret: bytes) -> Grant | None:
        """The grant of a secret, or None. A secret that was verified before costs one keyed hash."""
        hashed = self._hashed(secret)
        verified = self._verified.get(hashed)
        if verified is not None:
            return verified
        digest = hashlib.sha256(secret).digest()
        expected, grant = self._grants.get(self._hashed(digest), self._no_grant)
        if not hmac.compare_digest(digest, expected):
            return None
        self._verified[hashed] = grant
        return grant

    def _hashed(self, value: bytes) -> bytes:
        return hashlib.blake2b(value, key=self._hash_key, digest_size=32).digest()


def _grant_of(key: Key) -> tuple[bytes, Grant]:
    name = f"key {key.name}"
    caller = Caller(name, frozenset(key.collections), "vectors" in key.scopes, "write" in key.scopes, account=name)
    return bytes.fromhex(key.sha256), Grant(caller, "search" in key.scopes, key.rate)
