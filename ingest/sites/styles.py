"""Addresses by the path of a file alone: what `--url-style` names."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from aidre.ingest.sites.folder import split_name
from aidre.ingest.sites.place import PAGES

UrlStyle: TypeAlias = Literal["auto", "file", "directory", "html", "bare"]
URL_STYLES: Final = ("auto", "file", "directory", "html", "bare")
"""`auto`: as the generator of the folder has them, else `file`: sub/page.md. The others: sub/page/, sub/page.html and
sub/page."""

_INDEXES = frozenset({"index", "_index", "readme"})


def styled(path: str, style: UrlStyle) -> str:
    """The address of a file. Files that are no pages, such as PDF, keep their names."""
    folder, stem, suffix = split_name(path)
    if style in ("auto", "file") or suffix not in PAGES:
        return path
    is_index = stem.lower() in _INDEXES
    if style == "html":
        return f"{folder}{'index' if is_index else stem}.html"
    if is_index:
        return folder if style == "directory" else folder.rstrip("/")
    return f"{folder}{stem}{'/' if style == 'directory' else ''}"
