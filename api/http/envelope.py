"""The envelope of AIDRE: its two representations, its errors, and conditional responses to GET.

It is also the envelope of every path that belongs to no other protocol.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http.endpoint import answer_unless_known, etag_digest, http_date
from aidre.api.http.http_errors import HttpError, NotAcceptable
from aidre.api.http.messages import Error
from aidre.api.http.request import (
    AIDRE_JSON,
    JSON,
    PROBLEM_JSON,
    accept_header,
    exact_quality,
    note_error_code,
    quality,
    request_id,
)
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    DimensionMismatch,
    DocumentMissing,
    GenerationMissing,
    InvalidInput,
    InvalidVector,
    ModelUnavailable,
    SpaceMissing,
    Unsupported,
)

logger = logging.getLogger("aidre")

STATUS: Mapping[type[AidreError], tuple[int, str]] = {
    InvalidInput: (400, "invalid_request"),
    InvalidVector: (422, "invalid_request"),
    DimensionMismatch: (422, "invalid_embedding_dimension"),
    SpaceMissing: (422, "unsupported_embedding_space"),
    CollectionMissing: (404, "not_found"),
    DocumentMissing: (404, "not_found"),
    GenerationMissing: (409, "conflict"),
    Unsupported: (422, "invalid_request"),
}
"""HTTP status and error code of the engine's errors; a subclass inherits them."""
IMPLIED = frozenset(
    kind.code for kind in (InvalidInput, DimensionMismatch, SpaceMissing, CollectionMissing, GenerationMissing)
)
"""Codes of the library that status and error code already say."""
UNAVAILABLE = (503, "service_unavailable")
"""HTTP status and error code of every other error of the engine."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One representation of a resource. `mark` separates its ETags from those of the other one."""

    media_type: str
    mark: str


AIDRE_VARIANT = Variant(AIDRE_JSON, "a")
JSON_VARIANT = Variant(JSON, "j")


@dataclass(frozen=True, slots=True)
class Representation:
    """The content of a response to GET. `updated_at` is RFC 3339 and becomes Last-Modified."""

    body: bytes
    variant: Variant
    etag: str
    cache: str
    updated_at: str | None = None


@dataclass(frozen=True, slots=True)
class _ErrorParts:
    status: int
    code: str
    message: str
    details: Mapping[str, Any]
    headers: Mapping[str, str]


def render_error(request: Request, error: AidreError) -> Response:
    """The error envelope (10, 17), merged with problem details (RFC 9457) if Accept prefers those."""
    parts = _error_parts(error)
    note_error_code(request, parts.code)
    identifier = request_id(request)
    body = Error(error=parts.code, message=parts.message, details=dict(parts.details), request_id=identifier)
    accept = accept_header(request)
    media_type = JSON if quality(accept, AIDRE_JSON) < quality(accept, JSON) else AIDRE_JSON
    if exact_quality(accept, PROBLEM_JSON) > max(quality(accept, AIDRE_JSON), quality(accept, JSON)) * bool(accept):
        media_type = PROBLEM_JSON
        body = structs.replace(
            body,
            type="about:blank",
            title=HTTPStatus(parts.status).phrase,
            status=parts.status,
            detail=parts.message,
            instance=f"urn:aidre:request:{identifier}",
        )
    headers = {"Cache-Control": "no-store", "Vary": "Accept", **parts.headers}
    return Response(msgspec.json.encode(body, enc_hook=str), parts.status, headers, media_type)


def _error_parts(error: AidreError) -> _ErrorParts:
    if isinstance(error, HttpError):
        return _ErrorParts(error.status, error.code, error.message, error.details, error.headers)
    status, code = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), UNAVAILABLE)
    if isinstance(error, ModelUnavailable):
        message = "text queries are unavailable because the embedding model cannot be loaded: send query_vector"
        return _ErrorParts(status, code, message, {}, {"Retry-After": "30"})
    if status == UNAVAILABLE[0]:
        logger.error("%s", error)  # the caller is not told about the operator's disk
        message = "this collection cannot be read at the moment: try again later"
        return _ErrorParts(status, code, message, {}, {"Retry-After": "5"})
    if isinstance(error, DimensionMismatch):
        actual, expected = error.details["actual_dimensions"], error.details["expected_dimensions"]
        message = f"The supplied query vector has length {actual}, but the embedding space requires {expected}."
        return _ErrorParts(status, code, message, error.details, {})
    exact = {} if error.code in IMPLIED else {"code": error.code}  # so that a client raises what the library does
    return _ErrorParts(status, code, error.message, {**error.details, **exact}, {})


def negotiate(request: Request) -> Variant:
    """The variant for Accept (14.1, 15.3): the one of greater weight, of two equal ones application/aidre+json; raises
    NotAcceptable."""
    accept = accept_header(request)
    own, plain = quality(accept, AIDRE_JSON), quality(accept, JSON)
    if max(own, plain) > 0:
        return AIDRE_VARIANT if own >= plain else JSON_VARIANT
    raise NotAcceptable(f"Accept must admit {AIDRE_JSON} or {JSON}")


def conditional_response(request: Request, representation: Representation) -> Response:
    """A 200, or a 304 if the caller's copy is current."""
    date = http_date(representation.updated_at) if representation.updated_at is not None else None
    if date is not None and date[1] > time.time():
        date = None  # a publisher may date ahead, Last-Modified must not (RFC 9110, 8.8.2.1)
    headers = {"ETag": representation.etag, "Cache-Control": representation.cache, "Vary": "Accept"}
    if date is not None:
        headers["Last-Modified"] = date[0]
    modified = date[1] if date is not None else None
    return answer_unless_known(request, representation.body, headers, representation.variant.media_type, modified)


def conditional_message(request: Request, variant: Variant, content: msgspec.Struct) -> Response:
    """The same of a message, whose `request_id` is that of the request."""
    etag = f'W/"{etag_digest(msgspec.json.encode(content))}-{variant.mark}"'  # weak: the request_id differs
    body = msgspec.json.encode(msgspec.structs.replace(content, request_id=request_id(request)))
    return conditional_response(request, Representation(body, variant, etag, "no-cache"))
