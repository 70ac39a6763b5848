"""Cursors: where a search goes on, sealed so that only the search that got one can use it.

The seal is a keyed hash under a secret of the store, so every worker can read what another one wrote. What the cursor
is bound to (caller, query, filter) goes into the seal and is not carried.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import secrets
import struct
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from aidre.api.refusals import BadRequest

logger = logging.getLogger("aidre")

LIFETIME_SECONDS = 600
SECRET_BYTES = 32
SEAL_BYTES = 16
PLACE = struct.Struct(">QIIQ8s")
INHERITED_SECRET = "AIDRE_CURSOR_SECRET"
"""The environment variable by which workers share a secret where the store cannot be written."""


class Place(NamedTuple):
    """Where a search goes on.

    `first` is the size of its first page and `started` the Unix time of it; `lineage` is a digest of the collection's.
    """

    generation: int
    first: int
    offset: int
    started: int
    lineage: bytes

    @property
    def expired(self) -> bool:
        return time.time() - self.started > LIFETIME_SECONDS


@lru_cache(maxsize=256)
def lineage_digest(lineage: str) -> bytes:
    return hashlib.blake2b(lineage.encode(), digest_size=8).digest()


class Cursors:
    """Writes and reads cursors under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def write(self, place: Place, binding: bytes) -> str:
        """`binding` is what the cursor is good for: it must be the same when it is read."""
        body = PLACE.pack(place.generation, place.first, place.offset, place.started, place.lineage)
        return base64.urlsafe_b64encode(body + self._seal(body, binding)).rstrip(b"=").decode()

    def read(self, cursor: str, binding: bytes) -> Place:
        """Raises BadRequest for a cursor that this store did not write for this search."""
        try:
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        body, seal = sealed[: PLACE.size], sealed[PLACE.size :]
        canonical = base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() == cursor
        if not canonical or len(body) != PLACE.size or not hmac.compare_digest(seal, self._seal(body, binding)):
            raise BadRequest(
                "cursor does not belong to this search: send it with the query that it came from", member="cursor"
            )
        return Place(*PLACE.unpack(body))

    def _seal(self, body: bytes, binding: bytes) -> bytes:
        return hashlib.blake2b(body + binding, key=self._secret, digest_size=SEAL_BYTES).digest()


def store_secret(store: Path) -> bytes:
    """The secret in STORE/.log/cursor.key, made once; where the store cannot be written, one shared by environment."""
    inherited = os.environ.get(INHERITED_SECRET)
    path = store / ".log" / "cursor.key"
    try:
        return _read_or_make(path)
    except OSError as error:
        if inherited is None:
            logger.warning("cursors end with this process: %s", error.strerror)
        return bytes.fromhex(inherited) if inherited else secrets.token_bytes(SECRET_BYTES)


def _read_or_make(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        secret = path.read_bytes()
        if len(secret) == SECRET_BYTES:
            return secret
        path.unlink()  # truncated by a crash: cursors that are out become invalid, nothing else
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".cursor.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            os.link(draft, path)  # the first worker wins, the others read what it wrote
    finally:
        draft.unlink()
    return path.read_bytes()
