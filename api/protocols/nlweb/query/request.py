"""Parses and checks the body of a request to /ask (3). Objects are open: unknown members are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import orjson

from aidre.api.config import Limits, Settings
from aidre.api.protocols.nlweb import Dialect, NlwebFailure, invalid_query
from aidre.api.protocols.nlweb.query.dialects import COUNT_NAMES, detect_dialect, to_canonical
from aidre.engine.model import Json

ResponseFormat: TypeAlias = Literal["conversational_search", "chatgpt_app"]
Members: TypeAlias = Mapping[str, Json]

RESPONSE_FORMATS: Mapping[str, ResponseFormat] = {
    "conversational_search": "conversational_search",
    "chatgpt_app": "chatgpt_app",
    "conv_search": "conversational_search",
}
MODES = frozenset({"list", "summarize"})
CONVERSATIONAL_CONTEXT = "ConversationalContext"
CONTEXT_FACTOR = 8
"""The context may have this many times the characters of a query."""
MAX_SESSION_BYTES = 16_384
"""Bytes of JSON of the session context, which every response repeats and promises store."""
MAX_PREV = 16
"""Earlier queries; only the last ones are used."""
MAX_ATTRIBUTES = 64
MAX_SITES = 64
MAX_START = 10_000
"""Documents to skip; a larger number counts as this one."""
NON_FILTERS = frozenset({"text", "site", "start_num", "decontextualized_query", *COUNT_NAMES})
"""Members of `query` that are no filter attributes."""
MIN_SCORE_DIALECTS = frozenset[Dialect]({"0.54", "legacy"})
"""Dialects in which `query.min_score` is the least score of a result; in 0.55 it is a filter attribute as any other."""
MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request. `sites` is empty for all sites; `attributes` are the members of `query` that may filter;
    `count` and `start` are numbers of documents; `decontextualized` is the client's own rewriting of the query;
    `min_score` is the least score (0 to 100) of a result, None for the bound of the server."""

    text: str
    count: int
    sites: tuple[str, ...] = ()
    attributes: Members = field(default_factory=dict)
    start: int = 0
    min_score: float | None = None
    prev: tuple[str, ...] = ()
    background: str | None = None
    memory: str | None = None
    decontextualized: str | None = None
    modes: frozenset[str] = frozenset({"list"})
    format: ResponseFormat = "conversational_search"
    streaming: bool = False
    respond_async: bool = False
    language: str | None = None
    session: Members | None = None
    remember: bool = False
    dialect: Dialect = "0.55"


def read_ask(body: Members, settings: Settings, *, streaming: bool = False) -> Ask:
    """Parses a request of any dialect; raises NlwebFailure. `streaming` is the default for `prefer.streaming`."""
    dialect, limits = detect_dialect(body), settings.limits
    canonical = to_canonical(body)
    query = _query(canonical)
    prefer, meta = _section(canonical, "prefer"), _section(canonical, "meta")
    prev, background, memory = _context(_section(canonical, "context"), limits)
    session = read_session_context(meta)
    _check_meta(meta)
    requested = _flag(prefer, "streaming", "prefer")
    return Ask(
        text=_required_text(query, "text", limits),
        count=min(_count(query) or limits.top_k_default, limits.top_k_max),
        sites=_sites(query.get("site")),
        attributes=_attributes(query, dialect),
        start=_start(query, meta),
        min_score=_min_score(query) if dialect in MIN_SCORE_DIALECTS else None,
        prev=prev,
        background=background,
        memory=memory,
        decontextualized=_decontextualized(query, limits),
        modes=_modes(prefer.get("mode")),
        format=_format(prefer.get("response_format")),
        streaming=streaming if requested is None else requested,
        respond_async=_flag(prefer, "respond-async", "prefer") or False,
        language=_language(prefer),
        session=session,
        remember=_flag(meta, "remember", "meta") or False,
        dialect=dialect,
    )


