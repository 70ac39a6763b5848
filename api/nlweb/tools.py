"""The tools that a model calls: `ask` and `await` (Appendix A), `search` and `fetch` as chat connectors look for them.

Every call is answered, a failed one with the failure document of NLWeb. It knows nothing of how calls travel.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import orjson

from aidre.api.access import Caller
from aidre.api.nlweb.answering import Service, answer
from aidre.api.nlweb.documents import find_documents
from aidre.api.nlweb.envelope import FAILED, NlwebFailure, document, failure_of, invalid
from aidre.api.nlweb.request import read_ask
from aidre.api.nlweb.rewriting import rewrite
from aidre.api.retrieve import Shown
from aidre.engine.errors import AidreError
from aidre.engine.model import Json
from aidre.engine.segment import StoredChunk

logger = logging.getLogger("aidre")

Arguments: TypeAlias = Mapping[str, Json]
Handler: TypeAlias = Callable[[Arguments, Caller, Service], Awaitable[bytes]]

NO_ERRORS = frozenset({"NO_RESULTS", "CANCELLED"})
"""Failures that are what was asked about: the call itself went well."""
SECTIONS = ("query", "context", "prefer", "meta")
DESCRIBED_CHARS = 1_000
"""Of the description of the `ask` tool, which names the collections."""

FILTERS = (
    "query.text is the question; query.site (a collection or a host), query.itemType (a schema.org type), query.price "
    "and any other property narrow it, query.limit is how many results; prefer.mode is list or summarize, or both with "
    "a comma."
)
ASK_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "object",
            "description": "The query object containing text and filters",
            "properties": {
                "text": {"type": "string"},
                "site": {"type": "string"},
                "itemType": {"type": "string"},
            },
            "required": ["text"],
        },
        "context": {"type": "object", "description": "Semantic context including conversation history"},
        "prefer": {"type": "object", "description": "Response preferences (streaming, formatting, mode)"},
        "meta": {"type": "object", "description": "Protocol metadata, version, and session context"},
    },
    "required": ["query"],
}
AWAIT_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "promise_token": {"type": "string"},
        "action": {"type": "string", "enum": ["checkin", "cancel"]},
        "meta": {"type": "object"},
    },
    "required": ["promise_token", "action"],
}
SEARCH_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for, in natural language"}},
    "required": ["query"],
}
FETCH_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"id": {"type": "string", "description": "The id of a search result"}},
    "required": ["id"],
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is described to a model; `schema` is open: what it does not name is let through."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Json]
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Called:
    """What a call came to: text for a model, the whole document for a program, and the document's `_meta`."""

    texts: tuple[str, ...]
    structured: Mapping[str, Json]
    meta: Mapping[str, Json] | None = None
    is_error: bool = False


def tools_for(caller: Caller, service: Service) -> list[Tool]:
    """The tools, described by what this caller can ask about."""
    about = _about(caller, service)
    return [
        Tool("ask", "Ask", f"Natural language interface to {about}. {FILTERS}", ASK_SCHEMA),
        Tool("await", "Await", "Check status or cancel a long-running promise.", AWAIT_SCHEMA, read_only=False),
        Tool("search", "Search", f"Searches {about}. Gives ids for the tool fetch.", SEARCH_SCHEMA),
        Tool("fetch", "Fetch", "The whole text of a document that the tool search has found.", FETCH_SCHEMA),
    ]


def _about(caller: Caller, service: Service) -> str:
    shown = service.retrieval.shown(caller, "nlweb")
    named = [f"{one.name} ({one.description.rstrip('. ')})" if one.description else one.name for one in shown]
    owner = service.retrieval.settings.server.organization
    whole = ", ".join(named) or "an empty store"
    whole = f"what {owner} publishes: {whole}" if owner else whole
    return whole if len(whole) <= DESCRIBED_CHARS else whole[: DESCRIBED_CHARS - 1] + "…"


async def call(name: str, arguments: Any, caller: Caller, service: Service) -> Called | None:
    """None for a tool that is not there."""
    handler = HANDLERS.get(name)
    if handler is None:
        return None
    try:
        return _called(await handler(_plain(arguments), caller, service))
    except AidreError as error:
        return _called(document(failure_of(error)))
    except Exception:  # the outermost handler of a call: the model is told, and only the log knows more
        logger.exception("the tool %s failed", name)
        return _called(document(NlwebFailure("INTERNAL_ERROR", FAILED)))


