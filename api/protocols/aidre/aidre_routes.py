"""AIDRE over HTTP: its routes in the application, and its operations for the OpenAPI document.

Its error envelope is the server's default, so it needs no renderer of its own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from aidre.api.config import Settings
from aidre.api.http import AIDRE_JSON, JSON, PROBLEM_JSON, BodyContent, Error, Operation, Parameter, link
from aidre.api.protocols.aidre import browsing, changes, document_endpoints, reading, search, suggestions
from aidre.api.protocols.aidre.browsing import CHUNKS_DEFAULT, DOCUMENTS_DEEPEST, DOCUMENTS_DEFAULT
from aidre.api.protocols.aidre.changes import CHANGES_DEFAULT
from aidre.api.protocols.aidre.discovery import BEHAVIOUR
from aidre.api.protocols.aidre.document_endpoints import MAX_KEY_CHARS
from aidre.api.protocols.aidre.document_messages import (
    CountQuery,
    Deleted,
    Deletion,
    DocumentCount,
    DocumentPage,
    DocumentQuery,
    Patched,
    Written,
)
from aidre.api.protocols.aidre.reading import READING
from aidre.api.protocols.aidre.search_messages import (
    ChangePage,
    Chunk,
    CollectionAnswer,
    CollectionList,
    Discovery,
    DocumentAnswer,
    DocumentList,
    Profile,
    SearchAnswer,
    SearchRequest,
    SuggestAnswer,
)
from aidre.api.protocols.aidre.suggestions import SUGGESTIONS_DEFAULT
from aidre.api.server import Mounted
from aidre.api.writing import DocumentWrites, IdempotencyKeys


def mount(store: Path, settings: Settings, state: Path) -> Mounted:
    """`state` is the folder of what is kept beside the collections."""
    routes = [*search.routes, *changes.routes, *suggestions.routes, *browsing.routes, *reading.routes]
    if not settings.server.writes:
        return Mounted(routes=routes)
    writes, keys = DocumentWrites(store, settings), IdempotencyKeys(state)

    async def close() -> None:
        await writes.close()
        keys.close()

    return Mounted(
        routes=[*routes, *document_endpoints.routes],
        state={"document_writes": writes, "idempotency_keys": keys},
        close=close,
    )


# -- described ------------------------------------------------------------------------------------------------


def _limit(what: str, default: int, example: int) -> Parameter:
    schema = {"type": "integer", "minimum": 1}
    return Parameter("limit", "query", f"{what} at most; {default} if left out", example, schema)


TYPES = (JSON, AIDRE_JSON)
"""Generated clients take the first one of an answer."""
ERROR = BodyContent(Error, (*TYPES, PROBLEM_JSON), "An error")
NAME = Parameter("name", "path", "The name of a collection", "docs")
NARROWED = Parameter("collection", "query", "Look in this collection only", "docs")
SINCE = Parameter("since", "query", "The `next` of an earlier answer; left out: from the beginning", "")
LIMIT = _limit("Changes", CHANGES_DEFAULT, 100)
TYPED = Parameter("q", "query", "The text to complete, as it is typed", "how is a ba", {"type": "string"}, True)
COMPLETIONS = _limit("Completions", SUGGESTIONS_DEFAULT, 8)
LISTED = _limit("Documents", DOCUMENTS_DEFAULT, 50)
CHUNKS = _limit("Chunks", CHUNKS_DEFAULT, 100)
SKIPPED, SKIPPED_CHUNKS = (
    Parameter(
        "offset", "query", "The `next` of an earlier answer", 0, {"type": "integer", "minimum": 0, "maximum": end}
    )
    for end in (DOCUMENTS_DEEPEST, 1 << 31)
)
DOCUMENT = Parameter("id", "path", "The id of a document", "docs/backup.md")
BODY = "$response.body#"

_operation = partial(Operation, tag="AIDRE", error=ERROR)
_get = partial(_operation, method="get")

KEY = Parameter(
    "Idempotency-Key",
    "header",
    "The same value with the same request again gets the first answer, for a day, and acts once",
    "8e03978e-40d5-43dd-bc93-6894a57f9324",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS},
    required=False,
)
ROW: dict[str, Any] = {
    "type": "object",
    "description": "A document: id, text, title, url, updated_at, vectors, metadata",
}

CHANGES = (
    "`title`, `url`, `type`, `updated_at`, `text` and `vectors` are the document's, all other names are metadata, and "
    "null removes one; a new text is embedded, or needs new vectors. "
    "Durable when the answer comes."
)
CHANGED: dict[str, Any] = {"type": "object", "description": "Changed members of a document; null removes one"}
MERGE_PATCH = "application/merge-patch+json"

_write = partial(_operation, errors=(400, 404, 406, 408, 409, 413, 415, 422, 500))

WRITES: tuple[Operation, ...] = (
    _write(
        method="put",
        path="/collections/{name}/documents",
        name="putDocuments",
        summary="Write documents",
        description="Each row is a document, with the members of a row of JSON Lines; one with a known id replaces it. "
        "All rows are written or none; they are durable when the answer comes. Needs the scope `write`.",
        request=BodyContent({"type": "array", "items": ROW}, also={"application/x-ndjson": {"type": "string"}}),
        answers={200: BodyContent(Written, TYPES)},
        parameters=(NAME, KEY),
    ),
    _write(
        method="patch",
        path="/collections/{name}/documents",
        name="patchDocuments",
        summary="Change members of documents",
        description=f"The body has an object of changed members by id: {CHANGES} All are changed or none. Needs the "
        "scope `write`.",
        request=BodyContent(
            {"type": "object", "additionalProperties": CHANGED}, also={MERGE_PATCH: {"type": "object"}}
        ),
        answers={200: BodyContent(Patched, TYPES)},
        parameters=(NAME, KEY),
    ),
    _write(
        method="post",
        path="/collections/{name}/documents/delete",
        name="deleteDocuments",
        summary="Delete the documents with some ids, or all that pass a filter",
        description="Send exactly one of `ids` and `filter`, which selects of all that was written before. Durable "
        "when the answer comes. A filter that could delete what it "
        "seems to spare is refused: by a field that no document has, unless `allow_unknown` is true; by `id`, `title`, "
        "`text` or `section` where that is a metadata field. Needs the scope `write`.",
        request=BodyContent(Deletion),
        answers={200: BodyContent(Deleted, TYPES)},
        parameters=(NAME, KEY),
    ),
    _write(
        method="patch",
        path="/collections/{name}/documents/{id}",
        name="patchDocument",
        summary="Change members of a document",
        description=f"{CHANGES} Percent-encode the id. Needs the scope `write`.",
        request=BodyContent(CHANGED, also={MERGE_PATCH: {"type": "object"}}),
        answers={200: BodyContent(Patched, TYPES)},
        parameters=(NAME, DOCUMENT, KEY),
    ),
    _write(
        method="delete",
        path="/collections/{name}/documents/{id}",
        name="deleteDocument",
        summary="Delete a document",
        description="Durable when the answer comes. Needs the scope `write`.",
        answers={200: BodyContent(Deleted, TYPES)},
        parameters=(NAME, DOCUMENT, KEY),
    ),
)
"""Served where `server.writes` is true."""

OPERATIONS: tuple[Operation, ...] = (
    _get(
        path="/.well-known/ai-discovery",
        name="discover",
        summary="What is served here",
        description="Spaces, modes, defaults, limits and endpoints, as far as the caller may use them.",
        answers={200: BodyContent(Discovery, TYPES)},
        errors=(500,),
        conditional=True,
    ),
    _get(
        path="/collections",
        name="listCollections",
        summary="All collections",
        description="The collections that the caller may search.",
        answers={200: BodyContent(CollectionList, TYPES)},
        errors=(406, 500),
        links={"first": link("showCollection", "One of them", name=f"{BODY}/collections/0/name")},
        conditional=True,
    ),
    _get(
        path="/collections/{name}",
        name="showCollection",
        summary="One collection",
        description="One of the collections that the caller may search.",
        answers={200: BodyContent(CollectionAnswer, TYPES)},
        errors=(404, 406, 500),
        parameters=(NAME,),
        links={"changes": link("listChanges", "What happens to its chunks", name=f"{BODY}/name")},
        conditional=True,
    ),
    _get(
        path="/collections/{name}/changes",
        name="listChanges",
        summary="What happened to the chunks of a collection since a token",
        description=BEHAVIOUR["changes"],
        answers={200: BodyContent(ChangePage, TYPES)},
        errors=(400, 404, 406, 410, 500),
        parameters=(NAME, SINCE, LIMIT),
        links={
            "next": link("listChanges", "The next page", name=f"{BODY}/collection", since=f"{BODY}/next"),
            "chunk": link("showChunk", "A listed chunk", id=f"{BODY}/changes/0/id", collection=f"{BODY}/collection"),
        },
    ),
    _get(
        path="/collections/{name}/suggest",
        name="suggest",
        summary="A text with its last word completed",
        description=BEHAVIOUR["suggest"],
        answers={200: BodyContent(SuggestAnswer, TYPES)},
        errors=(400, 403, 404, 406, 500),
        parameters=(NAME, TYPED, COMPLETIONS),
        conditional=True,
    ),
    _get(
        path="/collections/{name}/profile",
        name="showProfile",
        summary="What a collection holds",
        description="Sizes, languages, calibration, and the fields that are worth a filter.",
        answers={200: BodyContent(Profile, TYPES)},
        errors=(404, 406, 500),
        parameters=(NAME,),
        conditional=True,
    ),
    _get(
        path="/collections/{name}/browse",
        name="listDocuments",
        summary="The documents of a collection",
        description="In the order of storage.",
        answers={200: BodyContent(DocumentList, TYPES)},
        errors=(400, 404, 406, 500),
        parameters=(NAME, LISTED, SKIPPED),
        conditional=True,
    ),
    _get(
        path="/collections/{name}/browse/{id}",
        name="showDocument",
        summary="One document with its chunks in order",
        description="The chunks have their text if the collection returns texts. Percent-encode the id.",
        answers={200: BodyContent(DocumentAnswer, TYPES)},
        errors=(400, 404, 406, 500),
        parameters=(NAME, DOCUMENT, CHUNKS, SKIPPED_CHUNKS),
        conditional=True,
    ),
    _operation(
        method="post",
        path="/collections/{name}/query",
        name="queryDocuments",
        summary="Whole documents, by id or by a filter",
        description=f"{READING['query']}. Each document is charged as its chunks where it has its text, else as one.",
        request=BodyContent(DocumentQuery),
        answers={200: BodyContent(DocumentPage, TYPES)},
        errors=(400, 404, 406, 408, 409, 413, 415, 422, 500),
        parameters=(NAME,),
    ),
    _operation(
        method="post",
        path="/collections/{name}/count",
        name="countDocuments",
        summary="How many documents pass a filter, and the values of their fields",
        description="`facets` where the collection returns texts.",
        request=BodyContent(CountQuery),
        answers={200: BodyContent(DocumentCount, TYPES)},
        errors=(400, 404, 406, 408, 413, 415, 422, 500),
        parameters=(NAME,),
    ),
    _operation(
        method="post",
        path="/search",
        name="search",
        summary="The chunks nearest to a text or a vector",
        description="Send exactly one of `query` and `query_vector`. `mode` says "
        f"{BEHAVIOUR['mode']}. {BEHAVIOUR['media_types']}.",
        request=BodyContent(SearchRequest),
        answers={200: BodyContent(SearchAnswer, TYPES)},
        errors=(400, 404, 406, 408, 409, 413, 415, 422, 500),
        links={
            "next": link(
                "search",
                "The next page: the same request with `cursor`, which is `meta.next_cursor` of this answer",
            ),
            "chunk": link("showChunk", "The best result", id=f"{BODY}/results/0/id", collection=f"{BODY}/collection"),
        },
    ),
    _get(
        path="/chunks/{id}",
        name="showChunk",
        summary="One chunk by its id",
        description="The chunk, with its text if the collection returns texts. Percent-encode the id.",
        answers={200: BodyContent(Chunk, TYPES)},
        errors=(404, 406, 409, 500),
        parameters=(Parameter("id", "path", "The id of a chunk", "docs/backup.md#chunk_1"), NARROWED),
        conditional=True,
    ),
)
