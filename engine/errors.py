"""The exception tree. Each class has a stable `code`; each instance carries facts in `details`.

AidreError
├── InvalidInput            the caller's fault
│   ├── InvalidVector       not finite, zero in a cosine space, or out of range
│   ├── DimensionMismatch   a vector of the wrong length
│   ├── InvalidFilter       a filter outside the grammar
│   └── InvalidDocument     a document or row that cannot be stored
├── Missing                 the named thing does not exist
│   ├── DocumentMissing     also a KeyError
│   ├── CollectionMissing
│   │   └── CollectionDropped   it was there
│   ├── GenerationMissing   removed by garbage collection, or never written
│   ├── HistoryMissing      the changelogs do not reach back that far
│   └── SpaceMissing
├── Conflict                valid, but not in the current state of the store
│   ├── StoreLocked         another writer holds the collection
│   ├── SpaceConflict       the configuration contradicts a space of the manifest
│   ├── PublishConflict     the bucket holds what this store did not publish, or another publisher was faster
│   └── Closed              used after it was closed
├── Unsupported             the engine behind a collection lacks a capability
│   └── Unanswerable        a question that a collection cannot be asked, as a text without a model
├── Busy                    too much is waiting already
├── StoreDamaged            a file that cannot be derived from others is truncated or altered
├── FormatTooNew            written by a newer release
├── StorageFailed           the disk failed: full, read-only, input/output error
│   ├── BucketFailed        an object store that is missing, denies access or does not answer
│   └── BackendUnavailable  another engine that does not answer, or refuses
├── ModelUnavailable        an embedding model that cannot be loaded, or whose endpoint gives no vectors
├── FetchFailed             a URL that is refused, does not answer, or answers something unusable
├── RequestFailed           a server that was asked by the client does not answer, or answers with an error
│   └── AccessDenied        it wants a key, another key, or denies what was asked
├── VerificationFailed      an answer whose signature, digest or provenance does not hold
└── ConfigurationError      the operator's configuration is wrong
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


class InvalidVector(InvalidInput):
    """Details: row, the index in the array of vectors, where there is more than one."""

    code = "invalid_vector"


class DimensionMismatch(InvalidInput):
    """Details: embedding_space, expected_dimensions, actual_dimensions."""

    code = "dimension_mismatch"


class InvalidFilter(InvalidInput):
    code = "invalid_filter"


class InvalidDocument(InvalidInput):
    code = "invalid_document"


class Missing(AidreError):
    code = "missing"


class CollectionMissing(Missing):
    """Details: collection."""

    code = "collection_missing"


class DocumentMissing(Missing, KeyError):
    """Details: document_id."""

    code = "document_missing"

    __str__ = AidreError.__str__  # that of KeyError would quote the message


class CollectionDropped(CollectionMissing):
    """Its last generation is known. Details: collection, generation, lineage, visibility."""


class GenerationMissing(Missing):
    """Details: collection, generation."""

    code = "generation_missing"


class HistoryMissing(Missing):
    code = "history_missing"


class SpaceMissing(Missing):
    """Details: embedding_space."""

    code = "space_missing"


class Conflict(AidreError):
    code = "conflict"


class StoreLocked(Conflict):
    """Details: collection, pid, host."""

    code = "store_locked"


class SpaceConflict(Conflict):
    """Details: embedding_space, member."""

    code = "space_conflict"


class PublishConflict(Conflict):
    """Details: collection, url, generation (that of the bucket)."""

    code = "publish_conflict"


class Closed(Conflict):
    code = "closed"


class Unsupported(AidreError):
    """Details: capability."""

    code = "unsupported"


class Unanswerable(Unsupported):
    """Details: member, where one of the request decides it."""


class Busy(AidreError):
    code = "busy"


class StoreDamaged(AidreError):
    """Details: collection, file (relative to the store), problem."""

    code = "store_damaged"


class FormatTooNew(AidreError):
    code = "format_too_new"


class StorageFailed(AidreError):
    """Details: file; reason (`full`, where the disk has no room); unconfirmed, the generation of a commit that may last
    or not. Without `unconfirmed` a commit that failed has stored nothing."""

    code = "storage_failed"


class BucketFailed(StorageFailed):
    """Details: url, reason (`missing`, `denied`, `unreachable`)."""

    code = "bucket_failed"


class BackendUnavailable(StorageFailed):
    """Details: backend, the engine; address, where it is, without a password; reason (`lost`, `refused`, `absent`)."""

    code = "backend_unavailable"


class ModelUnavailable(AidreError):
    """Details: embedding_space; of an endpoint also reason (`no_endpoint`, `unreachable`, `overloaded`, `denied`,
    `refused`, `wrong_dimensions`, `invalid_answer`), and status, or expected_dimensions and actual_dimensions."""

    code = "model_unavailable"


class FetchFailed(AidreError):
    """Details: status (of the HTTP response, if any), down (other pages of the host will probably fail too)."""

    code = "fetch_failed"


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


def not_installed(what: str, package: str, *needed: str) -> ConfigurationError:
    """The error of something that a distribution of `packages/` brings, which needs others of them."""
    folders = " ".join(f"./packages/{name}" for name in (*needed, package))
    return ConfigurationError(
        f"{what} needs the package aidre-{package}: pip install 'aidre[{package}]', or in a checkout: "
        f"pip install {folders}"
    )
