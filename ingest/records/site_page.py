"""What a reader of a file may ask of the website that the file is a page of."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from aidre.ingest.records.items import Unpublished


class SitePage(Protocol):
    """The page of one file."""

    def unpublished(self, as_of: datetime | None) -> Unpublished | None:
        """Why the file is no document of its own, or not yet; drafts are taken where `as_of` is None."""
        ...

    def expand(self, text: str) -> str:
        """The text with the files that it includes, links between pages as addresses, and wikilinks as links."""
        ...

    def include(self, target: str) -> str | None:
        """The text of a file beside the page or, after a slash, below the site's folder; None outside of the folder."""
        ...
