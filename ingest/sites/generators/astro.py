"""Astro: files of `src/pages`, documents of Starlight, and collections that a dynamic route shows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from aidre.ingest.sites.settings.data import get_text
from aidre.ingest.sites.settings.literals import COMPUTED, read_exported
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    github_slug,
    left_out,
    split_name,
    to_order,
)

FILES = tuple(f"astro.config.{suffix}" for suffix in ("mjs", "ts", "mts", "js", "cjs"))
_PAGES = (".md", ".mdx", ".html", ".astro", ".markdown", ".mdown", ".mkdn", ".mkd", ".mdwn")
_ROUTE = re.compile(r"\[(?:\.\.\.)?\w+\]\.astro")
_COLLECTION = re.compile(r"getCollection\(\s*[\"'](\w[\w-]*)[\"']")
_DEFINED = re.compile(r"(?=\b\w{1,80}\s{0,9}[:=]\s{0,9}defineCollection\()")
_BASE = re.compile(r"\bbase\s{0,9}:\s{0,9}[\"'`]([^\"'`]{1,200})[\"'`]")
_DECISIVE = ("srcDir", "build", "trailingSlash")
_NEAR = 2000
"""Characters of the definition of a collection in which its folder is sought."""

_MAX_FOLDERS = 500


def load(folder: Folder, name: str) -> Generator | None:
    text = folder.read(name) or ""
    exported = read_exported(text)
    settings = exported or {}
    source = posixpath.normpath(get_text(settings, "srcDir", "src"))
    build = settings.get("build")
    form = get_text(build, "format", "directory") if isinstance(build, dict) else "directory"
    bases = _bases(folder, source)
    routes = _routes(folder, posixpath.join(source, "pages"))
    if re.search(r"[\"']@astrojs/starlight[\"']", text):
        routes["docs"] = ""
    site, base = get_text(settings, "site").rstrip("/"), get_text(settings, "base").strip("/")
    end = ".html" if form == "file" else "" if settings.get("trailingSlash") == "never" else "/"
    return Generator(
        "Astro",
        _AstroRules(source, end, routes, bases).place,
        f"{site}/{base}" if site and settings.get("base") is not COMPUTED else None,
        f"guide/install{end}",
        Includes(("component",), (source, ".")),
        (posixpath.join(source, "pages"), posixpath.join(source, "content/docs")),
        computed=tuple(option for option in _DECISIVE if exported is None or settings.get(option) is COMPUTED),
        built=("node_modules", posixpath.normpath(get_text(settings, "outDir", "dist"))),
    )


@dataclass(frozen=True, slots=True)
class _AstroRules:
    """`routes` are the beginnings of addresses by the name of a collection, `bases` the folders of some."""

    source: str
    end: str
    routes: Mapping[str, str]
    bases: Mapping[str, str]

    def place(self, source: SiteFile) -> PagePlace | None:
        public = below(source.path, "public")
        if public is not None:
            return PagePlace(public)
        path = below(source.path, posixpath.join(self.source, "pages"))
        if path is not None:
            return self._place_page(path, source)
        for name, base in self.bases.items():
            path = below(source.path, base)
            if path is not None:
                return self._place_entry(name, path, source)
        path = below(source.path, posixpath.join(self.source, "content"))
        if path is not None and "/" in path:
            collection, _, inner = path.partition("/")
            return self._place_entry(collection, inner, source)
        return None

    def _place_page(self, path: str, source: SiteFile) -> PagePlace:
        if any(part.startswith("_") for part in path.split("/")) or "[" in path:
            return left_out("no page of Astro")
        if not path.endswith(_PAGES):
            return PagePlace()
        folder, stem, _ = split_name(path)
        return PagePlace(
            self._address(folder.strip("/") if stem == "index" else f"{folder}{stem}"), draft=_draft(source)
        )

    def _place_entry(self, collection: str, path: str, source: SiteFile) -> PagePlace:
        if not path.endswith(_PAGES):
            return PagePlace()
        if posixpath.basename(path).startswith("_"):
            return left_out("a part of other pages")
        route = self.routes.get(collection)
        if route is None:
            return PagePlace()
        slug = source.text("slug")
        if slug is None:
            parts = posixpath.splitext(path)[0].split("/")
            slug = re.sub(r"(^|/)index$", "", "/".join(map(github_slug, parts)))
        sidebar = source.matter.get("sidebar")
        order = sidebar.get("order") if isinstance(sidebar, dict) else None
        return PagePlace(
            self._address(posixpath.join(route, slug.strip("/")).strip("/")),
            draft=_draft(source),
            order=to_order(order),
        )

    def _address(self, path: str) -> str:
        if not path:
            return ""
        return path + (".html" if path == "404" else self.end)


def _draft(source: SiteFile) -> str | None:
    return "draft: true" if source.matter.get("draft") is True else None


def _bases(folder: Folder, source: str) -> dict[str, str]:
    """The folders that the configuration of content gives collections."""
    files = (
        f"{source}/{name}.{suffix}" for name in ("content.config", "content/config") for suffix in ("ts", "js", "mjs")
    )
    text = next(filter(None, map(folder.read, files)), "")
    found: dict[str, str] = {}
    for part in _DEFINED.split(text)[1:]:
        base = _BASE.search(part.partition("defineCollection(")[2][:_NEAR].partition("defineCollection(")[0])
        named = re.match(r"\w+", part)
        if named is not None and base is not None:
            found[named[0]] = posixpath.normpath(base[1])
    return found


def _routes(folder: Folder, pages: str) -> dict[str, str]:
    """The collections that dynamic routes show, with the beginning of the addresses."""
    found: dict[str, str] = {}
    pending = [""]
    for _ in range(_MAX_FOLDERS):
        if not pending:
            break
        inner = pending.pop()
        for name in folder.names(posixpath.join(pages, inner)):
            path = posixpath.join(inner, name)
            if _ROUTE.fullmatch(name):
                for collection in _COLLECTION.findall(folder.read(posixpath.join(pages, path)) or ""):
                    found.setdefault(collection, inner)
            elif folder.is_folder(posixpath.join(pages, path)) and not name.startswith(("_", "[")):
                pending.append(path)
    return found
