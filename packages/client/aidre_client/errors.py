"""The exceptions that client and engine share. Each class has a stable `code`; each instance has facts in `details`.

AidreError
├── InvalidInput            the caller's fault
│   ├── DimensionMismatch   a vector of the wrong length
│   ├── InvalidDocument     a document or row that cannot be stored
│   ├── InvalidFilter       a filter outside the grammar
│   └── InvalidVector       not finite, zero in a cosine space, or out of range
├── Missing                 the named thing does not exist
│   ├── CollectionMissing
│   ├── DocumentMissing     also a KeyError
│   ├── HistoryMissing      the changelogs do not reach back that far
│   └── SpaceMissing
├── Conflict                valid, but not in the current state of the store
│   ├── Closed              used after it was closed
│   └── StoreLocked         another writer holds the collection
├── Unsupported             the server, or the engine behind a collection, lacks a capability
├── ModelUnavailable        an embedding model that cannot be loaded, or whose endpoint gives no vectors
├── RequestFailed           a server that was asked by the client does not answer, or answers with an error
│   └── AccessDenied        it wants a key, another key, or denies what was asked
├── VerificationFailed      an answer whose signature, digest or provenance does not hold
└── ConfigurationError      the operator's configuration is wrong, or a package is missing

`aidre.engine.errors` adds those of the engine.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AidreError(Exception):
    """Root of all errors that aidre raises on purpose. `str(error)` is one line: what is wrong, and the cure."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details


class InvalidInput(AidreError):
    code = "invalid_input"


class DimensionMismatch(InvalidInput):
    """Details: embedding_space, expected_dimensions, actual_dimensions."""

    code = "dimension_mismatch"


class InvalidDocument(InvalidInput):
    """Details: row, where there is more than one; document_id."""

    code = "invalid_document"


class InvalidFilter(InvalidInput):
    code = "invalid_filter"


class InvalidVector(InvalidInput):
    """Details: row, the index in the array of vectors, where there is more than one."""

    code = "invalid_vector"


class Missing(AidreError):
    code = "missing"


class CollectionMissing(Missing):
    """Details: collection."""

    code = "collection_missing"


class DocumentMissing(Missing, KeyError):
    """Details: document_id."""

    code = "document_missing"

    __str__ = AidreError.__str__  # that of KeyError would quote the message


class HistoryMissing(Missing):
    code = "history_missing"


class SpaceMissing(Missing):
    """Details: embedding_space."""

    code = "space_missing"


class Conflict(AidreError):
    code = "conflict"


class Closed(Conflict):
    code = "closed"


class StoreLocked(Conflict):
    """Details: collection, pid, host."""

    code = "store_locked"


class Unsupported(AidreError):
    """Details: capability."""

    code = "unsupported"


class ModelUnavailable(AidreError):
    """Details: embedding_space; of an endpoint also reason (`no_endpoint`, `unreachable`, `overloaded`, `denied`,
    `refused`, `wrong_dimensions`, `invalid_answer`), and status, or expected_dimensions and actual_dimensions."""

    code = "model_unavailable"


class RequestFailed(AidreError):
    """Details: url; status (of the HTTP response, if any); error (the code of the server, or one of `no_answer`,
    `invalid_answer`, `interrupted`); request_id; retry_after in seconds, and what the server says in details."""

    code = "request_failed"


class AccessDenied(RequestFailed):
    """Details: as of RequestFailed; reason (of a denial by Agentic Intent)."""

    code = "access_denied"


class VerificationFailed(AidreError):
    """Details: url, problem."""

    code = "verification_failed"


class ConfigurationError(AidreError):
    code = "configuration_error"


def printable_name(name: str) -> str:
    """A name from outside, cut to 64 characters and escaped, for a message of one line."""
    short = name if len(name) <= 64 else name[:64] + "…"
    return short if short.isprintable() else ascii(short)[1:-1]
