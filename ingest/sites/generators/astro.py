"""Astro: files of `src/pages`, documents of Starlight, and collections that a dynamic route shows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from aidre.ingest.sites.configuration import get_text
from aidre.ingest.sites.folder import Folder, below, split_name
from aidre.ingest.sites.literals import read_exported
from aidre.ingest.sites.place import Generator, Includes, Place, Source, left_out
from aidre.ingest.sites.slugs import github_slug

FILES = tuple(f"astro.config.{suffix}" for suffix in ("mjs", "ts", "mts", "js", "cjs"))
_PAGES = (".md", ".mdx", ".html", ".astro", ".markdown", ".mdown", ".mkdn", ".mkd", ".mdwn")
_ROUTE = re.compile(r"\[(?:\.\.\.)?\w+\]\.astro")
_COLLECTION = re.compile(r"getCollection\(\s*[\"'](\w[\w-]*)[\"']")
_MAX_FOLDERS = 500


def load(folder: Folder, name: str) -> Generator | None:
    text = folder.read(name) or ""
    settings = read_exported(text)
    source = posixpath.normpath(get_text(settings, "srcDir", "src"))
    build = settings.get("build")
    form = get_text(build, "format", "directory") if isinstance(build, dict) else "directory"
    routes = _routes(folder, posixpath.join(source, "pages"))
    if re.search(r"[\"']@astrojs/starlight[\"']", text):
        routes["docs"] = ""
    site, base = get_text(settings, "site").rstrip("/"), get_text(settings, "base").strip("/")
    end = ".html" if form == "file" else "" if settings.get("trailingSlash") == "never" else "/"
    return Generator(
        "Astro",
        _Rules(source, end, routes).place,
        f"{site}/{base}" if site else None,
        f"guide/install{end}",
        Includes(("component",), (source, ".")),
        (posixpath.join(source, "pages"), posixpath.join(source, "content/docs")),
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    """`routes` are the beginnings of addresses by the name of a collection."""

    source: str
    end: str
    routes: Mapping[str, str]

    def place(self, source: Source) -> Place | None:
        public = below(source.path, "public")
        if public is not None:
            return Place(public)
        path = below(source.path, posixpath.join(self.source, "pages"))
        if path is not None:
            return self._place_page(path, source)
        path = below(source.path, posixpath.join(self.source, "content"))
        if path is not None and "/" in path:
            return self._place_entry(*path.split("/", 1), source)
        if source.path.partition("/")[0] in ("dist", "node_modules"):
            return left_out("built by Astro, or code")
        return None

    def _place_page(self, path: str, source: Source) -> Place:
        if any(part.startswith("_") for part in path.split("/")) or "[" in path:
            return left_out("no page of Astro")
        if not path.endswith(_PAGES):
            return Place()
        folder, stem, _ = split_name(path)
        return Place(self._address(folder.strip("/") if stem == "index" else f"{folder}{stem}"), draft=_draft(source))

    def _place_entry(self, collection: str, path: str, source: Source) -> Place:
        if not path.endswith(_PAGES):
            return Place()
        if posixpath.basename(path).startswith("_"):
            return left_out("a part of other pages")
        route = self.routes.get(collection)
        if route is None:
            return Place()
        slug = source.text("slug")
        if slug is None:
            parts = posixpath.splitext(path)[0].split("/")
            slug = re.sub(r"(^|/)index$", "", "/".join(map(github_slug, parts)))
        sidebar = source.matter.get("sidebar")
        order = sidebar.get("order") if isinstance(sidebar, dict) else None
        return Place(
            self._address(posixpath.join(route, slug.strip("/")).strip("/")),
            draft=_draft(source),
            order=float(order) if type(order) in (int, float) else None,
        )

    def _address(self, path: str) -> str:
        if not path:
            return ""
        return path + (".html" if path == "404" else self.end)


def _draft(source: Source) -> str | None:
    return "draft: true" if source.matter.get("draft") is True else None


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
