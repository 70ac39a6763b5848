"""Strict parsers for the messages of a platform: RetrieveRequest and the citation event.

Objects are closed: an unlisted member is an error, which keeps prices, brands, embeddings and user identities out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aidre.api.config import DOMAIN, HOSTNAME
from aidre.api.http import Unprocessable
from aidre.api.protocols.intent.signing import parse_rfc3339
from aidre.engine.errors import printable_name

Check: TypeAlias = Callable[[Any, str], None]

MAX_ID_CHARS = 1_024
"""Of ids and other short strings, which answers echo and the event log stores."""
MAX_URL_CHARS = 8_192
"""Of document URLs, and of chunk ids, which may contain a URL."""
MAX_LATENCY_BUDGET_SECONDS = 3_600.0
"""A larger budget is lowered to this."""
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
"""Well-formed language tags of BCP 47 (RFC 5646, section 2.1)."""


@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """`domains` are those that the intent may mean; `text` is the query, or the words of the domain if that is blank.

    A subdomain may be a whole path, as in the draft's example ("business", "finance.markets"), or continue the domain.
    `latency_budget` is in seconds.
    """

    request_id: str
    session_id: str
    domains: tuple[str, ...]
    text: str
    latency_budget: float | None


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """`event` is the part that the event log stores: everything but `extensions`, whose content is unrestricted."""

    event_id: str
    request_id: str
    source_url: str
    chunk_ids: tuple[str, ...]
    display_surface: str
    event: Mapping[str, Any]


def read_retrieve(body: Mapping[str, Any], version: str, query_chars: int) -> RetrieveRequest:
    """Parse a RetrieveRequest. Raises Unprocessable, which names the member.

    `version` is the X-AIP-Version of the request, which `aip_version` must repeat.
    """
    CHECK_REQUEST(body, "")
    _check_version(body, version)
    intent, runtime = body["intent"], body["runtime"]
    domain, subdomain = intent["domain"], intent.get("subdomain")
    domains = (domain,) if subdomain is None else (subdomain, f"{domain}.{subdomain}", domain)
    text: str = runtime.get("query_text", "")
    if len(text) > query_chars:
        raise _invalid("runtime.query_text", f"have at most {query_chars} characters")
    budget = runtime.get("latency_budget_ms")
    return RetrieveRequest(
        body["request_id"],
        runtime["session_id"],
        domains,
        text if text.strip() else re.sub(r"[.-]+", " ", max(domains, key=len)),
        None if budget is None else min(budget / 1_000, MAX_LATENCY_BUDGET_SECONDS),
    )


def read_event(body: Mapping[str, Any], version: str, publisher: Mapping[str, str]) -> CitationEvent:
    """Parse a citation event; `publisher` is its required publisher member. Raises Unprocessable."""
    CHECK_EVENT(body, "")
    _check_version(body, version)
    if body["event_type"] == "access":
        raise Unprocessable("event_type access is the publisher's to emit: send citation events")
    if "access" in body:
        raise _invalid("access", "be absent from a citation event")
    if "citation" not in body:
        raise _missing("citation")
    if body["publisher"] != publisher:
        raise _invalid("publisher", f"be {publisher['id']!r} at {publisher['domain']!r}")
    citation = body["citation"]
    for name in ("source_url", "chunk_ids", "display_surface"):
        if name not in citation:
            raise _missing(f"citation.{name}")
    if not citation["chunk_ids"]:
        raise _invalid("citation.chunk_ids", "name at least one chunk")
    return CitationEvent(
        body["event_id"],
        body["request_id"],
        citation["source_url"],
        tuple(citation["chunk_ids"]),
        citation["display_surface"],
        {name: body[name] for name in EVENT_MEMBERS if name in body and name != "extensions"},
    )


def _check_version(body: Mapping[str, Any], version: str) -> None:
    if body["aip_version"] != version:
        raise _invalid("aip_version", f"be {version}, as X-AIP-Version says")


def _invalid(path: str, rule: str) -> Unprocessable:
    return Unprocessable(f"{path or 'the body'} must {rule}", member=path)


def _missing(path: str) -> Unprocessable:
    return Unprocessable(f"{path} is missing", missing=[path])


def _closed_object(*required: str, **checks: Check) -> Check:
    """The check of a closed object: all members of `required`, and none without a check of its own."""

    def check(value: Any, path: str) -> None:
        _object(value, path)
        prefix = f"{path}." if path else ""
        for name in required:
            if name not in value:
                raise _missing(prefix + name)
        for name, member in value.items():
            if name not in checks:
                shown = printable_name(name)
                raise Unprocessable(f"{prefix}{shown} is no member of this message: leave it out", member=shown)
            checks[name](member, prefix + name)

    return check


def _text(value: Any, path: str) -> None:
    if type(value) is not str:
        raise _invalid(path, "be a string")


def _id(value: Any, path: str, max_chars: int = MAX_ID_CHARS) -> None:
    _text(value, path)
    if len(value) > max_chars:
        raise _invalid(path, f"have at most {max_chars} characters")


def _nonblank_id(value: Any, path: str, max_chars: int = MAX_ID_CHARS) -> None:
    _id(value, path, max_chars)
    if not value.strip():
        raise _invalid(path, "not be blank")


def _matching(pattern: re.Pattern[str], rule: str, max_chars: int = MAX_ID_CHARS) -> Check:
    def check(value: Any, path: str) -> None:
        _id(value, path, max_chars)
        if not pattern.fullmatch(value):
            raise _invalid(path, rule)

    return check


def _timestamp(value: Any, path: str) -> None:
    _text(value, path)
    if parse_rfc3339(value) is None:
        raise _invalid(path, "be a date and time of RFC 3339, such as 2026-04-01T10:00:00Z")


def _count(value: Any, path: str) -> None:
    # JSON Schema counts 5.0 as an integer.
    if type(value) not in {int, float} or value < 0 or value != value // 1:
        raise _invalid(path, "be a whole number of at least 0")


def _fraction(value: Any, path: str) -> None:
    if type(value) not in {int, float} or not 0 <= value <= 1:
        raise _invalid(path, "be a number from 0 to 1")


def _one_of(*choices: str) -> Check:
    def check(value: Any, path: str) -> None:
        if value not in choices:
            raise _invalid(path, f"be one of {', '.join(choices)}")

    return check


def _object(value: Any, path: str) -> None:
    if type(value) is not dict:
        raise _invalid(path, "be an object")


def _chunk_ids(value: Any, path: str) -> None:
    if type(value) is not list:
        raise _invalid(path, "be a list of strings")
    for index, chunk_id in enumerate(value):
        _nonblank_id(chunk_id, f"{path}[{index}]", MAX_URL_CHARS)


_domain = _matching(DOMAIN, "be words of a-z 0-9 joined by dots, such as finance.markets")
_uri = _matching(URI, "be an absolute URI", MAX_URL_CHARS)

CHECK_REQUEST = _closed_object(
    "aip_version",
    "request_id",
    "timestamp",
    "platform",
    "intent",
    "context",
    "runtime",
    **{"aip_version": _id},
    request_id=_id,
    timestamp=_timestamp,
    platform=_closed_object("id", id=_id, software=_id, software_version=_id),
    intent=_closed_object("domain", domain=_domain, subdomain=_domain, confidence=_fraction),
    context=_closed_object(
        "language",
        language=_matching(LANGUAGE, "be a language tag of BCP 47, such as en-US"),
        geography=_closed_object(country=_matching(COUNTRY, "be two capital letters, such as US")),
        placement=_id,
    ),
    runtime=_closed_object(
        "session_id", "turn_index", session_id=_id, turn_index=_count, query_text=_text, latency_budget_ms=_count
    ),
    extensions=_object,
)
EVENT_CHECKS: Mapping[str, Check] = {
    "aip_version": _id,
    "event_id": _nonblank_id,
    "event_type": _one_of("access", "citation"),
    "timestamp": _timestamp,
    "request_id": _nonblank_id,
    "publisher": _closed_object("id", "domain", id=_id, domain=_matching(HOSTNAME, "be a host such as example.com")),
    "platform": _closed_object("id", id=_nonblank_id),
    "access": _closed_object(chunks_returned=_count, token_count=_count, retrieval_mode=_one_of("chunks")),
    "citation": _closed_object(source_url=_uri, chunk_ids=_chunk_ids, display_surface=_nonblank_id),
    "extensions": _object,
}
EVENT_MEMBERS = tuple(EVENT_CHECKS)
"""The first seven are required."""
CHECK_EVENT = _closed_object(*EVENT_MEMBERS[:7], **EVENT_CHECKS)
