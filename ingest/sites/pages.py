"""The sites of a source: which generator each file belongs to, and the page that it becomes.

The notes of a folder by their names, as wikilinks call them.

Finds the configuration files of generators in a folder, and in the folders that it is in.

A folder of pages often is a part of a repository whose configuration is above it, or in `website` beside it. Folders
above are looked at up to the one that holds `.git`, a few at most; they only say which addresses pages have.
"""

from __future__ import annotations

import os
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from aidre.engine.model import Json
from aidre.ingest.formats import read_front_matter
from aidre.ingest.records import File, LeftOut, Rejected, escape_unprintable, read_publication
from aidre.ingest.sites.generators import (
    antora,
    astro,
    docusaurus,
    eleventy,
    hugo,
    jekyll,
    mkdocs,
    obsidian,
    quarto,
    sphinx,
    vitepress,
)
from aidre.ingest.sites.includes import Expansion
from aidre.ingest.sites.links import UrlStyle, rewrite_links, split_target, styled
from aidre.ingest.sites.settings.place import PAGES, Folder, Generator, PagePlace, SiteFile, below, left_out

_MAX_FOLDERS = 20_000
_MAX_DEPTH = 8
_MAX_ABOVE = 4
_MAX_SITES = 200
_BESIDE = ("website", "site", "docs")
"""Folders beside that of the pages in which some projects keep the configuration."""

_NEVER = frozenset({"node_modules", "__pycache__", "venv", "vendor"})

GENERATORS: Final[Mapping[str, Callable[[Folder, str], Generator | None]]] = {
    name: module.load
    for module in (mkdocs, docusaurus, vitepress, astro, eleventy, antora, quarto, hugo, jekyll, sphinx, obsidian)
    for name in module.FILES
}
"""By the name of a configuration file: a function from its folder and that name to the generator; None for a file of
another program. Where a folder has several, the first of this order counts."""


class Recognised(NamedTuple):
    """A generator with the folder of its configuration. `config` is the file's name, relative to the source."""

    generator: Generator
    folder: Folder
    config: str


def recognise(root: Path, *, deep: bool = True) -> list[Recognised]:
    """The sites of a folder: inside first, the deepest first, then those above it, the nearest first.

    Without `deep` the folders inside are not looked at.
    """
    inside = sorted(_inside(root, _MAX_DEPTH if deep else 0), key=lambda site: -len(site.folder.root.parts))
    return [*inside, *_above(root)]


def _inside(root: Path, max_depth: int) -> Iterator[Recognised]:
    pending = [(root, 0)]
    seen = found = 0
    top = _top(root)
    while pending and seen < _MAX_FOLDERS and found < _MAX_SITES:
        folder, depth = pending.pop()
        seen += 1
        try:
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        site = _load(Folder(folder, top), names, root)
        if site is not None:
            found += 1
            yield site
        if depth < max_depth:
            inner = (name for name, is_folder in names.items() if is_folder and name not in _NEVER)
            pending += [(folder / name, depth + 1) for name in inner if not name.startswith((".", "~$"))]


def _top(root: Path) -> Path:
    """The folder with `.git` that a folder is in, if it is near: parts of a configuration may be there; else itself."""
    return next((parent for parent in (root, *list(root.parents)[:_MAX_ABOVE]) if _is_top(parent)), root)


def _is_top(folder: Path) -> bool:
    return os.path.exists(folder / ".git")  # noqa: PTH110 - Path.exists fails where a folder may not be looked into


def _above(root: Path) -> Iterator[Recognised]:
    here = root
    for folder in list(root.parents)[:_MAX_ABOVE]:
        if _is_top(here):
            return
        for candidate in (folder, *(folder / name for name in _BESIDE)):
            if candidate != here and os.path.isdir(candidate) and not os.path.islink(candidate):  # noqa: PTH112, PTH114
                site = _load(Folder(candidate, folder), dict.fromkeys(_names(candidate), True), root)
                if site is not None:
                    yield site
        here = folder


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _load(folder: Folder, names: dict[str, bool], root: Path) -> Recognised | None:
    """The generator of one folder, by the first configuration file that it has."""
    for file, load in GENERATORS.items():
        if file.partition("/")[0] in names and (folder.is_file(file) or folder.is_folder(file)):
            generator = load(folder, file)
            if generator is not None:
                return Recognised(generator, folder, _name(folder.root / file, root))
    return None


def _name(file: Path, root: Path) -> str:
    return escape_unprintable(os.path.relpath(file, root))


_NOTES = (".md", ".mdx", ".qmd", ".markdown")
_MAX_FILES = 200_000


