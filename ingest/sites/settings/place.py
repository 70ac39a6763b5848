"""The place of a file in a website, what a generator is asked with, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aidre.engine.model import Json
from aidre.ingest.sites.settings.folder import Folder

PAGES = frozenset({".md", ".markdown", ".mdown", ".mkdn", ".mkd", ".mdx", ".qmd", ".rst", ".adoc", ".ipynb"})
"""Suffixes of files that generators make pages of; others they copy."""


@dataclass(frozen=True, slots=True)
class Place:
    """`address` is relative to the site's home, without a slash at its beginning; "" is the home page.

    A file with a `reason` is none of the site's pages: a template, a part of other pages, an excluded file. With a
    `draft` its page is not published, with `since` (RFC 3339) not before that moment. `rank` is the place in the
    order of the site, `order` that within the folder.
    """

    address: str | None = None
    reason: str | None = None
    draft: str | None = None
    since: str | None = None
    rank: float | None = None
    order: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a generator is asked about. `path` is relative to the folder of the configuration, and may begin
    with "../"; `folder` is that folder."""

    path: str
    folder: Folder
    read_matter: Callable[[], Mapping[str, Json] | None]

    @property
    def matter(self) -> Mapping[str, Json]:
        """The front matter; empty without one."""
        return self.read_matter() or {}

    def text(self, name: str) -> str | None:
        """A member of the front matter as a text; None if it is none, or blank."""
        value = self.matter.get(name)
        if type(value) is int:
            return str(value)
        return value.strip() or None if type(value) is str else None


@dataclass(frozen=True, slots=True)
class Includes:
    """How pages include files. `patterns` are the names of forms in `includes.FORMS`; `bases` are folders, relative to
    that of the configuration, in which a file is looked for after that of the page where `beside` is true."""

    forms: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    beside: bool = True


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator with the configuration of one site.

    `place` gives None for a file that is not of the site. `home` is the address of the home page, None if the
    configuration does not say it; `form` shows what addresses look like. Settings
    that decide on addresses and are `computed` by a program leave pages without one. Folders that
    are `built` hold what the generator writes, or code. Links that
    begin with a slash begin in `roots`.
    """

    name: str
    place: Callable[[Source], Place | None]
    home: str | None = None
    form: str = ""
    includes: Includes = field(default_factory=Includes)
    roots: tuple[str, ...] = ()
    wikilinks: bool = False
    notes: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    built: tuple[str, ...] = ()


def to_order(value: Any) -> float | None:
    """A number that an author gives a page; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def left_out(reason: str) -> Place:
    """The place of a file that is no page."""
    return Place(reason=reason)
