"""Cursors: the position in a paged search, authenticated so that only the search that received one can continue.

The tag is a keyed hash under a secret of the store, so every worker can verify the cursors of the others. It also
covers what the cursor is bound to (caller, collection, query, filter), which the cursor itself does not carry.
"""

from __future__ import annotations

import asyncio
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

import orjson
import xxhash

from aidre.api.access import Caller
from aidre.api.http import ConflictingRequest
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.engine.errors import GenerationMissing, InvalidInput
from aidre.engine.index.fields import filter_digest
from aidre.engine.model import Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve import Question
from aidre.engine.storage import create_private_file

logger = logging.getLogger("aidre")

LIFETIME_SECONDS = 600
SECRET_BYTES = 32
TAG_BYTES = 16
CURSOR_FORMAT = struct.Struct(">QIIQ8s")
SECRET_VARIABLE = "AIDRE_CURSOR_SECRET"
"""The environment variable with a secret shared by the workers of a store that cannot be written."""


class SearchCursor(NamedTuple):
    """A position. `first` is the size of the first page, `started` its Unix time, `lineage` a digest of the lineage."""

    generation: int
    first: int
    offset: int
    started: int
    lineage: bytes

    @property
    def expired(self) -> bool:
        return time.time() - self.started > LIFETIME_SECONDS

    def belongs_to(self, reader: Reader) -> bool:
        """Whether it was given out for the collection of a reader."""
        return self.lineage == lineage_digest(reader.lineage)


class Cursors:
    """Writes and reads cursors under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def write(self, cursor: SearchCursor, binding: bytes) -> str:
        """base64url; `binding` must be the same when it is read, see `cursor_binding`."""
        body = CURSOR_FORMAT.pack(cursor.generation, cursor.first, cursor.offset, cursor.started, cursor.lineage)
        return base64.urlsafe_b64encode(body + self._tag(body, binding)).rstrip(b"=").decode()

    def read(self, cursor: str, binding: bytes) -> SearchCursor:
        """Raises InvalidInput unless this store wrote the cursor for the same binding."""
        try:
            content = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        body, tag = content[: CURSOR_FORMAT.size], content[CURSOR_FORMAT.size :]
        is_canonical = base64.urlsafe_b64encode(content).rstrip(b"=").decode() == cursor
        is_whole = len(body) == CURSOR_FORMAT.size
        if not is_canonical or not is_whole or not hmac.compare_digest(tag, self._tag(body, binding)):
            raise InvalidInput(
                "cursor does not belong to this search: send it with the query that it came from", member="cursor"
            )
        return SearchCursor(*CURSOR_FORMAT.unpack(body))

    @staticmethod
    def lineage(cursor: str) -> bytes:
        """The lineage digest in a cursor, which nothing has verified; empty where it has none."""
        with suppress(ValueError):
            content = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            if len(content) == CURSOR_FORMAT.size + TAG_BYTES:
                return SearchCursor(*CURSOR_FORMAT.unpack(content[: CURSOR_FORMAT.size])).lineage
        return b""

    def _tag(self, body: bytes, binding: bytes) -> bytes:
        return hashlib.blake2b(body + binding, key=self._secret, digest_size=TAG_BYTES).digest()


@lru_cache(maxsize=256)
def lineage_digest(lineage: str) -> bytes:
    """8 bytes."""
    return hashlib.blake2b(lineage.encode(), digest_size=8).digest()


def cursor_binding(
    caller: Caller,
    collection: str,
    mode: Mode,
    space: str | None,
    question: Question,
) -> bytes:
    """The search that a cursor continues, as bytes."""
    vector = question.vector
    if question.text is not None:
        query = question.text.encode("utf-8", "surrogatepass")
    else:  # a fast hash is enough: a collision deceives nobody but the caller who made it
        query = b"" if vector is None else xxhash.xxh3_128_digest(vector.data)
    filter = None if question.filter is None else filter_digest(question.filter).hex()
    counted = question.group, question.collapse and question.group == "document", question.recall
    order = (*(question.order or ()), *(option for option in (question.weight, question.fusion) if option is not None))
    return orjson.dumps([caller.name, collection, mode, space, vector is None, filter, *counted, *order]) + query


def next_cursor(cursor: SearchCursor | None, snapshot: Reader, offset: int) -> SearchCursor:
    """The cursor of the page at `offset`; `cursor` is that of the current page, None for the first one."""
    if cursor is None:
        return SearchCursor(snapshot.generation, offset, offset, int(time.time()), lineage_digest(snapshot.lineage))
    return SearchCursor(cursor.generation, cursor.first, offset, cursor.started, cursor.lineage)


async def snapshot_of(cursor: SearchCursor, name: str, now: Reader, snapshots: LiveSnapshots) -> Reader:
    """The snapshot of the generation in which a paged search began; `now` is the current one of the collection.

    Raises ConflictingRequest for a cursor that has expired.
    """
    if cursor.expired:
        raise expired_cursor()
    if cursor.generation == now.generation and cursor.belongs_to(now):
        return now
    try:
        return await asyncio.to_thread(snapshots.at, name, cursor.generation, cursor.belongs_to)
    except GenerationMissing as error:
        raise expired_cursor() from error


def expired_cursor() -> ConflictingRequest:
    return ConflictingRequest("this cursor has expired: begin the search again without it", member="cursor")


def store_secret(folder: Path, configured: str | None = None) -> bytes:
    """The configured secret, else that in the file cursor.key, created once. In a folder that cannot be written it
    comes from the environment, or lasts as long as the process."""
    if configured is not None:
        return hashlib.blake2b(configured.encode(), digest_size=SECRET_BYTES, person=b"aidre cursor").digest()
    inherited = os.environ.get(SECRET_VARIABLE)
    path = folder / "cursor.key"
    try:
        return _read_or_create(path)
    except OSError as error:
        if inherited is None:
            logger.warning("cursors are valid only until this process ends: %s", error.strerror)
        return bytes.fromhex(inherited) if inherited else secrets.token_bytes(SECRET_BYTES)


def _read_or_create(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        secret = path.read_bytes()
        if len(secret) == SECRET_BYTES:
            return secret
        path.unlink()  # truncated by a crash: cursors in use become invalid, nothing else
    path.parent.mkdir(exist_ok=True)
    create_private_file(path, secrets.token_bytes(SECRET_BYTES))  # the first worker wins, the others read its secret
    return path.read_bytes()
