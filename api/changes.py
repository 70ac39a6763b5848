"""The change feed of AIDRE (capability `delta_sync`): what happened to the chunks of a collection since a token.

The draft names the capability and leaves it undefined; this is how it is defined here. A token tells where a client
stands and grants nothing: what the caller may see is asked at each request. So it is not sealed, needs no secret,
and is good at every worker and after a restart. Chunks that it names count as given, where that is counted.
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

from aidre.api.access import caller_of
from aidre.api.cursor import lineage_digest
from aidre.api.envelope import negotiate, refuse
from aidre.api.refusals import BadRequest, Gone
from aidre.api.retrieve import Retrieval, Shown
from aidre.api.wire import request_id, speaks
from aidre.engine.errors import HistoryMissing
from aidre.engine.feed import Change, ChangesPage, Place, Point

CHANGES_DEFAULT = 1_000
CHANGES_MOST = 10_000
COUNTED_AT_ONCE = 512
"""Of the chunks of a page: others get their turn in between."""

TOKEN = struct.Struct(">B8sQ8sQ8sQ")
"""Kind, lineage, the point of the place and the one that was seen, and a row or a hash where the kind has one."""
BEHIND, INSIDE, LISTING = 1, 2, 3
CHECK_BYTES = 5


def write_token(lineage: str, place: Place) -> str:
    """The token of a client that stands at a place in the history of a collection."""
    kind, value = BEHIND, 0
    if place.listed is not None:
        kind, value = LISTING, place.listed
    elif place.row is not None:
        kind, value = INSIDE, place.row
    (generation, mark), (newest, other) = place.point, place.seen or place.point
    points = generation, bytes.fromhex(mark), newest, bytes.fromhex(other)
    body = TOKEN.pack(kind, lineage_digest(lineage), *points, value)
    return base64.urlsafe_b64encode(body + _check(body)).decode()


def read_token(token: str) -> tuple[bytes, Place]:
    """The digest of the lineage, and the place. BadRequest for what is no token."""
    try:
        content = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    body, check = content[: TOKEN.size], content[TOKEN.size :]
    if len(body) != TOKEN.size or check != _check(body) or body[0] not in (BEHIND, INSIDE, LISTING):
        raise BadRequest("since is not a token of this feed: send the next of an earlier answer", member="since")
    kind, lineage, generation, mark, newest, other, value = TOKEN.unpack(body)
    row, listed = (value if kind == INSIDE else None), (value if kind == LISTING else None)
    return lineage, Place(Point(generation, mark.hex()), row, listed, Point(newest, other.hex()))


def _check(body: bytes) -> bytes:
    """Tells a token that was cut or mistyped from one that is too old."""
    return hashlib.blake2b(body, digest_size=CHECK_BYTES, person=b"aidre.changes").digest()


def parse_limit(value: str | None) -> int:
    """How many changes a page holds at most; more than CHANGES_MOST is clamped."""
    if value is None:
        return CHANGES_DEFAULT
    if not (value.isascii() and value.isdigit() and int(value[:20]) > 0):
        raise BadRequest("limit must be a whole number of at least 1", member="limit")
    return min(int(value[:20]), CHANGES_MOST)


def render(page: ChangesPage, shown: Shown, identifier: str) -> bytes:
    """The answer, spliced from the JSON that was written at ingest."""
    head = orjson.dumps({"request_id": identifier, "collection": shown.name})
    tail = orjson.dumps({"next": write_token(shown.snapshot.lineage, page.place), "more": page.more})
    changes = b",".join([_change(change) for change in page.changes])
    return b'%b,"changes":[%b],%b' % (head[:-1], changes, tail[1:])


def _change(change: Change) -> bytes:
    source = b"" if change.chunk is None else b',"source":%b' % change.chunk.json_source
    parts = (change.op.encode(), orjson.dumps(change.id), change.content_hash.hex().encode(), source)
    return b'{"op":"%b","id":%b,"content_hash":"sha256:%b"%b}' % parts


def _page(shown: Shown, since: tuple[bytes, Place] | None, limit: int, identifier: str) -> tuple[bytes, list[str]]:
    """The answer, and the ids of the chunks that it names as being there."""
    place = None
    if since is not None:
        lineage, place = since
        if lineage != lineage_digest(shown.snapshot.lineage):
            raise HistoryMissing("the collection was made anew")
    page = shown.snapshot.changes(place, limit)
    return render(page, shown, identifier), [change.id for change in page.changes if change.op != "delete"]


@speaks(refuse)
async def list_changes(request: Request) -> Response:
    variant = negotiate(request)
    limit = parse_limit(request.query_params.get("limit"))
    token = request.query_params.get("since")
    since = read_token(token) if token else None  # whoever has none yet may send it empty
    retrieval: Retrieval = request.app.state.retrieval
    name, caller = request.path_params["name"], caller_of(request)
    shown = retrieval.find(name, caller, "aidre")
    retrieval.check_budget(caller)
    if retrieval.settings.limits.chunks_per_day:
        limit = min(limit, CHANGES_DEFAULT)  # the last answer is given whole, so it must not be many of them
    try:
        body, given = await asyncio.to_thread(_page, shown, since, limit, request_id(request))
    except HistoryMissing:
        # The token may come from a worker that has seen a newer generation.
        await asyncio.to_thread(retrieval.live.refresh)
        shown = retrieval.find(name, caller, "aidre")
        try:
            body, given = await asyncio.to_thread(_page, shown, since, limit, request_id(request))
        except HistoryMissing as error:
            raise Gone(
                "the changes since this token are no longer kept: begin again without since, and forget what is not "
                "listed then",
                member="since",
            ) from error
    retrieval.check_budget(caller)  # what was asked for at the same time may have spent it
    for first in range(0, len(given), COUNTED_AT_ONCE):
        retrieval.give(caller, shown, given[first : first + COUNTED_AT_ONCE])
        await asyncio.sleep(0)
    return Response(body, 200, {"Cache-Control": "no-store", "Vary": "Accept"}, variant.media_type)


routes = [Route("/collections/{name}/changes", list_changes, methods=["GET"])]