class NoteNames:
    """Files below a folder. A name without a folder means the note with the shortest path."""

    def __init__(self, root: Path) -> None:
        self._by_path: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        count = 0
        for top, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            prefix = os.path.relpath(top, root).replace(os.sep, "/")
            for name in sorted(files):
                stem, suffix = posixpath.splitext(name)
                if suffix.lower() not in _NOTES:
                    continue
                path = name if prefix == "." else f"{prefix}/{name}"
                self._by_path.setdefault(path.lower()[: -len(suffix)], path)
                self._by_name[stem.lower()].append(path)
            count += len(files)
            if count > _MAX_FILES:
                break

    def find(self, name: str, beside: str = "") -> str | None:
        """The path of a note that a page in the folder `beside` calls by that name, or path."""
        name = name.strip().strip("/").lower()
        for suffix in _NOTES:
            name = name.removesuffix(suffix)
        if not name:
            return None
        relative = posixpath.normpath(posixpath.join(beside.lower(), name))
        for path in (relative, name) if name.startswith(".") else (name, relative):
            if path in self._by_path:
                return self._by_path[path]
        last = name.rpartition("/")[2]
        candidates = [path for path in self._by_name.get(last, ()) if _ends_with(path, name)]
        return min(candidates, key=lambda path: (path.count("/"), path), default=None)


def _ends_with(path: str, name: str) -> bool:
    stem = posixpath.splitext(path.lower())[0]
    return stem == name or stem.endswith("/" + name)


_SAFE = "/~@!$&*+,;=:-._"
"""Characters that stay in the path of an address."""

_MATTERED = frozenset({".md", ".markdown", ".mdown", ".mkdn", ".mkd", ".mdx", ".qmd", ".html", ".htm"})
"""Suffixes of files that may have a front matter."""

_MARKUP = frozenset({".rst", ".rest", ".adoc", ".asciidoc"})
_GUESSED = ("", ".md", ".mdx", ".qmd", "/index.md", "/index.mdx", "/README.md")
"""What a link to a page leaves out."""

NO_PLACE = PagePlace()
_INDEXES = ("index.md", "_index.md", "README.md", "index.mdx", "index.qmd")


class Sites:
    """The sites of one source, as its configuration files describe them. `style` overrides the form of addresses.

    `url_base` is the address of the home page of the site, or of the source's folder where there is no site.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        url_base: str | None = None,
        style: UrlStyle = "auto",
        *,
        deep: bool = True,
        as_of: datetime | None = None,
    ) -> None:
        self.root, self.name, self.url_base, self.style = root, name, url_base, style
        self.as_of = as_of
        recognised = (_RecognisedSite(self, found) for found in recognise(root, deep=deep))
        self._sites = [site for site in recognised if not site.has_built(".")]
        self._places: dict[str, tuple[_RecognisedSite, PagePlace] | None] = {}
        self._folders: dict[str, float] = {}
        self._links: dict[str, str | None] = {}
        self._notes: NoteNames | None = None

    def notices(self) -> Iterator[str]:
        """What is to be known of each site: what it was recognised by, and what its addresses look like."""
        for site in self._sites:
            if site.pages:
                yield f"{self.name}: {site.describe(self.style)}"
                yield from (f"{self.name}: {note}" for note in site.generator.notes)

    def page(self, file: File) -> RecognisedPage:
        """The page of a file of the source."""
        return RecognisedPage.of(self, file.origin)

    def url_of(self, origin: str) -> str | None:
        """The address of a file; None if it has none, or the home page's is not known."""
        found = self.find(origin)
        # A site above the source has other files than these; one inside has files that are not pages.
        is_plain = found is None and all(site.is_above for site in self._sites)
        if self.style != "auto" or is_plain:
            path = quote(os.fsencode(styled(origin, self.style)))
            return None if self.url_base is None else f"{self.url_base}/{path}"
        if found is None or found[1].address is None or found[0].generator.computed:
            return None
        home = self.url_base or found[0].home
        return None if home is None else f"{home.rstrip('/')}/{quote(os.fsencode(found[1].address), _SAFE)}"

    def in_order(self, files: Iterator[File | Rejected]) -> Iterator[File | Rejected]:
        """The files in the order of their sites: that of the navigation, else that of each folder."""
        return iter(sorted(files, key=self._order)) if self._sites else files

    def _order(self, found: File | Rejected) -> tuple[float, list[tuple[float, str]]]:
        parts = found.origin.split("/")
        place = self._place_of(found.origin)
        folders = ("/".join(parts[: depth + 1]) for depth in range(len(parts) - 1))
        orders = [*map(self._folder_order, folders), _or_last(place.order)]
        return _or_last(place.rank), list(zip(orders, parts, strict=True))

    def _folder_order(self, folder: str) -> float:
        """The order of a folder is that of the page that stands for it."""
        if folder not in self._folders:
            pages = (self._place_of(f"{folder}/{name}") for name in _INDEXES if self.exists(f"{folder}/{name}"))
            self._folders[folder] = min((_or_last(place.order) for place in pages), default=inf)
        return self._folders[folder]

    def _place_of(self, origin: str) -> PagePlace:
        found = self.find(origin)
        return found[1] if found else NO_PLACE

    def link_to(self, origin: str) -> str | None:
        """The address of a file that a page links to; None if it has none, or is not published."""
        if origin not in self._links:
            page = RecognisedPage.of(self, origin)
            is_left_out = page.left_out(self.as_of) is not None or (
                self.as_of is not None and read_publication(self.matter(origin) or {}, self.as_of).reason is not None
            )
            self._links[origin] = None if is_left_out else page.url
        return self._links[origin]

    def note(self, name: str, origin: str) -> str | None:
        """The file that a wikilink on a page means."""
        if self._notes is None:
            self._notes = NoteNames(self.root)
        return self._notes.find(name, posixpath.dirname(origin))

    def exists(self, origin: str) -> bool:
        # Path.is_file fails for a name that is too long.
        return not origin.startswith("../") and os.path.isfile(self.root / origin)  # noqa: PTH113

    def find(self, origin: str) -> tuple[_RecognisedSite, PagePlace] | None:
        """The nearest site that has a place for a file, and the place."""
        if origin not in self._places:
            placed = ((site, site.place(origin)) for site in self._sites)
            found = next(((site, place) for site, place in placed if place is not None), None)
            if found is not None:
                found[0].pages += posixpath.splitext(origin)[1].lower() in PAGES
            self._places[origin] = found
        return self._places[origin]

    def matter(self, origin: str) -> dict[str, Json] | None:
        """The front matter of a file of the source."""
        if origin.startswith("../") or posixpath.splitext(origin)[1].lower() not in _MATTERED:
            return None
        return read_front_matter(File(self.root / origin, self.name, origin, within=self.root))


