"""A request to /ask, read and checked into one frozen Ask (3). Objects are open: what is not known is let through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import orjson

from aidre.api.nlweb.dialects import COUNTS, canonical, dialect_of
from aidre.api.nlweb.envelope import Dialect, NlwebFailure, invalid
from aidre.api.settings import Limits, Settings
from aidre.engine.model import Json

Format: TypeAlias = Literal["conversational_search", "chatgpt_app"]
Members: TypeAlias = Mapping[str, Json]

FORMATS: Mapping[str, Format] = {
    "conversational_search": "conversational_search",
    "chatgpt_app": "chatgpt_app",
    "conv_search": "conversational_search",
}
MODES = frozenset({"list", "summarize"})
CONVERSATIONAL = "ConversationalContext"
CONTEXT_FACTOR = 8
"""The context may be so many times as long as a query."""
SESSION_BYTES = 16_384
"""Of the session, which is given back with every answer and kept with promises."""
PREV_MOST = 16
"""Of earlier queries the last ones count."""
ATTRIBUTES_MOST = 64
SITES_MOST = 64
START_MOST = 10_000
OWN = frozenset({"text", "site", "start_num", "decontextualized_query", *COUNTS})
"""Members of `query` that are no filters."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked. `attributes` are the members of `query` that may filter; `sites` is empty for all; `count` and
    `start` count documents; `decontextualized` is a rewriting that the client made itself."""

    text: str
    count: int
    sites: tuple[str, ...] = ()
    attributes: Members = field(default_factory=dict)
    start: int = 0
    prev: tuple[str, ...] = ()
    background: str | None = None
    memory: str | None = None
    decontextualized: str | None = None
    modes: frozenset[str] = frozenset({"list"})
    format: Format = "conversational_search"
    streaming: bool = False
    respond_async: bool = False
    language: str | None = None
    session: Members | None = None
    remember: bool = False
    dialect: Dialect = "0.55"


def read_ask(body: Members, settings: Settings, *, streaming: bool = False) -> Ask:
    """The question in a request of any dialect; raises NlwebFailure. `streaming` is for one that does not say."""
    dialect, limits = dialect_of(body), settings.limits
    whole = canonical(body)
    query = _query(whole)
    prefer, meta = _object(whole, "prefer"), _object(whole, "meta")
    prev, background, memory = _context(_object(whole, "context"), limits)
    session = read_session(meta)
    _check_meta(meta)
    asked = _flag(prefer, "streaming", "prefer")
    return Ask(
        text=_words(query, "text", limits),
        count=min(_count(query) or limits.top_k_default, limits.top_k_max),
        sites=_sites(query.get("site")),
        attributes=_attributes(query),
        start=_start(query, meta),
        prev=prev,
        background=background,
        memory=memory,
        decontextualized=_rewriting(query, limits),
        modes=_modes(prefer.get("mode")),
        format=_format(prefer.get("response_format")),
        streaming=streaming if asked is None else asked,
        respond_async=_flag(prefer, "respond-async", "prefer") or False,
        language=_language(prefer),
        session=session,
        remember=_flag(meta, "remember", "meta") or False,
        dialect=dialect,
    )


def _query(body: Members) -> Members:
    query = body.get("query")
    if query is None:
        raise invalid('query is missing: send {"query": {"text": "..."}}')
    if type(query) is not dict:
        raise invalid("query must be an object")
    return query


def _object(body: Members, name: str) -> Members:
    """A section, empty where it is absent; null counts as absent."""
    section = body.get(name)
    if section is None:
        return {}
    if type(section) is not dict:
        raise invalid(f"{name} must be an object")
    return section


def _string(members: Members, name: str, where: str) -> str | None:
    value = members.get(name)
    if value is not None and type(value) is not str:
        raise invalid(f"{where}.{name} must be a string")
    return value


def _flag(members: Members, name: str, where: str) -> bool | None:
    value = members.get(name)
    if value is not None and type(value) is not bool:
        raise invalid(f"{where}.{name} must be true or false")
    return value


def _words(query: Members, name: str, limits: Limits) -> str:
    text = _string(query, name, "query")
    if text is None or not text.strip():
        raise invalid(f"query.{name} is missing: say what to look for")
    if len(text) > limits.query_chars:
        raise invalid(f"query.{name} must have at most {limits.query_chars} characters")
    return text


def _rewriting(query: Members, limits: Limits) -> str | None:
    text = _string(query, "decontextualized_query", "query")
    return _words(query, "decontextualized_query", limits) if text and text.strip() else None


def _sites(value: Json) -> tuple[str, ...]:
    sites = [value] if type(value) is str else value if value is not None else []
    if type(sites) is not list or not all(type(site) is str for site in sites):
        raise invalid("query.site must be a string or a list of strings")
    if len(sites) > SITES_MOST:
        raise NlwebFailure("TOKEN_LIMIT", f"query.site names more than {SITES_MOST} sites: name fewer")
    return tuple(dict.fromkeys(site.strip() for site in sites if site.strip()))


def _attributes(query: Members) -> Members:
    attributes = {
        name: value
        for name, value in query.items()
        if name not in OWN and not name.startswith("@") and value is not None
    }
    if len(attributes) > ATTRIBUTES_MOST:
        raise NlwebFailure("TOKEN_LIMIT", f"query has more than {ATTRIBUTES_MOST} filter attributes: send fewer")
    return attributes


def _count(query: Members) -> int | None:
    for name in COUNTS:
        if query.get(name) is not None:
            return _whole(query[name], f"query.{name}", 1)
    return None


def _start(query: Members, meta: Members) -> int:
    """How many documents to pass over; 0.54 has it in `meta`."""
    for members, where in ((query, "query"), (meta, "meta")):
        if members.get("start_num") is not None:
            return min(_whole(members["start_num"], f"{where}.start_num", 0), START_MOST)
    return 0


def _whole(value: Json, where: str, least: int) -> int:
    """A whole number; query strings have it in digits, and the JSON parser reads very large ones as floats."""
    if type(value) is str and value.isascii() and value.isdigit():
        value = int(value[:18])
    if type(value) is float and (value.is_integer() or abs(value) == float("inf")):
        value = int(max(min(value, 2.0**53), -1.0))
    if type(value) is not int or value < least:
        raise invalid(f"{where} must be a whole number of at least {least}")
    return value


def _context(context: Members, limits: Limits) -> tuple[tuple[str, ...], str | None, str | None]:
    """Earlier queries, background and memory. A context of another type keeps its own meanings: what of it reads like
    these counts, the rest is passed over, and its schema is never fetched (2.2, 3.2)."""
    kind = context.get("@type")
    if kind is not None and type(kind) not in {str, list}:
        raise invalid("context.@type must be a string")
    if kind not in {None, CONVERSATIONAL} if type(kind) is not list else True:
        context = {name: context.get(name) for name in ("prev", "text", "memory") if _reads(context.get(name))}
    prev = _texts(context, "prev")[-PREV_MOST:]
    background = _string(context, "text", "context")
    memory = " ".join(_texts(context, "memory")) or None
    size = sum(map(len, prev)) + len(background or "") + len(memory or "")
    if size > CONTEXT_FACTOR * limits.query_chars:
        most = CONTEXT_FACTOR * limits.query_chars
        raise NlwebFailure("TOKEN_LIMIT", f"context has more than {most} characters: send less of it")
    return prev, background, memory


def _reads(value: Json) -> bool:
    return type(value) is str or (type(value) is list and all(type(one) is str for one in value))


def _texts(context: Members, name: str) -> tuple[str, ...]:
    """Strings as a list; one alone is a list of one, as 0.54 and older clients have it the other way round."""
    value = context.get(name)
    if value is None:
        return ()
    if not _reads(value):
        raise invalid(f"context.{name} must be a {'list of strings' if name == 'prev' else 'string'}")
    return tuple(text for text in ([value] if type(value) is str else value) if text.strip())


def _modes(value: Json) -> frozenset[str]:
    wanted = frozenset(word.lower() for word in _listed(value, "prefer.mode"))
    for mode in sorted(wanted - MODES):
        raise NlwebFailure("UNSUPPORTED_MODE", f"mode {mode[:64]!r} is not supported: use list or summarize")
    return wanted or frozenset({"list"})


def _format(value: Json) -> Format:
    """The first format of the list that is supported (3.3.1)."""
    wanted = _listed(value, "prefer.response_format")
    for word in wanted:
        if word.lower() in FORMATS:
            return FORMATS[word.lower()]
    if wanted:
        shown = wanted[0][:64]
        message = f"response_format {shown!r} is not supported: use conversational_search or chatgpt_app"
        raise NlwebFailure("UNSUPPORTED_FORMAT", message)
    return "conversational_search"


def _listed(value: Json, where: str) -> list[str]:
    """The words of a list, or of a string with commas."""
    if value is None:
        return []
    if not _reads(value):
        raise invalid(f"{where} must be a string")
    parts = value.split(",") if type(value) is str else value
    return [part.strip() for part in parts if part.strip()]


def _language(prefer: Members) -> str | None:
    """The first tag of a field like Accept-Language."""
    field_value = _string(prefer, "accept-language", "prefer")
    tag = (field_value or "").split(",")[0].split(";")[0].strip()
    return tag if tag and tag != "*" else None


def read_session(meta: Members) -> Members | None:
    session = meta.get("session_context")
    if session is None:
        return None
    if type(session) is not dict:
        raise invalid("meta.session_context must be an object")
    try:
        size = len(orjson.dumps(session))
    except orjson.JSONEncodeError as error:
        raise invalid("meta.session_context is nested too deep") from error
    if size > SESSION_BYTES:
        raise NlwebFailure("TOKEN_LIMIT", f"meta.session_context has more than {SESSION_BYTES} bytes: send less of it")
    return session


def _check_meta(meta: Members) -> None:
    """Members of `meta` that change nothing, but have a type (3.4)."""
    for name in ("version", "api_version"):
        _string(meta, name, "meta")
    user = meta.get("user")
    if user is not None and type(user) not in {str, dict}:
        raise invalid("meta.user must be a string or an object")
