"""Writing documents (an extension of ours): rows and changes go in, and are durable when the answer comes.

Every route needs the scope `write`. A key that lists collections writes to these alone. A collection that does not
exist is made if the configuration has a section for it. The members of a row are those of a file of JSON Lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import Caller, Guard, caller_of, may_see, visibility_in_force
from aidre.api.http import (
    AIDRE_JSON,
    JSON,
    BadRequest,
    Forbidden,
    NotFound,
    Unavailable,
    negotiate,
    parse_content_type,
    parse_object,
    read_content,
    read_message,
    render_error,
    renders_errors_with,
    request_id,
)
from aidre.api.protocols.aidre.document_messages import Deleted, Deletion, Patched, Written
from aidre.api.retrieval import Retrieval, retrieval_of
from aidre.api.writing import (
    CLAIM_SECONDS,
    DeleteDocuments,
    DeletePassing,
    DocumentWrites,
    IdempotencyKeys,
    MakeRequest,
    PatchDocuments,
    PutRows,
    StoredAnswer,
    WriterReply,
)
from aidre.engine.errors import CollectionMissing, InvalidFilter
from aidre.engine.index.fields import parse_filter

logger = logging.getLogger("aidre")

ARRAY_TYPES = frozenset({JSON, AIDRE_JSON})
PATCH_TYPES = ARRAY_TYPES | {"application/merge-patch+json"}
LINE_TYPES = frozenset({"application/x-ndjson", "application/jsonl", "application/x-jsonlines"})
MAX_KEY_CHARS = 255


@renders_errors_with(render_error)
async def put_documents(request: Request) -> Response:
    variant = negotiate(request)
    name = _checked_collection(request)
    limits = retrieval_of(request).settings.limits
    body = await read_content(request, ARRAY_TYPES | LINE_TYPES, limits.write_bytes)
    media_type, _ = parse_content_type(request.headers.get("content-type", ""))
    make = partial(PutRows, collection=name, body=body, format="lines" if media_type in LINE_TYPES else "array")

    def render(answer: WriterReply) -> Written:
        return Written(
            collection=name,
            generation=answer.generation,
            documents=answer.documents,
            written=answer.written,
            unchanged=answer.documents - answer.written,
            request_id=request_id(request),
        )

    return await _write(request, make, body, render, variant.media_type)


@renders_errors_with(render_error)
async def patch_documents(request: Request) -> Response:
    """An object of changed members by id, or with an id in the path the changed members of that document."""
    variant = negotiate(request)
    name, document_id = _checked_collection(request), request.path_params.get("id")
    body = await read_content(request, PATCH_TYPES, retrieval_of(request).settings.limits.write_bytes)
    content = await asyncio.to_thread(parse_object, body)
    changes: dict[str, Any] = content if document_id is None else {document_id: content}
    for changed, members in changes.items():
        if type(members) is not dict:
            raise BadRequest("send an object of changed members by id: each is an object", member=changed)
    make = partial(PatchDocuments, collection=name, changes=orjson.dumps(changes))

    def render(answer: WriterReply) -> Patched:
        return Patched(
            collection=name,
            generation=answer.generation,
            documents=answer.documents,
            changed=answer.written,
            request_id=request_id(request),
        )

    return await _write(request, make, body, render, variant.media_type)


@renders_errors_with(render_error)
async def delete_document(request: Request) -> Response:
    variant = negotiate(request)
    name, document_id = _checked_collection(request), request.path_params["id"]

    def render(answer: WriterReply) -> Deleted:
        if not answer.deleted:
            raise NotFound("there is no document with this id")
        return _deleted(request, name, answer)

    make = partial(DeleteDocuments, collection=name, document_ids=[document_id])
    return await _write(request, make, b"", render, variant.media_type)


@renders_errors_with(render_error)
async def delete_documents(request: Request) -> Response:
    """Deletes the documents with these ids, or all that pass a filter."""
    variant = negotiate(request)
    name = _checked_collection(request)
    body = await read_content(request, ARRAY_TYPES, retrieval_of(request).settings.limits.body_bytes)
    deletion = read_message(parse_object(body), Deletion)
    if (deletion.ids is None) == (deletion.filter is None):
        raise BadRequest(
            'send exactly one of ids and filter: {"ids": [...]} or {"filter": ...} says which documents to delete',
            members=["ids", "filter"],
        )
    make: MakeRequest = partial(DeleteDocuments, collection=name, document_ids=deletion.ids or [])
    if deletion.filter is not None:
        try:
            await asyncio.to_thread(parse_filter, deletion.filter)
        except InvalidFilter as error:
            raise InvalidFilter(error.message, member="filter") from error
        filter = orjson.dumps(deletion.filter)
        make = partial(DeletePassing, collection=name, filter=filter, allow_unknown=deletion.allow_unknown)
    return await _write(request, make, body, partial(_deleted, request, name), variant.media_type)


def _deleted(request: Request, name: str, answer: WriterReply) -> Deleted:
    return Deleted(
        collection=name, generation=answer.generation, deleted=answer.deleted, request_id=request_id(request)
    )


async def _write(
    request: Request, make: MakeRequest, body: bytes, render: Callable[..., Any], media_type: str
) -> Response:
    """Write once: with an Idempotency-Key that was answered before, its answer is sent again."""
    key = _idempotency_key(request)
    if key is None:
        content = await _answer(request, make, body, render)
        return Response(content, 200, {"Cache-Control": "no-store"}, media_type)
    keys: IdempotencyKeys = request.app.state.idempotency_keys
    account = caller_of(request).account
    digest = hashlib.sha256(b"\0".join((request.method.encode(), request.url.path.encode(), body))).digest()
    known = await keys.run(keys.claim, account, key, digest, time.time())
    if isinstance(known, StoredAnswer):
        return Response(known.body, 200, {"Cache-Control": "no-store", "Idempotency-Replayed": "true"}, media_type)
    claim = _Claim(keys, account, key)
    # A write goes on when its caller disconnects: it acts on what is stored now, and who repeats it later, when
    # somebody else may have written, gets its answer.
    settling = asyncio.ensure_future(claim.settle(_answer(request, make, body, render)))
    settling.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to be told
    content = await asyncio.shield(settling)
    return Response(content, 200, {"Cache-Control": "no-store"}, media_type)


class _Claim(NamedTuple):
    """A key that was claimed for a request."""

    keys: IdempotencyKeys
    account: str
    key: str

    async def settle(self, answering: Coroutine[Any, Any, bytes]) -> bytes:
        """The answer, which is kept; the key is claimed for as long as it takes, and forgotten where it fails."""
        task = asyncio.ensure_future(answering)
        while not (await asyncio.wait((task,), timeout=CLAIM_SECONDS / 3))[0]:
            await _note(self.keys, self.keys.renew, self.account, self.key, time.time())
        if task.exception() is None:
            await _note(self.keys, self.keys.keep, self.account, self.key, task.result())
        else:
            await _note(self.keys, self.keys.release, self.account, self.key)
        return task.result()


async def _note(keys: IdempotencyKeys, method: Callable[..., None], *arguments: Any) -> None:
    """Record the outcome of a write. Where it cannot be recorded, the answer is sent all the same."""
    try:
        await asyncio.shield(keys.run(method, *arguments))
    except Unavailable as error:
        logger.warning("the answer to an Idempotency-Key is not kept: %s", error.__cause__)


async def _answer(request: Request, make: MakeRequest, body: bytes, render: Callable[..., Any]) -> bytes:
    writes: DocumentWrites = request.app.state.document_writes
    answer = await writes.write(make, len(body))
    snapshots = retrieval_of(request).snapshots
    if answer.generation and request.path_params["name"] not in snapshots.collections:
        await asyncio.to_thread(snapshots.refresh)  # it was made now, and is listed from now on
    return msgspec.json.encode(render(answer))


def _idempotency_key(request: Request) -> str | None:
    values = request.headers.getlist("idempotency-key")
    if not values:
        return None
    key = values[0].strip().removeprefix('"').removesuffix('"')
    if len(values) > 1 or not key or len(key) > MAX_KEY_CHARS:
        raise BadRequest(f"Idempotency-Key must be one value of 1 to {MAX_KEY_CHARS} characters")
    return key


def _checked_collection(request: Request) -> str:
    """The collection of the path, which the caller may write to. Unauthorized, Forbidden, CollectionMissing."""
    caller, name = caller_of(request), str(request.path_params["name"])
    if not caller.may_write:
        guard: Guard = request.app.state.guard
        raise guard.lacking(
            "write",
            request.scope["path"],
            caller,
            keyless="writing needs a key with the scope write: send Authorization: Bearer SECRET",
            known="this key may not write: its scopes lack write",
        )
    retrieval = retrieval_of(request)
    if not retrieval.collections.sees(name, caller, "aidre") and not may_be_made(retrieval, caller, name):
        raise CollectionMissing(f"there is no collection {name!r}", collection=name)
    if caller.collections and name not in caller.collections:
        raise Forbidden(f"this key may not write to {name!r}: it lists other collections")
    return name


def may_be_made(retrieval: Retrieval, caller: Caller, name: str) -> bool:
    """Whether a collection that does not exist has a section in the configuration, and the caller would see it."""
    settings = retrieval.settings.collections.get(name)
    is_stored = name in retrieval.snapshots.collections
    return settings is not None and not is_stored and may_see(caller, name, visibility_in_force("public", settings))


routes = [
    Route("/collections/{name}/documents", put_documents, methods=["PUT"]),
    Route("/collections/{name}/documents", patch_documents, methods=["PATCH"]),
    Route("/collections/{name}/documents/delete", delete_documents, methods=["POST"]),
    Route("/collections/{name}/documents/{id:path}", patch_documents, methods=["PATCH"]),
    Route("/collections/{name}/documents/{id:path}", delete_document, methods=["DELETE"]),
]
