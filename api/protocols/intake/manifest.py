"""The manifest of Agent Intake, /.well-known/agent-intake.json: the provider and its intakes."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import UNSET

from aidre.api.config import Intake, OfferedIntake, Settings, declared_retention
from aidre.api.http import present
from aidre.api.protocols.intake.envelope import PROTOCOL_VERSION
from aidre.api.protocols.intake.messages import (
    DeclaredIntake,
    IntakeManifest,
    IntakePrivacy,
    IntakeProvider,
    IntakeRateLimit,
)


def build_manifest(settings: Settings) -> IntakeManifest:
    """The manifest, which is the same for every caller."""
    server = settings.server
    url = server.origin or str(server.base_url)
    return IntakeManifest(
        version=PROTOCOL_VERSION,
        provider=IntakeProvider(name=server.organization or str(urlsplit(url).hostname), url=url),
        intakes=[_intake(intake, settings.intake, str(server.base_url)) for intake in settings.intakes],
    )


def bind_endpoint(base_url: str) -> str:
    return f"{base_url}/intakes/bind"


def _intake(intake: OfferedIntake, settings: Intake, base_url: str) -> DeclaredIntake:
    name = intake.name or intake.id
    privacy = intake.privacy
    return DeclaredIntake(
        id=intake.id,
        name=name,
        description=intake.description or name,
        endpoint=f"{base_url}/intakes/{intake.id}",
        method="POST",
        category=present(intake.category),
        input_schema=intake.schema,
        offer_type=intake.offer_type,
        binding_available=intake.binds,
        requires_auth=intake.requires_auth,
        privacy=IntakePrivacy(
            data_retention=declared_retention(intake, settings),
            pii_required=present(privacy.pii_required),
            redacted_acceptable=present(privacy.redacted_acceptable),
        ),
        rate_limit=IntakeRateLimit(**intake.rate_limit) if intake.rate_limit else UNSET,
    )
