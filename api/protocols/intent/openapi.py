"""The operations of Agentic Intent for the OpenAPI document."""

from __future__ import annotations

from functools import partial

from aidre.api.http import Content, Operation, Parameter
from aidre.api.protocols.intent.discovery import CAPABILITIES, EVENTS, RETRIEVE, WELL_KNOWN
from aidre.api.protocols.intent.messages import (
    VERSIONS,
    CitationReport,
    EventAnswer,
    IntentCapabilities,
    IntentDeclaration,
    RetrieveAnswer,
    RetrieveRequest,
)
from aidre.api.protocols.intent.signing import (
    KEY_ID_FIELD,
    NONCE_FIELD,
    NONCE_PATTERN,
    SIGNATURE_FIELD,
    TIMESTAMP_FIELD,
    VERSION_FIELD,
)

VERSION = Parameter(
    VERSION_FIELD,
    "header",
    "The version to describe; 0.1 if left out",
    "1.0",
    {"type": "string", "enum": list(VERSIONS)},
    required=False,
)
SIGNED = (
    Parameter(VERSION_FIELD, "header", "As `aip_version`", "0.1", {"type": "string", "enum": list(VERSIONS)}),
    Parameter(KEY_ID_FIELD, "header", "The key that signs", "platform"),
    Parameter(TIMESTAMP_FIELD, "header", "The time of signing (RFC 3339)", "2026-04-01T10:00:00Z"),
    Parameter(
        NONCE_FIELD,
        "header",
        "At least 16 random bytes, never sent twice",
        "kE3VbX0nT8mWcY1uLs5dRg",
        {"type": "string", "pattern": f"^{NONCE_PATTERN.pattern}$"},
    ),
    Parameter(
        SIGNATURE_FIELD,
        "header",
        "HMAC-SHA256 over method, path, digest of the body, timestamp and nonce",
        "v1=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        {"type": "string", "pattern": "^v1=[A-Za-z0-9+/]{43}=$"},
    ),
)
ERRORS = (400, 401, 408, 413, 415, 422, 500)

_operation = partial(Operation, tag="Agentic Intent", error=Content(RetrieveAnswer, description="A denial or an error"))
_get = partial(_operation, method="get", parameters=(VERSION,), conditional=True, errors=(500,))
_post = partial(_operation, method="post", parameters=SIGNED)

OPERATIONS: tuple[Operation, ...] = (
    _get(
        path=WELL_KNOWN,
        name="declareIntent",
        summary="The publisher's declaration",
        description="Who the publisher is, the declared domains, and the terms of access.",
        answers={200: Content(IntentDeclaration)},
    ),
    _get(
        path=CAPABILITIES,
        name="showCapabilities",
        summary="The capabilities of retrieval",
        description="What answers may have, and how much.",
        answers={200: Content(IntentCapabilities)},
    ),
    _post(
        path=RETRIEVE,
        name="retrieve",
        summary="Passages within a declared domain",
        description="Signed both ways. A denial is a decision of the publisher, an error a technical failure.",
        request=Content(RetrieveRequest),
        answers={200: Content(RetrieveAnswer)},
        errors=ERRORS,
    ),
    _post(
        path=EVENTS,
        name="reportCitation",
        summary="Report a citation of returned passages",
        description="An event that was recorded before is answered with 200.",
        request=Content(CitationReport),
        answers={202: Content(EventAnswer, description="Recorded"), 200: Content(EventAnswer, description="Known")},
        errors=(*ERRORS, 404, 409),
    ),
)
