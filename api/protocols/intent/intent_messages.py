"""The messages of Agentic Intent: requests of a platform, and the publisher's answers.

Objects are closed: an unlisted member is an error, which keeps prices, brands, embeddings and user identities out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.config import DOMAIN, HOSTNAME
from aidre.api.http import (
    NOT_BLANK,
    AtLeastOne,
    ClosedMessage,
    Count,
    DateTime,
    Link,
    Text,
    Timestamp,
    Unprocessable,
    read_integers,
    read_message,
)

VERSIONS = ("0.1", "1.0")
MAX_ID_CHARS = 1_024
"""Longest id or other short string, which answers echo and the event log stores."""
MAX_URL_CHARS = 8_192
"""Longest document URL, and longest chunk id, which may contain one."""
MAX_LATENCY_BUDGET_SECONDS = 3_600.0
"""A larger budget is lowered to this."""
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
HOST_SCHEMA = HOSTNAME.pattern.replace(r"(?=.{1,253}\Z)", "")
"""Without the look-ahead for the length: the patterns of JSON Schema (ECMA 262) know no `\\Z`."""
MAX_HOST_CHARS = 253

Version: TypeAlias = Literal["0.1", "1.0"]
Id: TypeAlias = Annotated[str, Meta(max_length=MAX_ID_CHARS)]
Date: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class Name(
    Text,
    rule=f"a string of at most {MAX_ID_CHARS} characters that is not blank",
    pattern=NOT_BLANK,
    max_chars=MAX_ID_CHARS,
):
    pass


class ChunkId(
    Text,
    rule=f"a string of at most {MAX_URL_CHARS} characters that is not blank",
    pattern=NOT_BLANK,
    max_chars=MAX_URL_CHARS,
):
    pass


class Uri(
    Text,
    rule=f"an absolute URI of at most {MAX_URL_CHARS} characters",
    max_chars=MAX_URL_CHARS,
    format="uri",
    check=URI.fullmatch,
):
    pass


class Domain(
    Text,
    rule="words of a-z 0-9 joined by dots, such as finance.markets",
    pattern=f"^{DOMAIN.pattern}$",
    max_chars=MAX_ID_CHARS,
):
    pass


class Host(Text, rule="a host such as example.com", pattern=f"^{HOST_SCHEMA}$", max_chars=MAX_HOST_CHARS):
    pass


class LanguageTag(
    Text, rule="a language tag of BCP 47, such as en-US", max_chars=MAX_ID_CHARS, check=LANGUAGE.fullmatch
):
    pass


class Country(Text, rule="two capital letters, such as US", pattern="^[A-Z]{2}$"):
    pass


# -- requests --------------------------------------------------------------------------------------------------------


class IntentPlatform(ClosedMessage):
    """The platform that asks."""

    id: Id
    software: Id | UnsetType = UNSET
    software_version: Id | UnsetType = UNSET


class IntentScope(ClosedMessage):
    """What the user is after. A subdomain continues the domain, or is a whole path such as finance.markets."""

    domain: Domain
    subdomain: Domain | UnsetType = UNSET
    confidence: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class IntentGeography(ClosedMessage):
    """Where the user is."""

    country: Country | UnsetType = UNSET


class IntentContext(ClosedMessage):
    """The setting of the conversation."""

    language: LanguageTag
    geography: IntentGeography | UnsetType = UNSET
    placement: Id | UnsetType = UNSET


class IntentRuntime(ClosedMessage):
    """The turn of the conversation. Without `query_text` the words of the domain are the query."""

    session_id: Id
    turn_index: Count
    query_text: str | UnsetType = UNSET
    latency_budget_ms: Count | UnsetType = UNSET


class RetrieveRequest(ClosedMessage):
    """A request for passages within a declared domain."""

    version: Id = field(name="aip_version")
    request_id: Id
    timestamp: Timestamp
    platform: IntentPlatform
    intent: IntentScope
    context: IntentContext
    runtime: IntentRuntime
    extensions: dict[str, Any] | UnsetType = UNSET

    @property
    def session_id(self) -> str:
        return self.runtime.session_id

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that the intent may mean: the draft's example has ("business", "finance.markets")."""
        domain, subdomain = str(self.intent.domain), self.intent.subdomain
        return (domain,) if subdomain is UNSET else (str(subdomain), f"{domain}.{subdomain}", domain)

    @property
    def text(self) -> str:
        """The query, or the words of the domain if it is blank."""
        text = self.runtime.query_text or ""
        return text if text.strip() else re.sub(r"[.-]+", " ", max(self.domains, key=len))

    @property
    def latency_budget(self) -> float | None:
        """In seconds."""
        budget = self.runtime.latency_budget_ms
        return None if budget is UNSET else min(budget / 1_000, MAX_LATENCY_BUDGET_SECONDS)


class EventPublisher(ClosedMessage):
    """The publisher whose passages were cited."""

    id: Id
    domain: Host


class EventPlatform(ClosedMessage):
    """The platform that cites."""

    id: Name


class Citation(ClosedMessage):
    """What was cited, and where it was shown."""

    source_url: Uri
    chunk_ids: Annotated[list[ChunkId], Meta(min_length=1)]
    display_surface: Name


