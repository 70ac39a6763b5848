"""What a publisher signs of a chunk: a compact JWS (RFC 7515) over canonical JSON (RFC 8785).

It is made when it is asked for and kept until half of its lifetime is over, so one that is handed out is valid for at
least as long again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from aidre.api.provenance.keys import ALGORITHM, LONGEST_SECONDS, Ring, SigningKey, base64url

TYPE = "aidre-provenance+jws"
REMEMBERED = 4_096


@dataclass(frozen=True, slots=True)
class Claims:
    """What is said of a chunk. `source_url` is None where its document has none."""

    collection: str
    chunk_id: str
    content_hash: str
    source_url: str | None
    updated_at: str


class ChunkSigner:
    """The signatures of chunks in one process."""

    def __init__(
        self,
        ring: Ring,
        issuer: str,
        lifetime: float,
        *,
        clock: Callable[[], float] = time.time,
        remembered: int = REMEMBERED,
    ) -> None:
        self._ring = ring
        self._issuer = issuer
        self.lifetime = min(int(lifetime), LONGEST_SECONDS)
        self._clock = clock
        self._remembered = remembered
        self._key: SigningKey | None = None
        self._header = ""
        self._recent: OrderedDict[Claims, tuple[int, str]] = OrderedDict()

    def sign(self, claims: Claims) -> str:
        """A JWS that is valid for at least half of its lifetime more."""
        now = self._clock()
        self._follow()
        known = self._recent.get(claims)
        if known is not None and 0 <= now - known[0] < self.lifetime / 2:
            self._recent.move_to_end(claims)
            return known[1]
        signed = self._signed(claims, int(now))
        self._recent[claims] = int(now), signed
        self._recent.move_to_end(claims)
        if len(self._recent) > self._remembered:
            self._recent.popitem(last=False)
        return signed

    @property
    def mark(self) -> str:
        """Changes whenever a client should fetch a chunk again for its signature: with the key, and every quarter of a
        lifetime. Whoever has a chunk under the present mark has a signature that is good for a quarter more."""
        self._follow()
        period = int(self._clock() / self.fresh)
        return f"{self._ring.signing.public.id[:6]}.{period:x}"

    @property
    def fresh(self) -> float:
        """For how many seconds a chunk that was fetched or confirmed may be kept: its signature is good as long."""
        return self.lifetime / 4

    def _follow(self) -> None:
        """Nothing that a former key has signed goes out any more."""
        key = self._ring.signing
        if key is not self._key:
            self._key = key
            self._recent.clear()
            self._header = base64url(orjson.dumps({"alg": ALGORITHM, "kid": key.public.id, "typ": TYPE}))

    def _signed(self, claims: Claims, issued: int) -> str:
        payload = {
            "iss": self._issuer,
            "sub": claims.chunk_id,
            "collection": claims.collection,
            "content_hash": claims.content_hash,
            "source_url": claims.source_url,
            "updated_at": claims.updated_at,
            "iat": issued,
            "exp": issued + self.lifetime,
        }
        text = f"{self._header}.{base64url(canonical(payload))}"
        return f"{text}.{base64url(self._ring.signing.sign(text.encode()))}"


def canonical(claims: dict[str, str | int | None]) -> bytes:
    """As RFC 8785 writes an object of strings and whole numbers under names in ASCII."""
    return orjson.dumps(claims, option=orjson.OPT_SORT_KEYS)
