"""Hugo: a folder for each file below `content`, leaf bundles, languages, and permalinks of sections."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aidre.engine.model import Json
from aidre.ingest.records import read_date
from aidre.ingest.sites.settings.data import get_table, get_text, read_json, read_toml, read_yaml
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    hugo_path,
    hugo_slug,
    left_out,
    split_name,
    to_order,
)

_NAMES = tuple(f"{name}.{suffix}" for name in ("hugo", "config") for suffix in ("toml", "yaml", "yml", "json"))
FILES = (*_NAMES, *(f"config/_default/{name}" for name in _NAMES))
_SETTINGS = frozenset({"baseurl", "theme", "languagecode", "title", "params", "module", "permalinks", "contentdir",
                       "markup", "taxonomies", "menu", "menus"})  # fmt: skip
_PAGES = (".md", ".markdown", ".mdown", ".html", ".htm", ".adoc", ".rst", ".org")
_NO_CONTENT = frozenset({"layouts", "themes", "archetypes", "data", "i18n", "assets", "config"})
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})-(.+)")
_TOKEN = re.compile(r":([a-z]+)(?:\[[^\]]*\])?")


def load(folder: Folder, name: str) -> Generator | None:
    settings = _lower(_read(folder, name))
    inner = posixpath.dirname(name)
    for suffix in ("toml", "yaml", "yml", "json") if inner else ():
        for table in ("permalinks", "languages"):
            found = _lower(_read(folder, f"{inner}/{table}.{suffix}"))
            settings |= {table: found} if found else {}
    is_own = name.startswith("hugo.") or (not _SETTINGS.isdisjoint(settings) and folder.is_folder("content"))
    if not is_own:
        return None
    languages = get_table(settings, "languages")
    default = get_text(settings, "defaultcontentlanguage", "en")
    content = posixpath.normpath(get_text(settings, "contentdir", "content"))
    roots = {posixpath.normpath(get_text(language, "contentdir")): code for code, language in languages.items()
             if isinstance(language, dict) and get_text(language, "contentdir")}  # fmt: skip
    rules = _HugoRules(settings, {content: default} | roots, default, frozenset(languages))
    return Generator(
        "Hugo",
        rules.place,
        get_text(settings, "baseurl") or None,
        "guide/install" + (".html" if settings.get("uglyurls") is True else "/"),
        Includes(),
        (*roots, content),
        built=(posixpath.normpath(get_text(settings, "publishdir", "public")), "resources"),
    )


@dataclass(frozen=True, slots=True)
class _HugoPage:
    """A page by its front matter, its folder with a slash at the end, the stem of its file and its date."""

    matter: Mapping[str, Json]
    folder: str
    stem: str
    date: str | None

    @property
    def section(self) -> str:
        return self.folder.partition("/")[0]

    @property
    def name(self) -> str:
        return posixpath.basename(self.folder.rstrip("/")) if self.stem == "index" else self.stem

    @property
    def above(self) -> str:
        folder = self.folder.rstrip("/")
        return posixpath.dirname(folder) if self.stem == "index" else folder

    @property
    def slug(self) -> str | None:
        slug = self.matter.get("slug")
        return (str(slug) or None) if type(slug) in (str, int) else None

    def tokens(self) -> dict[str, str]:
        """What stands for the tokens of a permalink."""
        title = self.matter.get("title")
        title = title if type(title) is str and title else self.name
        plain = {"title": title, "slug": self.slug or title, "filename": self.name, "contentbasename": self.name,
                 "slugorfilename": self.slug or self.name, "slugorcontentbasename": self.slug or self.name}  # fmt: skip
        forms = {"year": "%Y", "month": "%m", "monthname": "%B", "day": "%d", "weekdayname": "%A", "yearday": "%-j"}
        moment = datetime.fromisoformat(self.date) if self.date else None
        dated = {token: moment.strftime(form) if moment else "" for token, form in forms.items()}
        parts = {token: value.replace("/", "-") for token, value in plain.items()}
        return {**dated, **parts, "section": self.section}


@dataclass(frozen=True, slots=True)
class _HugoRules:
    settings: Mapping[str, Any]
    roots: Mapping[str, str]
    default: str
    languages: frozenset[str]
    _bundles: dict[str, bool] = field(default_factory=dict)

    def place(self, source: SiteFile) -> PagePlace | None:
        root = max(
            (root_folder for root_folder in self.roots if below(source.path, root_folder)), key=len, default=None
        )
        if root is None:
            static = below(source.path, "static")
            if static is not None:
                return PagePlace(static)
            return left_out("no content of Hugo") if source.path.partition("/")[0] in _NO_CONTENT else None
        path = below(source.path, root) or ""
        if not path.endswith(_PAGES):
            return PagePlace(path)
        folder, stem, _ = split_name(path)
        stem, language = self._language(stem, self.roots[root])
        bundle = self._find_bundle(source.folder, root, folder)
        if bundle is not None and (bundle != folder or stem != "index"):
            return left_out("a part of another page of Hugo")
        return self._place_page(source, folder, stem, language)

    def _place_page(self, source: SiteFile, folder: str, stem: str, language: str) -> PagePlace:
        matter = {name.lower(): value for name, value in source.matter.items()}
        build = matter.get("_build", matter.get("build"))
        if matter.get("headless") is True or (isinstance(build, dict) and build.get("render") in ("never", False)):
            return left_out("not rendered by Hugo")
        weight = matter.get("weight")
        # A list that Hugo shows puts pages of weight 0, or without one, last.
        order = to_order(weight) or None
        date = _date_of(matter)
        dated = _DATED.fullmatch(stem) if ":filename" in repr(self.settings.get("frontmatter", "")) else None
        if dated is not None:
            date, matter = date or read_date(dated[1]), {"slug": dated[2]} | matter
        published = read_date(matter.get("publishdate")) or date
        since = None if self.settings.get("buildfuture") is True else published
        in_folder = language != self.default or self.settings.get("defaultcontentlanguageinsubdir") is True
        prefix = f"{language}/" if self.languages and in_folder else ""
        return PagePlace(prefix + self._address(_HugoPage(matter, folder, stem, date)), since=since, order=order)

    def _address(self, page: _HugoPage) -> str:
        url = page.matter.get("url")
        if type(url) is str and url:
            url = url.lstrip("/")
            return url if url.endswith("/") or posixpath.splitext(url)[1] else f"{url}/"
        end = ".html" if self.settings.get("uglyurls") is True else "/"
        lower = self.settings.get("disablepathtolower") is not True
        pattern = self._pattern(page.section)
        if page.stem == "_index":
            return hugo_path(page.folder, lower=lower)
        if pattern is not None and page.folder:
            tokens = {name: hugo_slug(value, lower=lower) for name, value in page.tokens().items()}
            tokens["sections"] = hugo_path(page.above, lower=lower)
            path = re.sub(r"/{2,}", "/", _TOKEN.sub(lambda match: tokens.get(match[1], ""), pattern)).strip("/")
        else:
            name = hugo_slug(page.slug, lower=lower) if page.slug else hugo_path(page.name, lower=lower)
            path = posixpath.join(hugo_path(page.above, lower=lower), name)
        return path + end if path else ""

    def _pattern(self, section: str) -> str | None:
        permalinks = get_table(self.settings, "permalinks")
        pages = permalinks.get("page")
        for table in (pages if isinstance(pages, dict) else {}, permalinks):
            found = table.get(section) or table.get(section or "/")
            if isinstance(found, str):
                return found
        return None

    def _find_bundle(self, folder: Folder, root: str, inner: str) -> str | None:
        """The folder of the leaf bundle that a folder is or is in; None if it is in none."""
        parts = inner.rstrip("/").split("/") if inner else []
        above = ("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))
        return next(
            (candidate for candidate in above if self._is_bundle(folder, posixpath.join(root, candidate))), None
        )

    def _is_bundle(self, folder: Folder, path: str) -> bool:
        if path not in self._bundles:
            names = (name for name in folder.names(path) if name.startswith("index.") and name.endswith(_PAGES))
            self._bundles[path] = any(folder.is_file(path + name) for name in names)
        return self._bundles[path]

    def _language(self, stem: str, default: str) -> tuple[str, str]:
        """The name of a file without the language that it ends with, and the language."""
        name, dot, code = stem.rpartition(".")
        if dot and code.lower() in self.languages:
            return name, code.lower()
        return stem, default


def _date_of(matter: Mapping[str, Json]) -> str | None:
    for name in ("date", "updated_at", "publishdate"):
        date = read_date(matter.get(name))
        if date is not None:
            return date
    return None


def _read(folder: Folder, name: str) -> dict[str, Any]:
    text = folder.read(name)
    if name.endswith(".toml"):
        return read_toml(text)
    loaded = read_json(text) if name.endswith(".json") else read_yaml(text)
    return loaded if isinstance(loaded, dict) else {}


def _lower(settings: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The settings with names in lower case: Hugo does not tell them apart."""
    return {
        str(name).lower(): _lower(value, depth + 1) if isinstance(value, dict) and depth < 5 else value
        for name, value in settings.items()
    }