def _query(body: Members) -> Members:
    query = body.get("query")
    if query is None:
        raise invalid_query('query is missing: send {"query": {"text": "..."}}')
    if type(query) is not dict:
        raise invalid_query("query must be an object")
    return query


def _section(body: Members, name: str) -> Members:
    """A section; empty if it is absent or null."""
    section = body.get(name)
    if section is None:
        return {}
    if type(section) is not dict:
        raise invalid_query(f"{name} must be an object")
    return section


def _string(members: Members, name: str, where: str) -> str | None:
    value = members.get(name)
    if value is not None and type(value) is not str:
        raise invalid_query(f"{where}.{name} must be a string")
    return value


def _flag(members: Members, name: str, where: str) -> bool | None:
    value = members.get(name)
    if value is not None and type(value) is not bool:
        raise invalid_query(f"{where}.{name} must be true or false")
    return value


def _required_text(query: Members, name: str, limits: Limits) -> str:
    text = _string(query, name, "query")
    if text is None or not text.strip():
        raise invalid_query(f"query.{name} is missing: say what to look for")
    if len(text) > limits.query_chars:
        raise invalid_query(f"query.{name} must have at most {limits.query_chars} characters")
    return text


def _decontextualized(query: Members, limits: Limits) -> str | None:
    text = _string(query, "decontextualized_query", "query")
    return _required_text(query, "decontextualized_query", limits) if text and text.strip() else None


def _sites(value: Json) -> tuple[str, ...]:
    sites = [value] if type(value) is str else value if value is not None else []
    if type(sites) is not list or not all(type(site) is str for site in sites):
        raise invalid_query("query.site must be a string or a list of strings")
    if len(sites) > MAX_SITES:
        raise NlwebFailure("TOKEN_LIMIT", f"query.site names more than {MAX_SITES} sites: name fewer")
    return tuple(dict.fromkeys(site.strip() for site in sites if site.strip()))


def _attributes(query: Members, dialect: Dialect) -> Members:
    non_filters = NON_FILTERS | {"min_score"} if dialect in MIN_SCORE_DIALECTS else NON_FILTERS
    attributes = {
        name: value
        for name, value in query.items()
        if name not in non_filters and not name.startswith("@") and value is not None
    }
    if len(attributes) > MAX_ATTRIBUTES:
        raise NlwebFailure("TOKEN_LIMIT", f"query has more than {MAX_ATTRIBUTES} filter attributes: send fewer")
    return attributes


def _count(query: Members) -> int | None:
    for name in COUNT_NAMES:
        if query.get(name) is not None:
            return _integer(query[name], f"query.{name}", 1)
    return None


def _start(query: Members, meta: Members) -> int:
    """The number of documents to skip; 0.54 has it in `meta`."""
    for members, where in ((query, "query"), (meta, "meta")):
        if members.get("start_num") is not None:
            return min(_integer(members["start_num"], f"{where}.start_num", 0), MAX_START)
    return 0


def _min_score(query: Members) -> float | None:
    """A number from 0 to 100; query strings have it as a string."""
    value = query.get("min_score")
    if type(value) is str and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,17})?", value):
        value = float(value)
    if value is not None and (type(value) not in {int, float} or not 0 <= value <= MAX_SCORE):
        raise invalid_query(f"query.min_score must be a number from 0 to {MAX_SCORE}")
    return value


def _integer(value: Json, where: str, minimum: int) -> int:
    """An integer; query strings have it as a string, and the JSON parser reads very large integers as floats."""
    if type(value) is str and value.isascii() and value.isdigit():
        value = int(value[:18])
    if type(value) is float and (value.is_integer() or abs(value) == float("inf")):
        value = int(max(min(value, 2.0**53), -1.0))
    if type(value) is not int or value < minimum:
        raise invalid_query(f"{where} must be a whole number of at least {minimum}")
    return value


