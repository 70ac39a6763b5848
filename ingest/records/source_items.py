"""What reading a source yields: a document with its location, a batch of rows, a failure, or a note on the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aidre.engine.model import Document
from aidre.ingest.records.file import Noted

if TYPE_CHECKING:  # the sandbox's child imports this module, and its memory limit leaves no room for Arrow
    from aidre.ingest.records.batch import RowBatch


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file or row that gives no document. `where` is "file" or "file:line".

    It also names the stored documents that --mirror must keep: `document_id`, or if that is unknown every document
    from `origin`, or with `folder` every document from below `origin`.
    """

    where: str
    reason: str
    source: str
    origin: str
    document_id: str | None = None
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An `origin` that was fetched before and has not changed, or may not have: its documents are kept. "." is any.

    `documents` is how many of them count as read.
    """

    where: str
    source: str
    origin: str
    documents: int = 1


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A document that its author has not published, with the `reason` ("draft: true"). It is left out: --mirror deletes
    what is stored of its `origin`. `until` is when that changes (RFC 3339), if it is known."""

    where: str
    reason: str
    source: str
    origin: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class ListingEnd:
    """Follows the last document of a listing (a feed, a sitemap, rows), whose kind is stored in any case.

    Unless one of its documents failed, `state` makes the next request for the listing conditional.
    """

    source: str
    origin: str
    kind: str
    state: Mapping[str, str]


Item: TypeAlias = "tuple[str, Document] | RowBatch | Rejected | Unchanged | Unpublished | Noted | ListingEnd"
"""A document comes with its location for messages, "file" or "file:line"."""
