"""The publisher's declaration (aip.json) and capabilities: the same for every caller, with no inventory of content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from aidre.api.config import HOSTNAME, Intent, Settings
from aidre.api.protocols.intent.envelope import DEFAULT_VERSION, VERSIONS
from aidre.api.protocols.intent.limits import TOKEN_COUNT_METHOD

SCHEMA = f"https://schemas.agenticintentprotocol.com/aip/{DEFAULT_VERSION}/schema.json"
WELL_KNOWN = "/.well-known/aip.json"
CAPABILITIES, RETRIEVE, EVENTS = "/aip/capabilities", "/aip/retrieve", "/aip/events"


def publisher_of(settings: Settings) -> Mapping[str, str]:
    """Id, name and domain of the publisher; the defaults come from `[server]`."""
    publisher, server = settings.intent.publisher, settings.server
    host = urlsplit(server.origin or str(server.base_url)).hostname or ""
    domain = publisher.domain or (host if HOSTNAME.fullmatch(host) else "localhost")
    name = publisher.name or (server.organization or "")[:128] or domain[:128]
    publisher_id = publisher.id or re.sub(r"[^a-z0-9_-]", "-", domain)[:64].ljust(2, "-")
    return {"id": publisher_id, "name": name, "domain": domain}


def build_declaration(settings: Settings, started: date) -> dict[str, Any]:
    """The content of /.well-known/aip.json. `started` is `last_updated` for a configuration without a date."""
    intent, base = settings.intent, settings.server.base_url
    return {
        "$schema": SCHEMA,
        "aip_version": DEFAULT_VERSION,
        "publisher": dict(publisher_of(settings)),
        "intent_access": {
            "enabled": intent.enabled,
            "mode": "live_only",
            "training_use": False,
            "storage_rights": "none",
            "state": intent.state,
            "cache_policy": "no_store",
        },
        "editorial_domains": sorted(intent.editorial_domains),
        "endpoints": {
            "capabilities": {"method": "GET", "url": f"{base}{CAPABILITIES}"},
            "retrieve": {"method": "POST", "url": f"{base}{RETRIEVE}", "capabilities_ref": "retrieval"},
            "event": {"method": "POST", "url": f"{base}{EVENTS}", "required": intent.event_required},
        },
        "retrieval": _retrieval(intent),
        "compliance": _compliance(intent, started),
        "extensions": {
            "aidre.versions": list(VERSIONS),
            "aidre.tokens": TOKEN_COUNT_METHOD,
            **({} if intent.full_article else {"aidre.max_document_fraction": intent.max_document_fraction}),
        },
    }


def build_capabilities(settings: Settings) -> dict[str, Any]:
    """The content of /aip/capabilities."""
    return {"aip_version": DEFAULT_VERSION, "retrieval": _retrieval(settings.intent)}


def _retrieval(intent: Intent) -> dict[str, Any]:
    return {
        "supports": {"chunks": intent.chunks, "citations": intent.citations, "full_article": intent.full_article},
        "max_chunks": intent.max_chunks,
        "max_tokens": intent.max_tokens,
    }


def _compliance(intent: Intent, started: date) -> dict[str, Any]:
    compliance = intent.compliance
    members: dict[str, Any] = {
        "revocable": compliance.revocable,
        "notice_required": compliance.notice_required,
        "last_updated": str(compliance.last_updated or started),
        "sunset": None if compliance.sunset is None else str(compliance.sunset),
    }
    if compliance.revocation_reason is not None:  # the schema does not allow null
        members["revocation_reason"] = compliance.revocation_reason
    return members