class _RecognisedSite:
    """A recognised site. `pages` counts the files that it was asked about and that are pages."""

    def __init__(self, sites: Sites, found: Recognised) -> None:
        self._sites, self.generator = sites, found.generator
        self.config, self.folder, self.home = found.config, found.folder, _read_home(found.generator.home)
        self.inside = Folder(found.folder.root, sites.root)
        self.is_above = not found.folder.root.is_relative_to(sites.root)
        self.pages = 0

    def path_of(self, origin: str) -> str:
        """The path of a file of the source, relative to the folder of the configuration."""
        return posixpath.relpath(posixpath.join(self._sites.root.as_posix(), origin), self.folder.root.as_posix())

    def origin_of(self, path: str) -> str:
        """The reverse of `path_of`: outside of the source it begins with "../"."""
        return posixpath.relpath(posixpath.join(self.folder.root.as_posix(), path), self._sites.root.as_posix())

    def has_built(self, origin: str) -> bool:
        """Whether a file, or the source itself, is in a folder that the generator writes."""
        path = self.path_of(origin)
        return any(path == folder or below(path, folder) is not None for folder in self.generator.built)

    def place(self, origin: str) -> PagePlace | None:
        path = self.path_of(origin)
        if self.has_built(origin):
            return left_out(f"built by {self.generator.name}, or code")
        matter: list[dict[str, Json] | None] = []

        def read_matter() -> dict[str, Json] | None:
            if not matter:
                matter.append(self._sites.matter(origin))
            return matter[0]

        return self.generator.place(SiteFile(path, self.folder, read_matter))

    def describe(self, style: UrlStyle) -> str:
        named = f"a site of {self.generator.name} ({self.config})"
        if style != "auto":
            return f"{named}: addresses are of the style {style}"
        home = self._sites.url_base or self.home
        if self.generator.computed:
            names = ", ".join(self.generator.computed)
            return f"{named}: pages have no address, because a program computes {names}: --url-style gives them one"
        if home is None:
            return f"{named}: pages have no address, because it does not say where the site is: --url-base says it"
        return f"{named}: pages have addresses as {home.rstrip('/')}/{self.generator.form}"


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """A file as a page of a site; without a site, of a folder of texts."""

    _sites: Sites
    _origin: str
    _site: _RecognisedSite | None
    _place: PagePlace

    @classmethod
    def of(cls, sites: Sites, origin: str) -> RecognisedPage:
        found = sites.find(origin)
        return cls(sites, origin, found[0] if found else None, found[1] if found else NO_PLACE)

    @property
    def url(self) -> str | None:
        return self._sites.url_of(self._origin)

    def left_out(self, as_of: datetime | None) -> LeftOut | None:
        """See `SitePage`."""
        place = self._place
        reason = place.reason or (None if as_of is None else place.draft)
        if reason is not None:
            return LeftOut(reason)
        if as_of is not None and place.since is not None and datetime.fromisoformat(place.since) > as_of:
            return LeftOut(f"date {place.since} is ahead", place.since)
        return None

    def expand(self, text: str) -> str:
        """See `SitePage`."""
        site = self._site
        if site is None:
            if "[[" not in text:
                return text
            return rewrite_links(
                text, find=lambda _: None, find_reference=lambda _: None, find_note=self._note_url, keeps_unknown=True
            )
        includes = site.generator.includes
        text = Expansion(includes.forms, self._read).expand(text, self._path)
        return rewrite_links(
            text,
            find=self._link_url,
            find_reference=self._reference_url,
            find_note=self._note_url,
            keeps_unknown=not site.generator.wikilinks,
        )

    def with_includes(self, content: bytes) -> bytes:
        """See `SitePage`."""
        site = self._site
        if site is None or posixpath.splitext(self._origin)[1].lower() not in _MARKUP:
            return content
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        return Expansion(site.generator.includes.forms, self._read).expand(text, self._path).encode()

    def include(self, target: str) -> str | None:
        """See `SitePage`."""
        found = self._read(self._path, target)
        return None if found is None else found[1]

    @property
    def _path(self) -> str:
        """The path relative to the folder of the configuration."""
        return self._site.path_of(self._origin) if self._site else self._origin

    def _read(self, path: str, target: str) -> tuple[str, str] | None:
        """A file that the page at `path` includes, beneath the source alone: its path and text."""
        site = self._site
        if site is None:
            return None
        includes = site.generator.includes
        target = _to_path(path, target) if "$" in target else target
        named = target.removeprefix("@site/").removeprefix("@/").lstrip("/")
        is_rooted = named != target
        bases = [*([posixpath.dirname(path)] if includes.beside and not is_rooted else []), *includes.bases, "."]
        for base in dict.fromkeys(bases):
            candidate = posixpath.normpath(posixpath.join(base, named))
            if site.inside.is_file(candidate):
                text = site.inside.read(candidate)
                return None if text is None else (candidate, text)
        return None

    def _link_url(self, target: str) -> str | None:
        """The address of the page that a link to a file leads to."""
        path, rest = split_target(target)
        named = path.removeprefix("@site/").removeprefix("~/").lstrip("/")
        bases = [posixpath.dirname(self._origin)] if named == path else self._roots()
        return self._first_url((posixpath.join(base, named) for base in bases), rest) if named else None

    def _reference_url(self, target: str) -> str | None:
        """The address that a generator's own reference to a file leads to: `ref` of Hugo, `post_url` of Jekyll."""
        path, rest = split_target(target)
        named = path.lstrip("/")
        bases = [*self._roots(), posixpath.dirname(self._origin)]
        places = (posixpath.join(base, posts, named) for base in bases for posts in ("", "_posts"))
        return self._first_url(places, rest) if named else None

    def _roots(self) -> list[str]:
        """The folders of the source that paths with a slash in front begin in."""
        return [self._site.origin_of(base) for base in (*self._site.generator.roots, ".")] if self._site else ["."]

    def _first_url(self, paths: Iterable[str], rest: str) -> str | None:
        """The address of the first file that is there, with the rest of the target."""
        for path in paths:
            joined = posixpath.normpath(path)
            is_whole = posixpath.splitext(joined)[1].lower() in PAGES
            for origin in (joined,) if is_whole else (joined + suffix for suffix in _GUESSED):
                if posixpath.splitext(origin)[1].lower() in PAGES and self._sites.exists(origin):
                    url = self._sites.link_to(origin)
                    return None if url is None else url + rest
        return None

    def _note_url(self, name: str) -> str | None:
        origin = self._sites.note(name, self._origin)
        return None if origin is None else self._sites.link_to(origin) or ""


def _to_path(path: str, target: str) -> str:
    """The path of a resource of Antora: `module:partial$file` is one in the folder `partials` of that module."""
    names, _, file = target.partition("$")
    module, _, family = names.rpartition(":")
    own = path.split("/")[1] if path.startswith("modules/") else "ROOT"
    return f"/modules/{module.rpartition(':')[2] or own}/{family}s/{file}"


def _or_last(order: float | None) -> float:
    return inf if order is None else order


def _read_home(home: str | None) -> str | None:
    """The address of a home page, if it is one on the web."""
    is_address = home is not None and home.startswith(("http://", "https://")) and not home.isspace()
    return home if is_address and home is not None and home.isprintable() and " " not in home else None
