"""What the publisher declares: aip.json and the capabilities, the same for every caller and without any inventory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from aidre.api.intent.envelope import DEFAULT_VERSION, VERSIONS
from aidre.api.intent.limits import TOKENS
from aidre.api.intent.settings import HOSTNAME, Intent, day_of
from aidre.api.settings import Settings

SCHEMA = f"https://schemas.agenticintentprotocol.com/aip/{DEFAULT_VERSION}/schema.json"
WELL_KNOWN = "/.well-known/aip.json"
CAPABILITIES, RETRIEVE, EVENTS = "/aip/capabilities", "/aip/retrieve", "/aip/events"


def publisher_of(settings: Settings) -> Mapping[str, str]:
    """Id, name and domain; what the configuration leaves out follows from `[server]`."""
    said, server = settings.intent.publisher, settings.server
    host = urlsplit(server.origin or str(server.base_url)).hostname or ""
    domain = said.domain or (host if HOSTNAME.fullmatch(host) else "localhost")
    name = said.name or (server.organization or "")[:128] or domain[:128]
    return {"id": said.id or re.sub(r"[^a-z0-9_-]", "-", domain)[:64].ljust(2, "-"), "name": name, "domain": domain}


def declaration(settings: Settings, started: date) -> dict[str, Any]:
    """/.well-known/aip.json. `started` stands for the date of a configuration that is no file."""
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
            "aidre.tokens": TOKENS,
            **({} if intent.full_article else {"aidre.max_document_fraction": intent.max_document_fraction}),
        },
    }


def capabilities(settings: Settings) -> dict[str, Any]:
    """/aip/capabilities."""
    return {"aip_version": DEFAULT_VERSION, "retrieval": _retrieval(settings.intent)}


def _retrieval(intent: Intent) -> dict[str, Any]:
    return {
        "supports": {"chunks": intent.chunks, "citations": intent.citations, "full_article": intent.full_article},
        "max_chunks": intent.max_chunks,
        "max_tokens": intent.max_tokens,
    }


def _compliance(intent: Intent, started: date) -> dict[str, Any]:
    said = intent.compliance
    sunset = day_of(said.sunset, "sunset")
    found: dict[str, Any] = {
        "revocable": said.revocable,
        "notice_required": said.notice_required,
        "last_updated": str(day_of(said.last_updated, "last_updated") or started),
        "sunset": None if sunset is None else str(sunset),
    }
    if said.revocation_reason is not None:  # the schema has no null here
        found["revocation_reason"] = said.revocation_reason
    return found
