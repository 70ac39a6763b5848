"""What a reader of a file may ask of the website that the file is a page of."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol


class LeftOut(NamedTuple):
    """Why a file is no document, and until when (RFC 3339), if that is known."""

    reason: str
    until: str | None = None


class SitePage(Protocol):
    """The page of one file."""

    def left_out(self, as_of: datetime | None) -> LeftOut | None:
        """Why the file is no document of its own, or not yet; None if it is. Without `as_of` drafts are taken."""
        ...

    def expand(self, text: str) -> str:
        """The text with the files that it includes, links between pages as addresses, and wikilinks as links."""
        ...

    def with_includes(self, content: bytes) -> bytes:
        """The content of a file in reStructuredText or AsciiDoc with what it includes; other content as it is."""
        ...

    def include(self, target: str) -> str | None:
        """The text of a file beside the page or, after a slash, below the site's folder; None outside of the folder."""
        ...
