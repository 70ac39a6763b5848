"""Whole documents of a collection on a server: read back, counted, written and deleted; extensions of AIDRE.

A write carries an Idempotency-Key where the server honours one, so that it can be sent again when its answer was lost,
and is done once. Where the server does not, it is sent again only if it was refused or never left.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from aidre_client.chunks import to_facet
from aidre_client.collection.rows import read_rows, to_row_changes
from aidre_client.errors import AccessDenied, AidreError, CollectionMissing, InvalidInput, Missing, Unsupported
from aidre_client.exchange import IDEMPOTENCY_KEY, Response, Steps, decode
from aidre_client.messages import DocumentCount, DocumentPage, SentDocument, WriteAnswer
from aidre_client.search import RemoteReader
from aidre_client.session import encode, expand, is_field_value
from aidre_client.values import (
    Document,
    Facet,
    Json,
    check_range,
    need_numpy,
    shown,
    to_ids,
    to_json_filter,
)

MAX_LIMIT = (1 << 31) - 1
"""More documents than a collection has."""
PAGE = 500
"""Documents that are asked for together; a server gives as many as it does."""
MAX_IDS, MAX_DELETED, MAX_FACETS, FACET_VALUES = 1_000, 10_000, 20, 1_000
"""Ids of a reading, ids of a deletion, fields of a count, and values of each, in a request."""
WRITE_BYTES = 1 << 20
"""Of the rows of a request, where the server does not say how many it takes."""
MAX_KEY_CHARS = 200


@dataclass(frozen=True, slots=True)
class ScanPart:
    """What a scan gives: `limit` documents after the first `offset`, whole or of some `fields`."""

    filter: Json = None
    order_by: str | Sequence[str] | None = None
    limit: int | None = None
    offset: int = 0
    fields: Sequence[str] | None = None
    vectors: bool = False

    def __post_init__(self) -> None:
        """InvalidInput, before anything is sent."""
        check_limits(self.limit, self.offset)
        names = [self.order_by] if isinstance(self.order_by, str) else self.order_by
        is_list = isinstance(names, list | tuple)
        if names is not None and not (is_list and all(isinstance(name, str) and name.strip("-") for name in names)):
            raise InvalidInput(
                'order_by is the name of a field, "-price" for the greatest first, or a list, not '
                f"{shown(self.order_by)}"
            )
        if self.vectors:
            need_numpy()

    def members(self) -> dict[str, Any]:
        named = {
            "filter": self.filter,
            "order_by": self.order_by,
            "offset": self.offset or None,
            "fields": self.fields,
            "vectors": self.vectors or None,
        }
        return {name: value for name, value in named.items() if value is not None}


def check_limits(limit: Any, offset: Any) -> None:
    if limit is not None:
        check_range("limit", limit, 1, MAX_LIMIT)
    check_range("offset", offset, 0, MAX_LIMIT)


def to_part(
    filter: Json, order_by: Any, limit: int | None, offset: int, *, fields: Any = None, vectors: bool = False
) -> ScanPart:
    """What a program asks for. InvalidFilter, InvalidInput."""
    if fields is not None and (isinstance(fields, str | bytes) or not isinstance(fields, Iterable)):
        raise InvalidInput(f"fields is a list of names, not {type(fields).__name__}")
    names = None if fields is None else list(fields)
    if not all(isinstance(name, str) for name in names or ()):
        raise InvalidInput("fields is a list of names, which are strings")
    return ScanPart(None if filter is None else to_json_filter(filter), order_by, limit, offset, names, vectors)


@dataclass(slots=True)
class RemoteDocuments:
    """The operations on documents of one collection of a server."""

    reader: RemoteReader

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, ids: Any, limit: int | None, offset: int, *, vectors: bool) -> Steps[list[Document | None]]:
        """The documents with these ids, in their order, None for one that is not there."""
        if isinstance(ids, str):
            raise InvalidInput("get needs a list of ids: one document is get([id])[0]")
        check_limits(limit, offset)
        if vectors:
            need_numpy()
        chosen = _to_sent(ids, "get")[offset : None if limit is None else offset + limit]
        found: list[Document | None] = []
        for listed in _batches(chosen, MAX_IDS):
            members = {"ids": listed, "limit": PAGE, **({"vectors": True} if vectors else {})}
            while len(listed):
                page = yield from self.page(members)
                found += [None if document is None else to_document(document) for document in page.documents]
                if page.next is None:
                    break
                members["cursor"] = page.next
        return found

    def count(self, filter: Json) -> Steps[int]:
        """The number of documents that pass a filter."""
        return (yield from self._count({} if filter is None else {"filter": to_json_filter(filter)})).documents

    def facets(self, fields: Sequence[str], filter: Json, limit: int | None) -> Steps[dict[str, Facet]]:
        """By field, the values that it has among the documents that pass a filter."""
        if not fields or not all(isinstance(name, str) for name in fields):
            raise InvalidInput("facets needs the names of fields, which are strings")
        if limit is not None:
            check_range("limit", limit, 1, MAX_LIMIT)
        shared = {} if filter is None else {"filter": to_json_filter(filter)}
        most = min(limit or FACET_VALUES, FACET_VALUES)
        found: dict[str, Facet] = {}
        for few in _batches(list(dict.fromkeys(fields)), MAX_FACETS):
            requests = [{"field": name, "limit": most} for name in few]
            answer = yield from self._count({**shared, "facets": requests})
            found |= {name: to_facet(answer.facets[name]) for name in few if name in answer.facets}
        return found

    def _count(self, members: dict[str, Any]) -> Steps[DocumentCount]:
        url = yield from self._address("count")
        return decode((yield from self._ask(url, members)), DocumentCount)

    def page(self, members: dict[str, Any]) -> Steps[DocumentPage]:
        url = yield from self._address("query")
        return decode((yield from self._ask(url, members)), DocumentPage)

    def _ask(self, url: str, members: dict[str, Any]) -> Steps[Response]:
        session = self.reader.session
        return (yield from session.respond("POST", url, encode(members), collection=self.reader.name))

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(self, rows: Any, vectors: Any, key: str | None) -> Steps[list[str]]:
        """Store documents; returns their ids. An error says in `details["stored"]` how many documents earlier requests
        of the call have stored, where there were more than one."""
        check_key(key)
        url = yield from self._writing()
        found = yield from self.reader.session.discovery()
        most = (found.limit("write_bytes") or WRITE_BYTES) - 2
        stored: list[str] = []
        for number, (ids, body) in enumerate(_bodies(read_rows(rows, vectors), most)):
            part = key if key is None or number == 0 else f"{key}-{number}"
            try:
                yield from self._write("PUT", url, body, part)
            except AidreError as error:
                if stored:
                    error.details["stored"] = len(stored)
                place = str(error.details.get("row", "")).strip("[]")
                if place.isdecimal():  # of the request, as the server names it: of the call, as the library does
                    error.details["row"] = len(stored) + int(place)
                raise
            stored += ids
        return stored

    def patch(self, changes: Any, key: str | None) -> Steps[int]:
        """Change members of documents, by id; returns how many differ then."""
        check_key(key)
        read = to_row_changes(changes)
        if not _to_sent(read, "patch"):
            return 0
        url = yield from self._writing()
        body = encode(read)
        if len(read) == 1:
            [(document_id, members)] = read.items()
            if document_id.strip("."):  # a proxy may read "." and ".." as steps
                url, body = f"{url}/{_quoted(document_id)}", encode(members)
        return (yield from self._write("PATCH", url, body, key)).changed

    def delete(self, ids: Any, filter: Json, allow_unknown: bool, key: str | None) -> Steps[int]:
        """Delete documents by id, or all that pass a filter; returns how many existed."""
        check_key(key)
        if (ids is None) == (filter is None):
            raise InvalidInput("delete needs ids or filter=, and not both")
        bodies: list[dict[str, Any]]
        if ids is None:
            bodies = [{"filter": to_json_filter(filter), "allow_unknown": bool(allow_unknown)}]
        else:
            bodies = [{"ids": listed} for listed in _batches(_to_sent(ids, "delete"), MAX_DELETED)]
        deleted = 0
        url = yield from self._writing()
        for number, members in enumerate(bodies):
            part = key if key is None or number == 0 else f"{key}-{number}"
            deleted += (yield from self._write("POST", f"{url}/delete", encode(members), part)).deleted
        return deleted

    def _write(self, method: str, url: str, body: bytes, key: str | None) -> Steps[WriteAnswer]:
        found = yield from self.reader.session.discovery()
        write_members = found.extensions.get("documents")
        honours = isinstance(write_members, Mapping) and "repeat" in write_members
        sent = (key or uuid.uuid4().hex) if honours else key
        more = () if sent is None else ((IDEMPOTENCY_KEY, sent),)
        session = self.reader.session
        response = yield from session.respond(method, url, body, more=more, repeatable=honours)
        answer = decode(response, WriteAnswer)
        name = answer.collection or self.reader.name
        if name is not None:
            if name not in session.written:  # it may have made the collection, whose spaces are told there
                session.forget_discovery()
            session.written[name] = max(answer.generation, session.written.get(name, 0))
        return answer

    def _writing(self) -> Steps[str]:
        """Where documents are written. A server does not tell that to who may not write, and says why when asked."""
        found = yield from self.reader.session.discovery()
        if found.endpoints.documents is not None:
            return (yield from self._address("documents"))
        if found.endpoints.query is None:
            raise Unsupported("the server takes no documents from this client", capability="documents")
        name = yield from self.reader.known_name()
        url = expand(self.reader.session.allowed(found.endpoints.query), name=name)
        refusal = yield from self._refusal(url.removesuffix("/query") + "/documents")
        raise refusal

    def _refusal(self, url: str) -> Steps[AidreError]:
        """What the server says to who may not write."""
        try:
            yield from self.reader.session.respond("PUT", url, b"[]")
        except (AccessDenied, CollectionMissing) as error:
            return error
        except Missing:
            pass
        return Unsupported(
            "the server takes no documents: set server.writes in its configuration", capability="documents"
        )

    def _address(self, name: str) -> Steps[str]:
        found = yield from self.reader.session.discovery()
        template = getattr(found.endpoints, name)
        if template is None:
            raise Unsupported(f"the server has no endpoint {name}", capability=name)
        return expand(self.reader.session.allowed(template), name=(yield from self.reader.known_name()))


@dataclass(slots=True)
class DocumentScan:
    """The documents of a part, one by one, of the state in which the first page was read."""

    documents: RemoteDocuments
    part: ScanPart
    _pending: deque[SentDocument] = field(default_factory=deque, init=False)
    _cursor: str | None = field(default=None, init=False)
    _given: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)

    def next_document(self) -> Steps[Any]:
        """The next document, as a Document or a dict of its fields; None after the last one."""
        if self._given == self.part.limit:
            return None
        while not self._pending:
            if self._ended:
                return None
            left = PAGE if self.part.limit is None else min(PAGE, self.part.limit - self._given)
            members = {**self.part.members(), "limit": left}
            if self._cursor is not None:
                members["cursor"] = self._cursor
            page = yield from self.documents.page(members)
            self._cursor, self._ended = page.next, page.next is None
            self._pending.extend(document for document in page.documents if document is not None)
        self._given += 1
        document = self._pending.popleft()
        return to_document(document) if self.part.fields is None else _selected(document)

    def all(self) -> Steps[list[Any]]:
        found = []
        while (document := (yield from self.next_document())) is not None:
            found.append(document)
        return found


def to_document(sent: SentDocument) -> Document:
    vectors = None
    if sent.vectors is not None:
        import numpy as np

        vectors = {space: np.asarray(vector, np.float32) for space, vector in sent.vectors.items()}
    return Document(
        sent.id,
        sent.text or "",
        title=sent.title,
        url=sent.url,
        updated_at=sent.updated_at,
        type=sent.type,
        metadata=sent.metadata,
        schema_object=sent.schema_object,
        vectors=vectors,
    )


def _selected(sent: SentDocument) -> dict[str, Any]:
    """The id of a document, and its named members and metadata."""
    members = {name: getattr(sent, name) for name in ("text", "title", "url", "updated_at", "type")}
    whole = {"id": sent.id, **sent.metadata, **{name: value for name, value in members.items() if value is not None}}
    return {name: value for name, value in whole.items() if value is not None}


def check_key(key: Any) -> None:
    if key is not None and not (isinstance(key, str) and is_field_value(key) and len(key) <= MAX_KEY_CHARS):
        raise InvalidInput(f"idempotency_key is a text of 1 to {MAX_KEY_CHARS} visible characters of ASCII")


def _bodies(rows: Iterator[tuple[str, bytes]], most: int) -> Iterator[tuple[list[str], bytes]]:
    """Rows as JSON arrays of at most so many bytes, each with the ids of its rows; one row may be longer."""
    ids, parts, size = list[str](), list[bytes](), 0
    for document_id, row in rows:
        if parts and size + len(row) + 1 > most:
            yield ids, b"[" + b",".join(parts) + b"]"
            ids, parts, size = [], [], 0
        ids.append(document_id)
        parts.append(row)
        size += len(row) + 1
    if parts:
        yield ids, b"[" + b",".join(parts) + b"]"


def _batches(values: Sequence[str], size: int) -> Iterator[list[str]]:
    listed = iter(values)
    while few := list(islice(listed, size)):
        yield few


def _to_sent(ids: Any, verb: str) -> list[str]:
    listed = to_ids(ids, verb)
    for row in listed:
        _quoted(row)
    return listed


def _quoted(document_id: str) -> str:
    try:
        return quote(document_id, safe="-._~")
    except UnicodeEncodeError:
        raise InvalidInput(f"the id {document_id!a:.80} has half of a surrogate pair, which is not text") from None
