"""The place of a file in a website, what a generator is asked with, and what it is.

Names and titles as parts of addresses, in the manner of the generators that have one of their own. Reads files
beneath a folder by their relative paths, and none outside of it.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aidre.engine.model import Json
from aidre.ingest.records import open_beneath

MAX_BYTES = 1 << 20
"""Bytes of a configuration file, and of an included one; a larger one is not read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Paths are relative to `root`, with slashes. Links that leave `bounds`, and paths that do, are as if absent."""

    root: Path
    bounds: Path

    def real(self, path: str) -> Path | None:
        """The path of a file, whether it exists or not; None if it leads out of the bounds."""
        joined = Path(os.path.normpath(self.root / path))
        return joined if joined.is_relative_to(self.bounds) and "\0" not in path else None

    def read(self, path: str) -> str | None:
        """The text of a file; None for one that does not exist, cannot be read, is too large, or is outside."""
        content = self.read_bytes(path)
        return None if content is None else content.decode("utf-8", "replace").removeprefix("\ufeff")

    def read_bytes(self, path: str) -> bytes | None:
        real = self.real(path)
        if real is None:
            return None
        try:
            with os.fdopen(open_beneath(self.bounds, real), "rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            return None
        return content if len(content) <= MAX_BYTES else None

    def is_file(self, path: str) -> bool:
        real = self.real(path)
        return real is not None and os.path.isfile(real)  # noqa: PTH113 - Path.is_file fails for a long name

    def is_folder(self, path: str) -> bool:
        real = self.real(path)
        return real is not None and os.path.isdir(real)  # noqa: PTH112

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none for one that does not exist."""
        real = self.real(path)
        try:
            return sorted(entry.name for entry in real.iterdir()) if real is not None else []
        except OSError:
            return []


def below(path: str, folder: str) -> str | None:
    """A normalized path relative to a folder that it is in; None if it is not."""
    folder = posixpath.normpath(folder or ".")
    if folder == ".":
        return None if path.startswith("../") else path
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def split_name(path: str) -> tuple[str, str, str]:
    """Folder with a slash at its end ("" for none), stem and suffix of a path."""
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    return (folder + "/" if folder else ""), stem, suffix.lower()


PAGES = frozenset({".md", ".markdown", ".mdown", ".mkdn", ".mkd", ".mdx", ".qmd", ".rst", ".adoc", ".ipynb"})
"""Suffixes of files that generators make pages of; others they copy."""


@dataclass(frozen=True, slots=True)
class PagePlace:
    """`address` is relative to the site's home, without a slash at its beginning; "" is the home page.

    A file with a `reason` is not a page of the site: a template, a part of other pages, an excluded file. With a
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
class SiteFile:
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
    place: Callable[[SiteFile], PagePlace | None]
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


def left_out(reason: str) -> PagePlace:
    """The place of a file that is not a page."""
    return PagePlace(reason=reason)


def github_slug(text: str) -> str:
    """As github-slugger, which Astro and others use: lower case, letters and digits, a hyphen for each space."""
    letters = (letter for letter in text.lower() if letter in "-_ " or unicodedata.category(letter)[0] in "LMN")
    return "".join(letters).replace(" ", "-")


def jekyll_slug(text: str, *, pretty: bool = False) -> str:
    """As Jekyll: runs of other characters become one hyphen. A pretty one keeps case and some signs."""
    others = r"[^\w.~!$&'()+,;=@]+" if pretty else r"[^\w]+"
    hyphenated = re.sub(others, "-", text if pretty else text.replace("_", "-")).strip("-")
    return hyphenated if pretty else hyphenated.lower()


def hugo_path(path: str, *, lower: bool = True) -> str:
    """As Hugo since 0.123 writes paths of files: a hyphen for each space, letters, digits and a few signs."""
    letters = (
        letter
        for letter in path.replace(" ", "-")
        if letter in "./\\_#+~-@" or unicodedata.category(letter)[0] in "LMN"
    )
    return "".join(letters).lower() if lower else "".join(letters)


def hugo_slug(text: str, *, lower: bool = True) -> str:
    """As Hugo writes titles and slugs: one hyphen for spaces and hyphens beside each other, whatever is between."""
    words = (hugo_path(word, lower=lower) for word in re.split(r"[\s-]+", text))
    return "-".join(filter(None, words))


_SPELLED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "Ss", "&": " and "}
)


def eleventy_slug(text: str) -> str | None:
    """As the filter `slugify` of Eleventy: plain letters, hyphens between words; None for letters of other scripts."""
    spelled = re.sub(r"(\w)['’]([ts])(?=\s|$)", r"\1\2", text.translate(_SPELLED))
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", spelled) if not unicodedata.combining(letter))
    if any(letter.isalpha() and not letter.isascii() for letter in plain):
        return None
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
