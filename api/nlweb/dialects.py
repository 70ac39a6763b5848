"""The ways in which clients ask, brought into the one form of 0.55: older versions, flat bodies, query strings.

0.54 is told by `meta.api_version` or the format `conv_search`; a legacy request by a `query` that is a string (also
`q` or `question`), with its parameters beside it. It does not check values: whoever reads the form does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from aidre.api.nlweb.envelope import Dialect
from aidre.engine.model import Json

Body = dict[str, Json]

SECTIONS = ("query", "context", "prefer", "meta")
TEXTS = ("query", "q", "question", "text")
COUNTS = ("limit", "max_results", "num_results", "top_k")
"""In the order in which they win: some clients send `num_results` for how many to consider."""
ATTRIBUTES = ("itemType", "location", "price")
"""The filters of a legacy request: what else stands in it are parameters of clients, not filters."""
MODES = {"generate": "summarize", "none": "list"}
FLAGS = {"prefer": frozenset({"streaming", "respond-async"}), "meta": frozenset({"remember"})}
TRUE, FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


def dialect_of(body: Mapping[str, Json]) -> Dialect:
    query, meta, prefer = body.get("query"), body.get("meta"), body.get("prefer")
    if type(query) is not dict and any(type(body.get(name)) is str for name in TEXTS):
        return "legacy"
    if type(meta) is dict and meta.get("api_version") is not None:
        return "0.54"
    return "0.54" if type(prefer) is dict and prefer.get("response_format") == "conv_search" else "0.55"


def canonical(body: Mapping[str, Json]) -> Body:
    """The body of a request in the form of 0.55, whatever its dialect."""
    return _unflattened(body) if dialect_of(body) == "legacy" else dict(body)


def from_parameters(parameters: Iterable[tuple[str, str]]) -> Body:
    """The body that a query string or a form stands for; `prefer.streaming=true` reaches into a section."""
    body: Body = {}
    sections: dict[str, Body] = {}
    for name, value in parameters:
        if not value and name.removeprefix("query.") not in TEXTS:
            continue  # left empty in a form
        section, _, member = name.partition(".")
        if member and section in SECTIONS:
            _put(sections.setdefault(section, {}), member, value)
        else:
            _put(body, name, value)
    if "query" in sections and dialect_of(body) == "legacy":  # what restricts a query must not be lost
        flat = _unflattened(body)
        body = {**flat, "query": flat["query"] | sections.pop("query")}
    for name, inner in sections.items():
        body[name] = _section(body, name) | inner
    for name, flags in FLAGS.items():
        for flag in flags.intersection(_section(body, name)):
            body[name][flag] = _flag(body[name][flag])
    query = body.get("query")
    if type(query) is dict:
        _join_sites(query)
    context = body.get("context")
    if type(context) is dict and "prev" in context:
        context["prev"] = _strings(context["prev"])
    return body


def _put(inner: Body, name: str, value: str) -> None:
    """A parameter that comes again is a list."""
    if name not in inner:
        inner[name] = value
    elif type(inner[name]) is list:
        inner[name].append(value)
    else:
        inner[name] = [inner[name], value]


def _unflattened(body: Mapping[str, Json]) -> Body:
    query: Body = {"text": next(body[name] for name in TEXTS if type(body.get(name)) is str)}
    for name in ("site", "decontextualized_query", "start_num", *COUNTS, *ATTRIBUTES):
        if body.get(name) is not None:
            query[name] = body[name]
    if body.get("item_type") is not None:
        query.setdefault("itemType", body["item_type"])
    _join_sites(query)
    context = _section(body, "context")
    if "limit" in context:
        query.setdefault("limit", context.pop("limit"))
    if "prev" in body:
        context.setdefault("prev", _strings(body["prev"]))
    prefer = _section(body, "prefer")
    mode = body.get("mode", body.get("generate_mode"))
    if mode is not None:
        prefer.setdefault("mode", MODES.get(mode, mode) if type(mode) is str else mode)
    if body.get("response_format") is not None:
        prefer.setdefault("response_format", body["response_format"])
    for name in ("streaming", "respond-async"):
        if body.get(name) is not None:
            prefer.setdefault(name, _flag(body[name]))
    return {"query": query, "context": context, "prefer": prefer, "meta": _section(body, "meta")}


def _section(body: Mapping[str, Json], name: str) -> Body:
    """A section of a flat body; there one that is no object is a client's own parameter."""
    section = body.get(name)
    return dict(section) if type(section) is dict else {}


def _join_sites(query: Body) -> None:
    """Sites come as a list, as JSON, or with commas."""
    if type(query.get("site")) is str:
        sites = _strings(query["site"])
        query["site"] = sites if type(sites) is not list or len(sites) != 1 else sites[0]


def _strings(value: Json) -> Json:
    if type(value) is not str:
        return value
    if value.lstrip().startswith("["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return [value]
    return [part.strip() for part in value.split(",") if part.strip()]


def _flag(value: Any) -> Json:
    """A flag as words; what is none is left for the reader to refuse."""
    if type(value) is not str:
        return value
    word = value.strip().lower()
    return True if word in TRUE else False if word in FALSE else value
