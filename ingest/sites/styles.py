"""Addresses by the path of a file alone: what `--url-style` names."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sites.settings import PAGES, split_name

UrlStyle: TypeAlias = Literal["auto", "file", "directory", "html", "bare"]
"""`auto`: as the generator of the folder has them, else `file`: sub/page.md. The others: sub/page/, sub/page.html and
sub/page."""

_INDEXES = frozenset({"index", "_index", "readme"})


def to_url_style(name: str) -> UrlStyle:
    """The style of that name; raises ConfigurationError for another one."""
    found = next((style for style in get_args(UrlStyle) if style == name), None)
    if found is None:
        raise ConfigurationError(f"url style {name!r} is unknown: use one of {', '.join(get_args(UrlStyle))}")
    return cast("UrlStyle", found)


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
