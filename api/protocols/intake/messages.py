"""The messages of Agent Intake 0.1.0: submissions, offers, binds and the manifest."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http import ClosedMessage, Message, OpenMessage, Text

VERSION_PATTERN = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
LOCALE_PATTERN = re.compile("[a-z]{2}(-[A-Z]{2})?")
HEX = "[0-9a-fA-F]"

Scope: TypeAlias = Literal["intake", "offer", "bind", "account_creation", "payment"]
Named: TypeAlias = Annotated[str, Meta(min_length=1)]
Link: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1)]
Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
CONSENT = "What the user agreed to, each once"


def parse_uuid(text: str) -> uuid.UUID | None:
    """Parse a UUID in its canonical form, in either case; None for any other text."""
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text.lower() else None


class Session(Text):
    __slots__ = ()
    rule = "a UUID"
    schema: ClassVar = {"pattern": f"^{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}$"}

    @classmethod
    def admits(cls, text: str) -> bool:
        return parse_uuid(text) is not None


class NewSession(Text):
    __slots__ = ()
    rule = "a UUID of version 4"
    schema: ClassVar = {"pattern": f"^{HEX}{{8}}-{HEX}{{4}}-4{HEX}{{3}}-[89abAB]{HEX}{{3}}-{HEX}{{12}}$"}

    @classmethod
    def admits(cls, text: str) -> bool:
        parsed = parse_uuid(text)
        return parsed is not None and parsed.variant == uuid.RFC_4122 and parsed.version == 4


class CompatibleVersion(Text):
    """Before 1.0 a breaking change bumps the minor version."""

    __slots__ = ()
    rule = "a version that is compatible with 0.1.0"
    schema: ClassVar = {"pattern": r"^0\.1\.[0-9]+$"}

    @classmethod
    def admits(cls, text: str) -> bool:
        return VERSION_PATTERN.fullmatch(text) is not None and text.startswith("0.1.")


class Locale(Text):
    __slots__ = ()
    rule = "a locale such as en-US"
    schema: ClassVar = {"pattern": f"^{LOCALE_PATTERN.pattern}$"}

    @classmethod
    def admits(cls, text: str) -> bool:
        return LOCALE_PATTERN.fullmatch(text) is not None


# -- requests --------------------------------------------------------------------------------------------------------


class IntakeAgent(ClosedMessage, frozen=True, kw_only=True):
    """The agent that submits, and what its user agreed to."""

    id: Named
    platform: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    consent_scope: Annotated[
        list[Scope],
        Meta(
            min_length=1,
            description=CONSENT,
            extra_json_schema={"uniqueItems": True, "contains": {"type": "string", "enum": ["intake"]}},
        ),
    ]


class IntakeMetadata(OpenMessage, frozen=True, kw_only=True):
    """Facts about the submission."""

    timestamp: Instant | UnsetType = UNSET
    locale: Locale | UnsetType = UNSET
    timezone: str | UnsetType = UNSET


class IntakeRequest(ClosedMessage, frozen=True, kw_only=True):
    """A submission. `intake_data` fits the `input_schema` of the intake; `consent_scope` has `intake`."""

    version: CompatibleVersion = field(name="aip_version")
    agent: IntakeAgent
    intake_data: dict[str, Any]
    session_id: NewSession
    metadata: IntakeMetadata | UnsetType = UNSET


class BindAgent(ClosedMessage, frozen=True, kw_only=True):
    """The agent that binds, and what its user agreed to."""

    id: Named
    consent_scope: Annotated[
        list[Scope],
        Meta(
            min_length=1,
            description=CONSENT,
            extra_json_schema={"uniqueItems": True, "contains": {"type": "string", "enum": ["bind"]}},
        ),
    ]


class BindMetadata(OpenMessage, frozen=True, kw_only=True):
    """Facts about the bind."""

    timestamp: Instant | UnsetType = UNSET
    user_confirmed_at: Instant | UnsetType = UNSET


class BindRequest(ClosedMessage, frozen=True, kw_only=True):
    """The acceptance of an offer. `bind_data` has what the offer requires; `consent_scope` has `bind`."""

    offer_id: Named
    session_id: Session
    bind_data: dict[str, Any]
    agent: BindAgent
    metadata: BindMetadata | UnsetType = UNSET


# -- answers ---------------------------------------------------------------------------------------------------------


class IntakePrivacy(Message, frozen=True, kw_only=True):
    """How the data of a submission are treated."""

    data_retention: Literal["none", "session", "30_days", "1_year", "indefinite"] | UnsetType = UNSET
    pii_required: bool | UnsetType = UNSET
    redacted_acceptable: bool | UnsetType = UNSET


class IntakeRateLimit(Message, frozen=True, kw_only=True):
    """Submissions of one caller."""

    requests_per_minute: AtLeastOne | UnsetType = UNSET
    requests_per_day: AtLeastOne | UnsetType = UNSET


class DeclaredIntake(Message, frozen=True, kw_only=True):
    """An intake: where to submit what, and what comes of it."""

    id: str
    name: str
    description: str
    endpoint: Link
    method: Literal["POST"]
    category: str | UnsetType = UNSET
    input_schema: Annotated[Mapping[str, Any], Meta(description="The JSON Schema of `intake_data`")]
    offer_type: str
    binding_available: bool
    requires_auth: bool
    privacy: IntakePrivacy
    rate_limit: IntakeRateLimit | UnsetType = UNSET


class IntakeProvider(Message, frozen=True, kw_only=True):
    """Who offers the intakes."""

    name: str
    url: Link


class IntakeManifest(Message, frozen=True, kw_only=True):
    """The provider and its intakes."""

    version: str = field(name="aip_version")
    provider: IntakeProvider
    intakes: Annotated[list[DeclaredIntake], Meta(min_length=1)]


class OfferItem(Message, frozen=True, kw_only=True):
    """A passage that answers the submission. `score` is its relevance, from 0 to 1."""

    id: str
    title: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    score: float


class Offer(Message, frozen=True, kw_only=True):
    """An offer. One that can be bound says until when, where and with which data."""

    id: str
    summary: str
    details: Annotated[dict[str, Any], Meta(description="`items`: the passages (OfferItem); the provider's members")]
    expires: Time | UnsetType = UNSET
    bind_endpoint: Link | UnsetType = UNSET
    bind_requires: list[str] | UnsetType = UNSET
    terms_url: Link | UnsetType = UNSET


class IntakeAnswer(Message, frozen=True, kw_only=True):
    """An offer (`status` offer), or the reason why there is none (declined)."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["offer", "declined"]
    offer: Offer | UnsetType = UNSET
    decline_reason: str | UnsetType = UNSET


class BindAnswer(Message, frozen=True, kw_only=True):
    """The offer is bound."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["bound"]
    offer_id: str
    bound_at: Time


class IntakeFault(Message, frozen=True, kw_only=True):
    """A code of the protocol and what to do."""

    code: Annotated[str, Meta(description="A stable code")]
    message: str


class IntakeFailure(Message, frozen=True, kw_only=True):
    """What is wrong with a request, and the cure."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["error"]
    error: IntakeFault
