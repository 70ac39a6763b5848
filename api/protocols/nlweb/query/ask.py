"""Parses and checks the body of a request to /ask (3). Objects are open: unknown members are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, TypeAlias

import orjson

from aidre.api.config import Limits, Settings
from aidre.api.http import read_message
from aidre.api.protocols.nlweb.ask_messages import AskContext, AskMeta, AskPrefer, AskRequest, Texts
from aidre.api.protocols.nlweb.nlweb_envelope import Dialect, NlwebFailure, invalid_query
from aidre.api.protocols.nlweb.query.dialects import COUNT_NAMES, Body, detect_dialect, to_canonical
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
"""Members of `query` that are not filter attributes."""
MIN_SCORE_DIALECTS = frozenset[Dialect]({"0.54", "legacy"})
"""Dialects in which `query.min_score` is the least score of a result; in 0.55 it is a filter attribute as any other."""
MAX_SCORE = 100
USED: Mapping[str, frozenset[str]] = {
    "context": frozenset({"@type", "@context", *AskContext.__struct_encode_fields__}),
    "prefer": frozenset(AskPrefer.__struct_encode_fields__),
    "meta": frozenset(AskMeta.__struct_encode_fields__) - {"user"},
}
"""Members of each section that have an effect, or say of which kind it is."""
MAX_UNUSED, MAX_MEMBER_CHARS = 32, 64
"""Names of members without an effect that an answer has, and characters of each."""
HINTS = {"query": ': send {"query": {"text": "..."}}', "query.text": ": say what to look for"}
"""What is added to the message about a member."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request. `sites` is empty for all sites; `attributes` are the members of `query` that may filter;
    `count` and `start` are numbers of documents; `decontextualized` is the client's own rewriting of the query;
    `min_score` is the least score (0 to 100) of a result, None for the bound of the server; `unused` names members that
    have no effect."""

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
    correct: bool = True
    operators: bool = True
    collapse: bool = True
    unused: tuple[str, ...] = ()
    dialect: Dialect = "0.55"


def read_ask(body: Members, settings: Settings, *, streaming: bool = False) -> Ask:
    """Parses a request of any dialect; raises NlwebFailure. `streaming` is the default for `prefer.streaming`."""
    dialect, limits = detect_dialect(body), settings.limits
    canonical = _normalize(to_canonical(body))
    request = read_message(canonical, AskRequest, refuse_member)
    query, prefer, meta = request.query, request.prefer or AskPrefer(), request.meta or AskMeta()
    members: Members = canonical["query"]
    prev, background, memory = _context(request.context or AskContext(), limits)
    return Ask(
        text=_required(query.text, "query.text", limits),
        count=min(query.limit or limits.top_k_default, limits.top_k_max),
        sites=_sites(query.site),
        attributes=_attributes(members, dialect),
        start=min(next((start for start in (query.start_num, meta.start_num) if start is not None), 0), MAX_START),
        min_score=_min_score(members) if dialect in MIN_SCORE_DIALECTS else None,
        prev=prev,
        background=background,
        memory=memory,
        decontextualized=_decontextualized(query.decontextualized_query, limits),
        modes=_modes(prefer.mode),
        format=_format(prefer.response_format),
        streaming=streaming if prefer.streaming is None else prefer.streaming,
        respond_async=prefer.respond_async or False,
        language=_language(prefer.accept_language),
        session=check_session_context(meta.session_context),
        remember=meta.remember or False,
        correct=prefer.correct is not False,
        operators=prefer.operators is not False,
        collapse=prefer.collapse is not False,
        unused=_unused(to_canonical(body)),
        dialect=dialect,
    )


def refuse_member(message: str, missing: Sequence[str] = (), member: str = "", **details: object) -> NlwebFailure:
    """The failure for a member that does not fit."""
    return invalid_query(message + "".join(HINTS.get(name, "") for name in (*missing, member)))


def _normalize(body: Body) -> Body:
    """Parses numbers in strings, gives the count one name, and keeps what is usable in a context of another type."""
    sections: dict[str, Body] = {name: dict(value) for name, value in body.items() if type(value) is dict}
    query, context = sections.get("query", {}), sections.get("context", {})
    count = next((name for name in COUNT_NAMES if query.get(name) is not None), None)
    if count is not None:
        query["limit"] = _count(query[count], count)
    for members in (query, sections.get("meta", {})):
        if "start_num" in members:
            members["start_num"] = _integer(members["start_num"])
    kind = context.get("@type")
    if type(kind) is list or (type(kind) is str and kind != CONVERSATIONAL_CONTEXT):
        used = ("prev", "text", "memory")
        sections["context"] = {name: context[name] for name in used if _is_text(context.get(name))}
    return body | sections


def _required(text: str, where: str, limits: Limits) -> str:
    if not text.strip():
        raise refuse_member(f"{where} must be a string that is not blank", member=where)
    return _limited(text, where, limits)


def _limited(text: str, where: str, limits: Limits) -> str:
    if len(text) > limits.query_chars:
        raise invalid_query(f"{where} must have at most {limits.query_chars} characters")
    return text


def _decontextualized(text: str | None, limits: Limits) -> str | None:
    return _limited(text, "query.decontextualized_query", limits) if text and text.strip() else None


def _sites(value: Texts | None) -> tuple[str, ...]:
    sites = [value] if isinstance(value, str) else value or []
    if len(sites) > MAX_SITES:
        raise NlwebFailure("TOKEN_LIMIT", f"query.site names more than {MAX_SITES} sites: name fewer")
    return tuple(dict.fromkeys(site.strip() for site in sites if site.strip()))


def _attributes(query: Members, dialect: Dialect) -> Members:
    non_filters = NON_FILTERS | {"min_score"} if dialect in MIN_SCORE_DIALECTS else NON_FILTERS
    attributes = {
        name: value
        for name, value in query.items()
        if name not in non_filters and not name.startswith("@") and value is not None and value != ""
    }
    if len(attributes) > MAX_ATTRIBUTES:
        raise NlwebFailure("TOKEN_LIMIT", f"query has more than {MAX_ATTRIBUTES} filter attributes: send fewer")
    return attributes


def _min_score(query: Members) -> float | None:
    """A number from 0 to 100; query strings have it as a string."""
    value = query.get("min_score")
    if type(value) is str and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,17})?", value):
        value = float(value)
    if value is not None and (type(value) not in {int, float} or not 0 <= value <= MAX_SCORE):
        raise invalid_query(f"query.min_score must be a number from 0 to {MAX_SCORE}")
    return value


def _integer(value: Json) -> Json:
    """An integer; query strings have it as a string, and the JSON parser reads very large integers as floats."""
    if type(value) is str and value.isascii() and value.isdigit():
        return int(value[:18])
    if type(value) is float and (value.is_integer() or abs(value) == float("inf")):
        return int(max(min(value, 2.0**53), -1.0))
    return value


def _count(value: Json, name: str) -> int:
    """The number of documents, checked under the name that the client gave it."""
    count = _integer(value)
    if type(count) is not int or count < 1:
        raise invalid_query(f"query.{name} must be a whole number of at least 1")
    return count


def _context(context: AskContext, limits: Limits) -> tuple[tuple[str, ...], str | None, str | None]:
    """Earlier queries, background and memory. The schema of a context of another type is never fetched (2.2, 3.2)."""
    prev = _texts(context.prev)[-MAX_PREV:]
    background = context.text
    memory = " ".join(_texts(context.memory)) or None
    size = sum(map(len, prev)) + len(background or "") + len(memory or "")
    if size > CONTEXT_FACTOR * limits.query_chars:
        limit = CONTEXT_FACTOR * limits.query_chars
        raise NlwebFailure("TOKEN_LIMIT", f"context has more than {limit} characters: send less of it")
    return prev, background, memory


def _is_text(value: Json) -> bool:
    """Whether a value is a string or a list of strings."""
    return type(value) is str or (type(value) is list and all(type(item) is str for item in value))


def _unused(body: Body) -> tuple[str, ...]:
    """Members beside the query that are accepted without an effect, such as those of a context of another type."""
    sections = ((name, body.get(name)) for name in USED)
    members = (
        f"{name}.{member}"
        for name, section in sections
        if type(section) is dict
        for member, value in section.items()
        if member not in USED[name] and value is not None
    )
    return tuple(member[:MAX_MEMBER_CHARS] for member in islice(members, MAX_UNUSED))


def _texts(value: Texts | None) -> tuple[str, ...]:
    """The strings that are not blank; a string counts as a list of one, because dialects differ in this."""
    return tuple(text for text in ([value] if isinstance(value, str) else value or []) if text.strip())


def _modes(value: Texts | None) -> frozenset[str]:
    modes = frozenset(word.lower() for word in _split_list(value))
    for mode in sorted(modes - MODES):
        raise NlwebFailure("UNSUPPORTED_MODE", f"mode {mode[:64]!r} is not supported: use list or summarize")
    return modes or frozenset({"list"})


def _format(value: Texts | None) -> ResponseFormat:
    """The first format of the list that is supported (3.3.1)."""
    names = _split_list(value)
    for name in names:
        if name.lower() in RESPONSE_FORMATS:
            return RESPONSE_FORMATS[name.lower()]
    if names:
        message = f"response_format {names[0][:64]!r} is not supported: use conversational_search or chatgpt_app"
        raise NlwebFailure("UNSUPPORTED_FORMAT", message)
    return "conversational_search"


def _split_list(value: Texts | None) -> list[str]:
    """The strings of a list, or of a string with commas."""
    parts = value.split(",") if isinstance(value, str) else value or []
    return [part.strip() for part in parts if part.strip()]


def _language(field_value: str | None) -> str | None:
    """The first language tag of a value with the syntax of Accept-Language."""
    tag = (field_value or "").split(",")[0].split(";")[0].strip()
    return tag if tag and tag != "*" else None


def check_session_context(session: Members | None) -> Members | None:
    """The session context, which is repeated in the response; raises NlwebFailure."""
    if session is None:
        return None
    try:
        size = len(orjson.dumps(session))
    except orjson.JSONEncodeError as error:
        raise invalid_query("meta.session_context is nested too deep") from error
    if size > MAX_SESSION_BYTES:
        raise NlwebFailure(
            "TOKEN_LIMIT", f"meta.session_context has more than {MAX_SESSION_BYTES} bytes: send less of it"
        )
    return session