def _context(context: Members, limits: Limits) -> tuple[tuple[str, ...], str | None, str | None]:
    """Earlier queries, background and memory. In a context of another type these members are used if they are strings,
    the others are ignored, and its schema is never fetched (2.2, 3.2)."""
    kind = context.get("@type")
    if kind is not None and type(kind) not in {str, list}:
        raise invalid_query("context.@type must be a string")
    if kind not in {None, CONVERSATIONAL_CONTEXT} if type(kind) is not list else True:
        context = {name: context.get(name) for name in ("prev", "text", "memory") if _is_text(context.get(name))}
    prev = _texts(context, "prev")[-MAX_PREV:]
    background = _string(context, "text", "context")
    memory = " ".join(_texts(context, "memory")) or None
    size = sum(map(len, prev)) + len(background or "") + len(memory or "")
    if size > CONTEXT_FACTOR * limits.query_chars:
        limit = CONTEXT_FACTOR * limits.query_chars
        raise NlwebFailure("TOKEN_LIMIT", f"context has more than {limit} characters: send less of it")
    return prev, background, memory


def _is_text(value: Json) -> bool:
    """Whether a value is a string or a list of strings."""
    return type(value) is str or (type(value) is list and all(type(item) is str for item in value))


def _texts(context: Members, name: str) -> tuple[str, ...]:
    """The strings of a list that are not blank; a string counts as a list of one, because dialects differ in this."""
    value = context.get(name)
    if value is None:
        return ()
    if not _is_text(value):
        raise invalid_query(f"context.{name} must be a {'list of strings' if name == 'prev' else 'string'}")
    return tuple(text for text in ([value] if type(value) is str else value) if text.strip())


def _modes(value: Json) -> frozenset[str]:
    modes = frozenset(word.lower() for word in _split_list(value, "prefer.mode"))
    for mode in sorted(modes - MODES):
        raise NlwebFailure("UNSUPPORTED_MODE", f"mode {mode[:64]!r} is not supported: use list or summarize")
    return modes or frozenset({"list"})


def _format(value: Json) -> ResponseFormat:
    """The first format of the list that is supported (3.3.1)."""
    names = _split_list(value, "prefer.response_format")
    for name in names:
        if name.lower() in RESPONSE_FORMATS:
            return RESPONSE_FORMATS[name.lower()]
    if names:
        message = f"response_format {names[0][:64]!r} is not supported: use conversational_search or chatgpt_app"
        raise NlwebFailure("UNSUPPORTED_FORMAT", message)
    return "conversational_search"


def _split_list(value: Json, where: str) -> list[str]:
    """The strings of a list, or of a string with commas."""
    if value is None:
        return []
    if not _is_text(value):
        raise invalid_query(f"{where} must be a string")
    parts = value.split(",") if type(value) is str else value
    return [part.strip() for part in parts if part.strip()]


def _language(prefer: Members) -> str | None:
    """The first language tag of a value with the syntax of Accept-Language."""
    field_value = _string(prefer, "accept-language", "prefer")
    tag = (field_value or "").split(",")[0].split(";")[0].strip()
    return tag if tag and tag != "*" else None


def read_session_context(meta: Members) -> Members | None:
    """The session context, which is repeated in the response; raises NlwebFailure."""
    session = meta.get("session_context")
    if session is None:
        return None
    if type(session) is not dict:
        raise invalid_query("meta.session_context must be an object")
    try:
        size = len(orjson.dumps(session))
    except orjson.JSONEncodeError as error:
        raise invalid_query("meta.session_context is nested too deep") from error
    if size > MAX_SESSION_BYTES:
        raise NlwebFailure(
            "TOKEN_LIMIT", f"meta.session_context has more than {MAX_SESSION_BYTES} bytes: send less of it"
        )
    return session


def _check_meta(meta: Members) -> None:
    """Checks the types of members of `meta` that have no effect (3.4)."""
    for name in ("version", "api_version"):
        _string(meta, name, "meta")
    user = meta.get("user")
    if user is not None and type(user) not in {str, dict}:
        raise invalid_query("meta.user must be a string or an object")
