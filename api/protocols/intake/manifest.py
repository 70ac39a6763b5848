"""The manifest of Agent Intake, /.well-known/agent-intake.json: the provider and its intakes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import asdict

from aidre.api.config import Intake, OfferedIntake, Settings, declared_retention
from aidre.api.protocols.intake.envelope import PROTOCOL_VERSION


def build_manifest(settings: Settings) -> dict[str, Any]:
    """The manifest, which is the same for every caller."""
    server = settings.server
    url = server.origin or str(server.base_url)
    name = server.organization or str(urlsplit(url).hostname)
    return {
        "aip_version": PROTOCOL_VERSION,
        "provider": {"name": name, "url": url},
        "intakes": [_intake(intake, settings.intake, str(server.base_url)) for intake in settings.intakes],
    }


def bind_endpoint(base_url: str) -> str:
    return f"{base_url}/intakes/bind"


def _intake(intake: OfferedIntake, settings: Intake, base_url: str) -> dict[str, Any]:
    name = intake.name or intake.id
    members: dict[str, Any] = {
        "id": intake.id,
        "name": name,
        "description": intake.description or name,
        "endpoint": f"{base_url}/intakes/{intake.id}",
        "method": "POST",
    }
    if intake.category is not None:
        members["category"] = intake.category
    members |= {
        "input_schema": intake.schema,
        "offer_type": intake.offer_type,
        "binding_available": intake.binds,
        "requires_auth": intake.requires_auth,
        "privacy": {
            **{name: value for name, value in asdict(intake.privacy).items() if value is not None},
            "data_retention": declared_retention(intake, settings),
        },
    }
    if intake.rate_limit:
        members["rate_limit"] = dict(intake.rate_limit)
    return members
