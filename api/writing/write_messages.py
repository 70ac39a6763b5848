"""What the server and its writer process say to each other: one frame of MessagePack each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from aidre.engine import errors
from aidre.engine.errors import AidreError, StorageFailed

RowFormat: TypeAlias = Literal["array", "lines"]
"""How the rows of a request are written: one JSON array, or a JSON object a line."""


class WriteRequest(msgspec.Struct, frozen=True):
    """One request. `arrived` is in seconds of the monotonic clock, which the processes of a machine share."""

    number: int
    collection: str
    arrived: float


class PutRows(WriteRequest, frozen=True, tag="put"):
    body: bytes
    format: RowFormat


class PatchDocuments(WriteRequest, frozen=True, tag="patch"):
    """Changes members of documents; `changes` is the JSON of an object of changed members by id."""

    changes: bytes


class DeleteDocuments(WriteRequest, frozen=True, tag="delete"):
    document_ids: Sequence[str]


class DeletePassing(WriteRequest, frozen=True, tag="delete_passing"):
    """Deletes the documents that pass a filter; `filter` is its JSON. `allow_unknown`: also where it names a field that
    no document has."""

    filter: bytes
    allow_unknown: bool = False


AnyRequest: TypeAlias = PutRows | PatchDocuments | DeleteDocuments | DeletePassing


class WriteFailure(msgspec.Struct, frozen=True):
    """An error of the engine. `kind` is the name of its class."""

    kind: str
    message: str
    details: Mapping[str, Any]

    def to_error(self) -> AidreError:
        kind = getattr(errors, self.kind, StorageFailed)
        return kind(self.message, **self.details)


class WriterReply(msgspec.Struct, frozen=True):
    """The outcome of a request: durable in `generation`, unless it failed.

    `documents` were sent or named, `written` of them are new or changed; `deleted` existed.
    """

    number: int
    generation: int = 0
    documents: int = 0
    written: int = 0
    deleted: int = 0
    failure: WriteFailure | None = None


def failed(number: int, error: AidreError) -> WriterReply:
    details = {name: value for name, value in error.details.items() if isinstance(value, str | int | float | list)}
    return WriterReply(number, failure=WriteFailure(type(error).__name__, error.message, details))
