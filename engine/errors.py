"""The exceptions of the engine, in the tree that it shares with the client (`aidre_client.errors`).

Missing
├── CollectionMissing
│   └── CollectionDropped   it was there
└── GenerationMissing       removed by garbage collection, or never written
Conflict
├── SpaceConflict           the configuration contradicts a space of the manifest
└── PublishConflict         the bucket holds what this store did not publish, or another publisher was faster
Unsupported
└── Unanswerable            a question that a collection cannot be asked, as a text without a model
AidreError
├── Busy                    too much is waiting already
├── StoreDamaged            a file that cannot be derived from others is truncated or altered
├── FormatTooNew            written by a newer release
├── StorageFailed           the disk failed: full, read-only, input/output error
│   ├── BucketFailed        an object store that is missing, denies access or does not answer
│   └── BackendUnavailable  another engine that does not answer, or refuses
└── FetchFailed             a URL that is refused, does not answer, or answers something unusable
"""

from __future__ import annotations

from aidre_client.errors import (
    AccessDenied as AccessDenied,
    AidreError as AidreError,
    Closed as Closed,
    CollectionMissing as CollectionMissing,
    ConfigurationError as ConfigurationError,
    Conflict as Conflict,
    DimensionMismatch as DimensionMismatch,
    DocumentMissing as DocumentMissing,
    HistoryMissing as HistoryMissing,
    InvalidDocument as InvalidDocument,
    InvalidFilter as InvalidFilter,
    InvalidInput as InvalidInput,
    InvalidVector as InvalidVector,
    Missing as Missing,
    ModelUnavailable as ModelUnavailable,
    RequestFailed as RequestFailed,
    SpaceMissing as SpaceMissing,
    StoreLocked as StoreLocked,
    Unsupported as Unsupported,
    VerificationFailed as VerificationFailed,
    printable_name as printable_name,
)


class CollectionDropped(CollectionMissing):
    """Its last generation is known. Details: collection, generation, lineage, visibility."""


class GenerationMissing(Missing):
    """Details: collection, generation."""

    code = "generation_missing"


class SpaceConflict(Conflict):
    """Details: embedding_space, member."""

    code = "space_conflict"


class PublishConflict(Conflict):
    """Details: collection, url, generation (that of the bucket)."""

    code = "publish_conflict"


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


class PublicationRefused(StorageFailed):
    """A replica does not take what its bucket has. Details: collection, url, reason (`unsigned`, `unknown_key`,
    `forged`, `older`, `widened`, `withdrawn`)."""

    code = "publication_refused"


class BackendUnavailable(StorageFailed):
    """Details: backend, the engine; address, where it is, without a password; reason (`lost`, `refused`, `absent`)."""

    code = "backend_unavailable"


class FetchFailed(AidreError):
    """Details: status (of the HTTP response, if any), down (other pages of the host will probably fail too)."""

    code = "fetch_failed"


def not_installed(what: str, package: str, *needed: str) -> ConfigurationError:
    """The error of something that a distribution of `packages/` brings, which needs others of them."""
    folders = " ".join(f"./packages/{name}" for name in (*needed, package))
    return ConfigurationError(
        f"{what} needs the package aidre-{package}: pip install 'aidre[{package}]', or in a checkout: "
        f"pip install {folders}"
    )