def _plain(arguments: Any) -> dict[str, Json]:
    """The arguments as the JSON parser of the HTTP side would give them."""
    try:
        # Not by orjson: it writes no integer of more than 64 bits, which it reads as a float.
        plain = orjson.loads(json.dumps({} if arguments is None else arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid("the arguments are nested too deep, or not Unicode") from error
    if type(plain) is not dict:
        raise invalid("the arguments must be an object")
    return {name: _unwrapped(value) if name in SECTIONS else value for name, value in plain.items()}


def _unwrapped(value: Json) -> Json:
    """Some models write a section as JSON in a string."""
    if type(value) is str and value.lstrip().startswith("{"):
        try:
            inner = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
        return inner if type(inner) is dict else value
    return value


def _called(whole: bytes) -> Called:
    """A document as the outcome of a call: its prose is the text where it has any (a ChatGPT app), else itself."""
    structured = orjson.loads(whole)
    prose = tuple(part["text"] for part in structured.get("content") or ())
    error = structured.get("error")
    is_error = error is not None and error["code"] not in NO_ERRORS
    return Called(prose or (whole.decode(),), structured, structured.get("_meta"), is_error)


async def _ask(arguments: Arguments, caller: Caller, service: Service) -> bytes:
    ask = read_ask(arguments, service.retrieval.settings)
    return document(await answer(ask, caller, service), ask.dialect)


async def _await(arguments: Arguments, caller: Caller, service: Service) -> bytes:
    known = await service.promises.awaited(arguments, caller)
    return known if isinstance(known, bytes) else document(known)


async def _search(arguments: Arguments, caller: Caller, service: Service) -> bytes:
    retrieval = service.retrieval
    if arguments.get("query") is None:
        raise invalid("query is missing: say what to look for")
    ask = read_ask({"query": arguments["query"]}, retrieval.settings)
    documents = await find_documents(retrieval, ask, rewrite(ask.text), caller)
    results = [_result(found.shown, found.hits[0].chunk, service) for found in documents.found]
    return orjson.dumps({"results": results})


def _result(shown: Shown, chunk: StoredChunk, service: Service) -> dict[str, Json]:
    result = {"id": f"{shown.name}:{chunk.document_id}", **_titled(shown, chunk, service)}
    return {**result, "text": chunk.text} if shown.settings.return_text else result


def _titled(shown: Shown, chunk: StoredChunk, service: Service) -> dict[str, Json]:
    """A connector cites by title and url: a document without one of its own is found where AIDRE serves it."""
    url = chunk.url
    if url is None and "aidre" in shown.settings.protocols:
        # With its collection: another one may have a document of the same id.
        base = service.retrieval.settings.server.base_url
        url = f"{base}/chunks/{quote(chunk.id, safe='')}?collection={shown.name}"
    return {"title": chunk.title or chunk.document_id, "url": url or ""}


async def _fetch(arguments: Arguments, caller: Caller, service: Service) -> bytes:
    wanted = arguments.get("id")
    if type(wanted) is not str or not wanted.strip():
        raise invalid("id must be the id of a search result")
    collection, _, document_id = wanted.partition(":")
    names = service.retrieval.names(caller, "nlweb")
    if collection not in names:
        raise _nothing()
    shown = service.retrieval.find(collection, caller, "nlweb")
    service.retrieval.check_budget(caller)
    chunks = shown.snapshot.document(document_id)
    if not chunks:
        raise _nothing()
    service.retrieval.give(caller, shown, (chunk.id for chunk in chunks))
    first, readable = chunks[0], shown.settings.return_text
    metadata = {**first.metadata, "collection": shown.name, "type": first.type, "updated_at": first.updated_at}
    text = _joined(chunks) if readable else ""
    fetched = {"id": wanted, **_titled(shown, first, service), "text": text, "metadata": metadata}
    return orjson.dumps(fetched)


def _nothing() -> NlwebFailure:
    return NlwebFailure("NOT_FOUND", "there is no document with this id: take one from the tool search")


def _joined(chunks: list[StoredChunk]) -> str:
    """The text of a document: its chunks hold all of it but blanks."""
    text, end = "", 0
    for chunk in chunks:
        start, following = chunk.span
        text += ("" if not text or start <= end else " " if start == end + 1 else "\n\n") + chunk.text
        end = following
    return text


HANDLERS: Mapping[str, Handler] = {"ask": _ask, "await": _await, "search": _search, "fetch": _fetch}
