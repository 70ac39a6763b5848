"""The publisher's declaration (aip.json) and capabilities: the same for every caller, with no inventory of content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from aidre.api.config import HOSTNAME, IntentSettings, Settings
from aidre.api.http import present
from aidre.api.protocols.intent.hmac_signing import (
    KEY_ID_FIELD,
    NONCE_FIELD,
    SCHEME,
    SIGNATURE_FIELD,
    TIMESTAMP_FIELD,
    VERSION_FIELD,
)
from aidre.api.protocols.intent.intent_messages import (
    VERSIONS,
    IntentAccess,
    IntentCapabilities,
    IntentCompliance,
    IntentDeclaration,
    IntentEndpoint,
    IntentEndpoints,
    IntentPublisher,
    IntentRetrieval,
    IntentSupports,
    Version,
)
from aidre.api.protocols.intent.limits import TOKEN_COUNT_METHOD

SCHEMAS = "https://schemas.agenticintentprotocol.com/aip"
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


def build_declaration(settings: Settings, started: date, version: Version) -> IntentDeclaration:
    """The content of /.well-known/aip.json. `started` is `last_updated` for a configuration without a date."""
    intent, base = settings.intent, settings.server.base_url
    fraction = {} if intent.full_article else {"aidre.max_document_fraction": intent.max_document_fraction}
    return IntentDeclaration(
        schema=f"{SCHEMAS}/{version}/schema.json",
        version=version,
        publisher=IntentPublisher(**publisher_of(settings)),
        intent_access=IntentAccess(
            enabled=intent.enabled,
            mode="live_only",
            training_use=False,
            storage_rights="none",
            state=intent.state,
            cache_policy="no_store",
        ),
        editorial_domains=sorted(intent.editorial_domains),
        endpoints=IntentEndpoints(
            capabilities=IntentEndpoint(method="GET", url=f"{base}{CAPABILITIES}"),
            retrieve=IntentEndpoint(method="POST", url=f"{base}{RETRIEVE}", capabilities_ref="retrieval"),
            event=IntentEndpoint(method="POST", url=f"{base}{EVENTS}", required=intent.event_required),
        ),
        retrieval=_retrieval(intent),
        compliance=_compliance(intent, started),
        extensions={"aidre.versions": list(VERSIONS), "aidre.tokens": TOKEN_COUNT_METHOD, **fraction, **_keys(intent)},
    )


def _keys(intent: IntentSettings) -> dict[str, Any]:
    """The extension that says how requests are signed and where a partner gets the key for it."""
    return {
        "aidre.keys": {
            "obtain": intent.publisher.contact or "ask the publisher, who gives each partner a key id and a secret",
            "signature": "HMAC-SHA256 with the secret over method, path, hexadecimal SHA-256 of the body, timestamp "
            f"and nonce, joined by line feeds; {SCHEME} and base64",
            "fields": [VERSION_FIELD, KEY_ID_FIELD, TIMESTAMP_FIELD, NONCE_FIELD, SIGNATURE_FIELD],
        }
    }


def build_capabilities(settings: Settings, version: Version) -> IntentCapabilities:
    """The content of /aip/capabilities."""
    return IntentCapabilities(version=version, retrieval=_retrieval(settings.intent))


def _retrieval(intent: IntentSettings) -> IntentRetrieval:
    supports = IntentSupports(chunks=intent.chunks, citations=intent.citations, full_article=intent.full_article)
    return IntentRetrieval(supports=supports, max_chunks=intent.max_chunks, max_tokens=intent.max_tokens)


def _compliance(intent: IntentSettings, started: date) -> IntentCompliance:
    compliance = intent.compliance
    return IntentCompliance(
        revocable=compliance.revocable,
        notice_required=compliance.notice_required,
        last_updated=str(compliance.last_updated or started),
        sunset=None if compliance.sunset is None else str(compliance.sunset),
        revocation_reason=present(compliance.revocation_reason),  # the schema does not allow null
    )
