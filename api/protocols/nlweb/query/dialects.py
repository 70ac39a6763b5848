"""Converts older and flat requests to the form of NLWeb 0.55: NLWeb 0.54, legacy bodies, forms and query strings.

A request is 0.54 if it has `meta.api_version` or the format `conv_search`. It is legacy if its `query` (also `q` or
`question`) is a string with the parameters beside it. Values are not checked here: `ask.py` checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from aidre.api.protocols.nlweb.nlweb_envelope import Dialect
from aidre.engine.model import Json

Body = dict[str, Json]

SECTIONS = ("query", "context", "prefer", "meta")
QUERY_NAMES = ("query", "q", "question", "text")
COUNT_NAMES: tuple[str, ...] = ("limit", "max_results", "num_results", "top_k")
"""The first that is present wins: some clients send `num_results` as the number of results to consider."""
LEGACY_FILTERS = ("itemType", "location", "price")
"""The filters of a legacy request: its other members are parameters of clients, not filters."""
LEGACY_MODES = {"generate": "summarize", "none": "list"}
FLAG_MEMBERS = {
    "prefer": frozenset({"streaming", "respond-async", "correct", "operators", "collapse"}),
    "meta": frozenset({"remember"}),
}
TRUE_WORDS, FALSE_WORDS = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


def detect_dialect(body: Mapping[str, Json]) -> Dialect:
    query, meta, prefer = body.get("query"), body.get("meta"), body.get("prefer")
    if type(query) is not dict and any(type(body.get(name)) is str for name in QUERY_NAMES):
        return "legacy"
    if type(meta) is dict and meta.get("api_version") is not None:
        return "0.54"
    return "0.54" if type(prefer) is dict and prefer.get("response_format") == "conv_search" else "0.55"


def to_canonical(body: Mapping[str, Json]) -> Body:
    """The body in the form of 0.55; a body that is not legacy is copied."""
    return _unflatten(body) if detect_dialect(body) == "legacy" else dict(body)


def parse_parameters(parameters: Iterable[tuple[str, str]]) -> Body:
    """The body for the decoded pairs of a query string or form; `prefer.streaming=true` sets a member of a section."""
    body: Body = {}
    sections: dict[str, Body] = {}
    for name, value in parameters:
        if not value and name.removeprefix("query.") not in QUERY_NAMES:
            continue  # an empty field of a form
        section, _, member = name.partition(".")
        if member and section in SECTIONS:
            _add(sections.setdefault(section, {}), member, value)
        else:
            _add(body, name, value)
    if "query" in sections and detect_dialect(body) == "legacy":  # keep the filters of both forms
        flat = _unflatten(body)
        body = {**flat, "query": flat["query"] | sections.pop("query")}
    for name, members in sections.items():
        body[name] = _section(body, name) | members
    for name, flags in FLAG_MEMBERS.items():
        for flag in flags.intersection(_section(body, name)):
            body[name][flag] = _parse_flag(body[name][flag])
    query = body.get("query")
    if type(query) is dict:
        _split_sites(query)
    context = body.get("context")
    if type(context) is dict and "prev" in context:
        context["prev"] = _parse_list(context["prev"])
    return body


def _add(members: Body, name: str, value: str) -> None:
    """Sets a parameter; a repeated parameter becomes a list."""
    if name not in members:
        members[name] = value
    elif type(members[name]) is list:
        members[name].append(value)
    else:
        members[name] = [members[name], value]


def _unflatten(body: Mapping[str, Json]) -> Body:
    """Moves the parameters of a legacy request to the sections of 0.55."""
    query: Body = {"text": next(body[name] for name in QUERY_NAMES if type(body.get(name)) is str)}
    for name in ("site", "decontextualized_query", "start_num", "min_score", *COUNT_NAMES, *LEGACY_FILTERS):
        if body.get(name) is not None:
            query[name] = body[name]
    if body.get("item_type") is not None:
        query.setdefault("itemType", body["item_type"])
    _split_sites(query)
    context = _section(body, "context")
    if "limit" in context:
        query.setdefault("limit", context.pop("limit"))
    if "prev" in body:
        context.setdefault("prev", _parse_list(body["prev"]))
    prefer = _section(body, "prefer")
    mode = body.get("mode", body.get("generate_mode"))
    if mode is not None:
        prefer.setdefault("mode", LEGACY_MODES.get(mode, mode) if type(mode) is str else mode)
    if body.get("response_format") is not None:
        prefer.setdefault("response_format", body["response_format"])
    for name in ("streaming", "respond-async", "correct", "operators", "collapse"):
        if body.get(name) is not None:
            prefer.setdefault(name, _parse_flag(body[name]))
    return {"query": query, "context": context, "prefer": prefer, "meta": _section(body, "meta")}


def _section(body: Mapping[str, Json], name: str) -> Body:
    """A copy of a section. In a flat body a member of this name that is not an object is a client's own parameter."""
    section = body.get(name)
    return dict(section) if type(section) is dict else {}


def _split_sites(query: Body) -> None:
    """Splits `site`, which may be one name, a JSON list or a list with commas."""
    if type(query.get("site")) is str:
        sites = _parse_list(query["site"])
        query["site"] = sites if type(sites) is not list or len(sites) != 1 else sites[0]


def _parse_list(value: Json) -> Json:
    """The values of a JSON list or a list with commas; a value that is not a string is returned unchanged."""
    if type(value) is not str:
        return value
    if value.lstrip().startswith("["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return [value]
    return [part.strip() for part in value.split(",") if part.strip()]


def _parse_flag(value: Any) -> Json:
    """A flag from its word; any other value is returned unchanged, for `ask.py` to reject."""
    if type(value) is not str:
        return value
    word = value.strip().lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else value