class CitationReport(ClosedMessage):
    """The report that returned passages were shown to a user."""

    version: Id = field(name="aip_version")
    event_id: Name
    event_type: Literal["citation"]
    timestamp: Timestamp
    request_id: Name
    publisher: EventPublisher
    platform: EventPlatform
    citation: Citation
    extensions: dict[str, Any] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """A checked report. `event` is the part that the event log stores: everything but `extensions`, whose content is
    unrestricted."""

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
    runtime = body.get("runtime")
    if type(runtime) is dict:
        read_integers(runtime, "turn_index", "latency_budget_ms")
    request = read_message(body, RetrieveRequest, Unprocessable)
    _check_version(request.version, version)
    if len(request.runtime.query_text or "") > query_chars:
        raise _invalid("runtime.query_text", f"have at most {query_chars} characters")
    return request


def read_event(body: Mapping[str, Any], version: str, publisher: Mapping[str, str]) -> CitationEvent:
    """Parse a citation event; `publisher` is its required publisher member. Raises Unprocessable."""
    if body.get("event_type") == "access":
        raise Unprocessable("event_type access is the publisher's to emit: send citation events", member="event_type")
    report = read_message(body, CitationReport, Unprocessable)
    _check_version(report.version, version)
    if (report.publisher.id, report.publisher.domain) != (publisher["id"], publisher["domain"]):
        raise _invalid("publisher", f"be {publisher['id']!r} at {publisher['domain']!r}")
    citation = report.citation
    return CitationEvent(
        str(report.event_id),
        str(report.request_id),
        str(citation.source_url),
        tuple(map(str, citation.chunk_ids)),
        str(citation.display_surface),
        {name: body[name] for name in body if name != "extensions"},
    )


def _check_version(stated: str, version: str) -> None:
    if stated != version:
        raise _invalid("aip_version", f"be {version}, as X-AIP-Version says")


def _invalid(path: str, rule: str) -> Unprocessable:
    return Unprocessable(f"{path} must {rule}", member=path)


# -- answers ---------------------------------------------------------------------------------------------------------


class IntentSupports(ClosedMessage):
    """What answers may have."""

    chunks: bool
    citations: bool
    full_article: bool


class IntentRetrieval(ClosedMessage):
    """The capabilities of retrieval."""

    supports: IntentSupports
    max_chunks: AtLeastOne
    max_tokens: AtLeastOne


class IntentPublisher(ClosedMessage):
    """The publisher, by id, name and domain."""

    id: str
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    domain: str


class IntentAccess(ClosedMessage):
    """The terms of access."""

    enabled: bool
    mode: Literal["live_only"]
    training_use: bool
    storage_rights: Literal["none"]
    state: Literal["active", "paused", "disabled"]
    cache_policy: Literal["no_store"]


class IntentEndpoint(ClosedMessage):
    """A method and its address."""

    method: Literal["GET", "POST"]
    url: Link
    capabilities_ref: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class IntentEndpoints(ClosedMessage):
    """Where the protocol is served."""

    capabilities: IntentEndpoint
    retrieve: IntentEndpoint
    event: IntentEndpoint


class IntentCompliance(ClosedMessage):
    """Whether and until when the consent holds."""

    revocable: bool
    notice_required: bool
    last_updated: Date
    sunset: Date | None
    revocation_reason: Literal["legal", "policy", "technical"] | UnsetType = UNSET


class IntentDeclaration(ClosedMessage):
    """The publisher's declaration: the same for every caller, with no inventory of content."""

    schema: Link = field(name="$schema")
    version: Version = field(name="aip_version")
    publisher: IntentPublisher
    intent_access: IntentAccess
    editorial_domains: Annotated[list[str], Meta(min_length=1)]
    endpoints: IntentEndpoints
    retrieval: IntentRetrieval
    compliance: IntentCompliance
    extensions: dict[str, Any]


class IntentCapabilities(ClosedMessage):
    """The capabilities of retrieval."""

    version: Version = field(name="aip_version")
    retrieval: IntentRetrieval


class IntentChunk(ClosedMessage):
    """A returned passage."""

    id: str
    text: str
    token_count: Count


class IntentContent(ClosedMessage):
    """The returned passages, the best first."""

    chunks: Annotated[list[IntentChunk], Meta(min_length=1)]


class IntentCitation(ClosedMessage):
    """How a document is to be cited, and the passages that it gave."""

    source_url: Link
    publisher: str
    chunk_ids: list[str]
    title: str | UnsetType = UNSET


class IntentLimits(ClosedMessage):
    """The limits that were applied."""

    max_chunks: AtLeastOne
    max_tokens: AtLeastOne


class IntentDenial(ClosedMessage):
    """A decision of the publisher."""

    reason: Literal["out_of_scope", "access_disabled", "policy_violation", "rate_limited", "unsupported"]
    message: str


class IntentFault(ClosedMessage):
    """A technical failure."""

    code: Annotated[str, Meta(description="A stable code")]
    message: str


class RetrieveAnswer(ClosedMessage):
    """Passages (`status` ok), a denial (denied) or a failure (error); the other members are absent."""

    version: Version = field(name="aip_version")
    request_id: str
    timestamp: DateTime
    status: Literal["ok", "denied", "error"]
    content: IntentContent | UnsetType = UNSET
    citations: list[IntentCitation] | UnsetType = UNSET
    limits_applied: IntentLimits | UnsetType = UNSET
    denial: IntentDenial | UnsetType = UNSET
    error: IntentFault | UnsetType = UNSET


class EventAnswer(ClosedMessage):
    """The citation event is recorded."""

    version: Version = field(name="aip_version")
    request_id: str
    timestamp: DateTime
    status: Literal["ok"]
    event_id: str
