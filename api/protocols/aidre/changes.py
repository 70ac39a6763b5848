"""The change feed of AIDRE (capability `delta_sync`): the changes to the chunks of a collection since a token.

The draft names the capability and leaves it undefined; this is our definition. A token is a position in the history
and grants nothing: visibility is checked at each request. So it needs no secret and is valid on every worker and after
a restart. The chunks of a page are charged to the caller's budget.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import struct

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Caller, caller_of
from aidre.api.http import BadRequest, Gone, NotFound, negotiate, render_error, renders_errors_with, request_id
from aidre.api.retrieval import Retrieval, VisibleCollection, lineage_digest, retrieval_of
from aidre.engine.errors import CollectionMissing, HistoryMissing
from aidre.engine.types import Change, ChangeCursor, ChangelogId, ChangesPage

CHANGES_DEFAULT = 1_000
CHANGES_MAX = 10_000
"""Changes in a page."""
CHARGED_AT_ONCE = 512
"""Chunks charged to the budget before other requests get a turn of the event loop."""

TOKEN = struct.Struct(">B8sQ8sQ8sQ")
"""Kind, lineage digest, two points (generation, mark): the cursor's own and the newest seen; then a row or a hash."""
AFTER_GENERATION, IN_GENERATION, LISTING = 1, 2, 3
"""Kinds: after all changes of a generation, after a row of it, within the first listing of all chunks."""
CHECK_BYTES = 5


def write_token(lineage: str, cursor: ChangeCursor) -> str:
    kind, value = AFTER_GENERATION, 0
    if cursor.listed_hash is not None:
        kind, value = LISTING, cursor.listed_hash
    elif cursor.row is not None:
        kind, value = IN_GENERATION, cursor.row
    (generation, mark), (newest, newest_mark) = cursor.changelog, cursor.newest_seen or cursor.changelog
    points = generation, bytes.fromhex(mark), newest, bytes.fromhex(newest_mark)
    body = TOKEN.pack(kind, lineage_digest(lineage), *points, value)
    return base64.urlsafe_b64encode(body + _check_of(body)).decode()


def read_token(token: str) -> tuple[bytes, ChangeCursor]:
    """The digest of the lineage, and the cursor. Raises BadRequest."""
    try:
        content = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    body, check = content[: TOKEN.size], content[TOKEN.size :]
    kinds = (AFTER_GENERATION, IN_GENERATION, LISTING)
    if len(body) != TOKEN.size or check != _check_of(body) or body[0] not in kinds:
        raise BadRequest("since is not a token of this feed: send the next of an earlier answer", member="since")
    kind, lineage, generation, mark, newest, newest_mark, value = TOKEN.unpack(body)
    row, listed = (value if kind == IN_GENERATION else None), (value if kind == LISTING else None)
    return lineage, ChangeCursor(
        ChangelogId(generation, mark.hex()), row, listed, ChangelogId(newest, newest_mark.hex())
    )


def _check_of(body: bytes) -> bytes:
    """A checksum that separates a mistyped token (400) from an old one (410)."""
    return hashlib.blake2b(body, digest_size=CHECK_BYTES, person=b"aidre.changes").digest()


def parse_limit(value: str | None, default: int = CHANGES_DEFAULT, most: int = CHANGES_MAX) -> int:
    """The size of a page, clamped to `most`. Raises BadRequest."""
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and int(value[:20]) > 0):
        raise BadRequest("limit must be a whole number of at least 1", member="limit")
    return min(int(value[:20]), most)


def render(page: ChangesPage, collection: VisibleCollection, identifier: str) -> bytes:
    """The response, spliced from the JSON stored at ingest."""
    head = orjson.dumps({"request_id": identifier, "collection": collection.name})
    tail = orjson.dumps({"next": write_token(collection.snapshot.lineage, page.cursor), "more": page.more})
    changes = b",".join([_render_change(change) for change in page.changes])
    return b'%b,"changes":[%b],%b' % (head[:-1], changes, tail[1:])


def _render_change(change: Change) -> bytes:
    source = b"" if change.chunk is None else b',"source":%b' % change.chunk.fragments[1]
    parts = (change.op.encode(), orjson.dumps(change.id), change.content_hash.hex().encode(), source)
    return b'{"op":"%b","id":%b,"content_hash":"sha256:%b"%b}' % parts


def _page(
    collection: VisibleCollection, since: tuple[bytes, ChangeCursor] | None, limit: int, identifier: str
) -> tuple[bytes, list[str]]:
    """The response, and the ids of the chunks it adds or changes. Raises HistoryMissing."""
    cursor = None
    if since is not None:
        lineage, cursor = since
        if lineage != lineage_digest(collection.snapshot.lineage):
            raise HistoryMissing("the collection was made anew")
    page = collection.snapshot.changes(cursor, limit)
    return render(page, collection, identifier), [change.id for change in page.changes if change.op != "delete"]


async def _find(
    retrieval: Retrieval, name: str, since: tuple[bytes, ChangeCursor] | None, caller: Caller
) -> VisibleCollection:
    """Raises Gone where the token is of a collection that was dropped, else CollectionMissing."""
    try:
        return await retrieval.find_here(name, caller, "aidre")
    except CollectionMissing:
        if since is not None and since[0] in await asyncio.to_thread(
            retrieval.collections.dropped, name, caller, "aidre"
        ):
            raise _gone() from None
        raise


def _gone() -> Gone:
    return Gone(
        "the changes since this token are no longer kept: begin again without since, and forget what is not "
        "listed then",
        member="since",
    )


@renders_errors_with(render_error)
async def list_changes(request: Request) -> Response:
    variant = negotiate(request)
    limit = parse_limit(request.query_params.get("limit"))
    token = request.query_params.get("since")
    since = read_token(token) if token else None  # a client without a token may send an empty one
    retrieval = retrieval_of(request)
    name, caller = request.path_params["name"], caller_of(request)
    collection = await _find(retrieval, name, since, caller)
    if not collection.snapshot.can.changes:
        raise NotFound("this collection has no change feed: its engine lacks the capability changes")
    retrieval.check_budget(caller)
    if retrieval.settings.limits.chunks_per_day:
        limit = min(limit, CHANGES_DEFAULT)  # the last page may overdraw the budget, so it must not be large
    try:
        body, chunk_ids = await asyncio.to_thread(_page, collection, since, limit, request_id(request))
    except HistoryMissing:
        # The token may come from a worker that has seen a newer generation.
        await asyncio.to_thread(retrieval.snapshots.refresh)
        collection = await _find(retrieval, name, since, caller)
        try:
            body, chunk_ids = await asyncio.to_thread(_page, collection, since, limit, request_id(request))
        except HistoryMissing as error:
            raise _gone() from error
    retrieval.check_budget(caller)  # concurrent requests may have spent it
    for first in range(0, len(chunk_ids), CHARGED_AT_ONCE):
        retrieval.charge_budget(caller, collection, chunk_ids[first : first + CHARGED_AT_ONCE])
        await asyncio.sleep(0)
    return Response(body, 200, {"Cache-Control": "no-store", "Vary": "Accept"}, variant.media_type)


routes = [Route("/collections/{name}/changes", list_changes, methods=["GET"])]
