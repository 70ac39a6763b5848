"""The messages that a platform sends, RetrieveRequest and the event, read strictly: no member that is not listed.

Closed objects are what keeps prices, brands, embeddings and user identities out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aidre.api.intent.settings import DOMAIN, HOSTNAME
from aidre.api.intent.signing import instant_of
from aidre.api.refusals import Unprocessable
from aidre.engine.errors import in_one_line

Check: TypeAlias = Callable[[Any, str], None]

ID_CHARS = 1_024
"""Of ids and other short strings, which are echoed and kept."""
URL_CHARS = 8_192
"""Of what comes from documents: their addresses, and the ids of their chunks, which may be addresses too."""
LONGEST_BUDGET = 3_600.0
COUNTRY = re.compile(r"[A-Z]{2}")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\"<>\\^`{|}]+")
LANGUAGE = re.compile(
    r"(?:(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4}|[a-z]{5,8})"  # language, extended
    r"(?:-[a-z]{4})?(?:-(?:[a-z]{2}|[0-9]{3}))?"  # script, region
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"  # variants
    r"(?:-[0-9a-wy-z](?:-[a-z0-9]{2,8})+)*(?:-x(?:-[a-z0-9]{1,8})+)?"  # extensions, private use
    r"|x(?:-[a-z0-9]{1,8})+"
    r"|en-gb-oed|i-(?:ami|bnn|default|enochian|hak|klingon|lux|mingo|navajo|pwn|tao|tay|tsu)|sgn-(?:be-fr|be-nl|ch-de)"
    r"|art-lojban|cel-gaulish|no-(?:bok|nyn)|zh-(?:guoyu|hakka|min|min-nan|xiang))",
    re.IGNORECASE | re.ASCII,
)
"""Well-formed tags of BCP 47 (RFC 5646, 2.1)."""


@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """`domain` has the subdomain at its end, if any; `text` is what was asked, or the words of the domain."""

    request_id: str
    session_id: str
    domain: str
    text: str
    latency_budget: float | None


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """`event` is what is kept of it: all but `extensions`, in which anything could stand."""

    event_id: str
    request_id: str
    source_url: str
    chunk_ids: tuple[str, ...]
    display_surface: str
    event: Mapping[str, Any]


def read_retrieve(body: Mapping[str, Any], version: str, query_chars: int) -> RetrieveRequest:
    """Raises Unprocessable that names the member."""
    REQUEST(body, "")
    _same_version(body, version)
    intent, runtime = body["intent"], body["runtime"]
    domain = ".".join(part for part in (intent["domain"], intent.get("subdomain")) if part is not None)
    text: str = runtime.get("query_text", "")
    if len(text) > query_chars:
        raise _wrong("runtime.query_text", f"have at most {query_chars} characters")
    budget = runtime.get("latency_budget_ms")
    return RetrieveRequest(
        body["request_id"],
        runtime["session_id"],
        domain,
        text if text.strip() else re.sub(r"[.-]+", " ", domain),
        None if budget is None else min(budget / 1_000, LONGEST_BUDGET),
    )


def read_event(body: Mapping[str, Any], version: str, publisher: Mapping[str, str]) -> CitationEvent:
    """A citation event; only those come from platforms. Raises Unprocessable."""
    EVENT(body, "")
    _same_version(body, version)
    if body["event_type"] == "access":
        raise Unprocessable("event_type access is the publisher's to emit: send citation events")
    if "access" in body:
        raise _wrong("access", "be absent from a citation event")
    if "citation" not in body:
        raise _missing("citation")
    if body["publisher"] != publisher:
        raise _wrong("publisher", f"be {publisher['id']!r} at {publisher['domain']!r}")
    citation = body["citation"]
    for name in ("source_url", "chunk_ids", "display_surface"):
        if name not in citation:
            raise _missing(f"citation.{name}")
    if not citation["chunk_ids"]:
        raise _wrong("citation.chunk_ids", "name at least one chunk")
    return CitationEvent(
        body["event_id"],
        body["request_id"],
        citation["source_url"],
        tuple(citation["chunk_ids"]),
        citation["display_surface"],
        {name: body[name] for name in EVENT_MEMBERS if name in body and name != "extensions"},
    )


def _same_version(body: Mapping[str, Any], version: str) -> None:
    if body["aip_version"] != version:
        raise _wrong("aip_version", f"be {version}, as X-AIP-Version says")


def _wrong(where: str, what: str) -> Unprocessable:
    return Unprocessable(f"{where or 'the body'} must {what}", member=where)


def _missing(where: str) -> Unprocessable:
    return Unprocessable(f"{where} is missing", missing=[where])


def _members(*required: str, **checks: Check) -> Check:
    """An object that has these members, those of `required` always, and no other."""

    def check(value: Any, where: str) -> None:
        if type(value) is not dict:
            raise _wrong(where, "be an object")
        inside = f"{where}." if where else ""
        for name in required:
            if name not in value:
                raise _missing(inside + name)
        for name, member in value.items():
            if name not in checks:
                shown = in_one_line(name)
                raise Unprocessable(f"{inside}{shown} is no member of this message: leave it out", member=shown)
            checks[name](member, inside + name)

    return check


def _text(value: Any, where: str) -> None:
    if type(value) is not str:
        raise _wrong(where, "be a string")


def _id(value: Any, where: str, most: int = ID_CHARS) -> None:
    _text(value, where)
    if len(value) > most:
        raise _wrong(where, f"have at most {most} characters")


def _named(value: Any, where: str, most: int = ID_CHARS) -> None:
    _id(value, where, most)
    if not value.strip():
        raise _wrong(where, "not be blank")


def _matching(pattern: re.Pattern[str], what: str, most: int = ID_CHARS) -> Check:
    def check(value: Any, where: str) -> None:
        _id(value, where, most)
        if not pattern.fullmatch(value):
            raise _wrong(where, what)

    return check


def _time(value: Any, where: str) -> None:
    _text(value, where)
    if instant_of(value) is None:
        raise _wrong(where, "be a date and time of RFC 3339, such as 2026-04-01T10:00:00Z")


def _count(value: Any, where: str) -> None:
    # JSON Schema takes 5.0 for an integer.
    if type(value) not in {int, float} or value < 0 or value != value // 1:
        raise _wrong(where, "be a whole number of at least 0")


def _share(value: Any, where: str) -> None:
    if type(value) not in {int, float} or not 0 <= value <= 1:
        raise _wrong(where, "be a number from 0 to 1")


def _one_of(*choices: str) -> Check:
    def check(value: Any, where: str) -> None:
        if value not in choices:
            raise _wrong(where, f"be one of {', '.join(choices)}")

    return check


def _object(value: Any, where: str) -> None:
    if type(value) is not dict:
        raise _wrong(where, "be an object")


def _ids(value: Any, where: str) -> None:
    if type(value) is not list:
        raise _wrong(where, "be a list of strings")
    for number, one in enumerate(value):
        _named(one, f"{where}[{number}]", URL_CHARS)


_domain = _matching(DOMAIN, "be words of a-z 0-9 joined by dots, such as finance.markets")
_uri = _matching(URI, "be an absolute URI", URL_CHARS)

REQUEST = _members(
    "aip_version",
    "request_id",
    "timestamp",
    "platform",
    "intent",
    "context",
    "runtime",
    **{"aip_version": _id},
    request_id=_id,
    timestamp=_time,
    platform=_members("id", id=_id, software=_id, software_version=_id),
    intent=_members("domain", domain=_domain, subdomain=_domain, confidence=_share),
    context=_members(
        "language",
        language=_matching(LANGUAGE, "be a language tag of BCP 47, such as en-US"),
        geography=_members(country=_matching(COUNTRY, "be two capital letters, such as US")),
        placement=_id,
    ),
    runtime=_members(
        "session_id", "turn_index", session_id=_id, turn_index=_count, query_text=_text, latency_budget_ms=_count
    ),
    extensions=_object,
)
EVENT_CHECKS: Mapping[str, Check] = {
    "aip_version": _id,
    "event_id": _named,
    "event_type": _one_of("access", "citation"),
    "timestamp": _time,
    "request_id": _named,
    "publisher": _members("id", "domain", id=_id, domain=_matching(HOSTNAME, "be a host such as example.com")),
    "platform": _members("id", id=_named),
    "access": _members(chunks_returned=_count, token_count=_count, retrieval_mode=_one_of("chunks")),
    "citation": _members(source_url=_uri, chunk_ids=_ids, display_surface=_named),
    "extensions": _object,
}
EVENT_MEMBERS = tuple(EVENT_CHECKS)
EVENT = _members(*EVENT_MEMBERS[:7], **EVENT_CHECKS)
