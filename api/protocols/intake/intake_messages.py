"""The messages of Agent Intake 0.1.0: submissions, offers, binds and the manifest."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http import AtLeastOne, ClosedMessage, DateTime, Link, Message, OpenMessage, Text, Timestamp

HEX = "[0-9a-fA-F]"

Scope: TypeAlias = Literal["intake", "offer", "bind", "account_creation", "payment"]
Named: TypeAlias = Annotated[str, Meta(min_length=1)]


def consent_to(needed: Scope) -> Meta:
    """What a user agreed to, which has to be this, too."""
    contained = {"uniqueItems": True, "contains": {"type": "string", "enum": [needed]}}
    return Meta(min_length=1, description="What the user agreed to, each once", extra_json_schema=contained)


def parse_uuid(text: str) -> uuid.UUID | None:
    """Parse a UUID in its canonical form, in either case; None for any other text."""
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text.lower() else None


class Session(Text, rule="a UUID", pattern=f"^{HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}}$"):
    pass


class NewSession(
    Text, rule="a UUID of version 4", pattern=f"^{HEX}{{8}}-{HEX}{{4}}-4{HEX}{{3}}-[89abAB]{HEX}{{3}}-{HEX}{{12}}$"
):
    pass


class CompatibleVersion(Text, rule="a version that is compatible with 0.1.0", pattern=r"^0\.1\.[0-9]+$"):
    """Before 1.0 a breaking change bumps the minor version."""


class Locale(Text, rule="a locale such as en-US", pattern="^[a-z]{2}(-[A-Z]{2})?$"):
    pass


# -- requests --------------------------------------------------------------------------------------------------------


class IntakeAgent(ClosedMessage):
    """The agent that submits, and what its user agreed to."""

    id: Named
    consent_scope: Annotated[list[Scope], consent_to("intake")]
    platform: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class IntakeMetadata(OpenMessage):
    """Facts about the submission."""

    timestamp: Timestamp | UnsetType = UNSET
    locale: Locale | UnsetType = UNSET
    timezone: str | UnsetType = UNSET


class IntakeRequest(ClosedMessage):
    """A submission. `intake_data` fits the `input_schema` of the intake; `consent_scope` has `intake`."""

    version: CompatibleVersion = field(name="aip_version")
    agent: IntakeAgent
    intake_data: dict[str, Any]
    session_id: NewSession
    metadata: IntakeMetadata | UnsetType = UNSET


class BindAgent(ClosedMessage):
    """The agent that binds, and what its user agreed to."""

    id: Named
    consent_scope: Annotated[list[Scope], consent_to("bind")]


class BindMetadata(OpenMessage):
    """Facts about the bind."""

    timestamp: Timestamp | UnsetType = UNSET
    user_confirmed_at: Timestamp | UnsetType = UNSET


class BindRequest(ClosedMessage):
    """The acceptance of an offer. `bind_data` has what the offer requires; `consent_scope` has `bind`."""

    offer_id: Named
    session_id: Session
    bind_data: dict[str, Any]
    agent: BindAgent
    metadata: BindMetadata | UnsetType = UNSET


# -- answers ---------------------------------------------------------------------------------------------------------


class IntakePrivacy(Message):
    """How the data of a submission are treated."""

    data_retention: Literal["none", "session", "30_days", "1_year", "indefinite"] | UnsetType = UNSET
    pii_required: bool | UnsetType = UNSET
    redacted_acceptable: bool | UnsetType = UNSET


class IntakeRateLimit(Message):
    """Submissions of one caller."""

    requests_per_minute: AtLeastOne | UnsetType = UNSET
    requests_per_day: AtLeastOne | UnsetType = UNSET


class DeclaredIntake(Message):
    """An intake: where to submit what, and what comes of it."""

    id: str
    name: str
    description: str
    endpoint: Link
    method: Literal["POST"]
    input_schema: Annotated[Mapping[str, Any], Meta(description="The JSON Schema of `intake_data`")]
    offer_type: str
    binding_available: bool
    requires_auth: bool
    privacy: IntakePrivacy
    category: str | UnsetType = UNSET
    rate_limit: IntakeRateLimit | UnsetType = UNSET


class IntakeProvider(Message):
    """The provider of the intakes."""

    name: str
    url: Link


class IntakeManifest(Message):
    """The provider and its intakes."""

    version: str = field(name="aip_version")
    provider: IntakeProvider
    intakes: Annotated[list[DeclaredIntake], Meta(min_length=1)]


class OfferItem(Message):
    """A passage that answers the submission. `score` is its relevance, from 0 to 1."""

    id: str
    score: float
    title: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class Offer(Message):
    """An offer. One that can be bound says until when, where and with which data."""

    id: str
    summary: str
    details: Annotated[dict[str, Any], Meta(description="`items`: the passages (OfferItem); the provider's members")]
    expires: DateTime | UnsetType = UNSET
    bind_endpoint: Link | UnsetType = UNSET
    bind_requires: list[str] | UnsetType = UNSET
    terms_url: Link | UnsetType = UNSET


class IntakeAnswer(Message):
    """An offer (`status` offer), or the reason why there is none (declined)."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["offer", "declined"]
    offer: Offer | UnsetType = UNSET
    decline_reason: str | UnsetType = UNSET


class BindAnswer(Message):
    """The offer is bound."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["bound"]
    offer_id: str
    bound_at: DateTime


class IntakeFault(Message):
    """A code of the protocol and what to do."""

    code: Annotated[str, Meta(description="A stable code")]
    message: str


class IntakeFailure(Message):
    """What is wrong with a request, and the cure."""

    version: str = field(name="aip_version")
    session_id: str
    status: Literal["error"]
    error: IntakeFault
