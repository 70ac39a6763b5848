"""Docusaurus: documents, blog posts and pages of the classic preset and of plugins, with versions and translations."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from aidre.ingest.sites.settings.data import get_text, get_texts, read_json
from aidre.ingest.sites.settings.globs import matches
from aidre.ingest.sites.settings.literals import COMPUTED, read_exported
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    left_out,
    split_name,
    to_order,
)

FILES = tuple(f"docusaurus.config.{suffix}" for suffix in ("js", "ts", "mjs", "cjs", "mts", "cts"))
_EXCLUDED = ("**/_*.{js,jsx,ts,tsx,md,mdx}", "**/_*/**", "**/*.test.{js,jsx,ts,tsx}", "**/__tests__/**")
_KINDS = {"docs": "docs", "blog": "blog", "pages": "pages", "plugin-content-docs": "docs",
          "plugin-content-blog": "blog", "plugin-content-pages": "pages"}  # fmt: skip
_DEFAULTS: Final = {"docs": ("docs", "docs"), "blog": ("blog", "blog"), "pages": ("src/pages", "/")}
"""The folder and the beginning of addresses of each kind."""

_DECISIVE = ("path", "routeBasePath", "numberPrefixParser", "lastVersion", "versions", "include", "exclude")
"""Options that decide on addresses."""

_NO_PREFIX = re.compile(r"\d+[-_.]\d+")
_PREFIX = re.compile(r"(\d+)\s*[-_.]+\s*([^-_.\s].*)")
_POST = re.compile(r"(?P<folder>.*)(?P<date>\d{4}[-/]\d{1,2}[-/]\d{1,2})[-/]?(?P<text>.*?)(?:/index)?\.mdx?")
_OTHERS = ("build", "node_modules", ".docusaurus")


def load(folder: Folder, name: str) -> Generator | None:
    settings = read_exported(folder.read(name))
    if settings is None:
        return Generator("Docusaurus", lambda _: None, computed=("the configuration",), built=_OTHERS)
    locales = settings.get("i18n")
    default = get_text(locales, "defaultLocale", "en") if isinstance(locales, dict) else "en"
    contents = tuple(content for plugin in _plugins(settings) for content in _contents(folder, plugin, default))
    slash = settings.get("trailingSlash")
    url, base = get_text(settings, "url").rstrip("/"), get_text(settings, "baseUrl")
    computed = [option for option in ("presets", "plugins", "trailingSlash") if settings.get(option) is COMPUTED]
    computed += [
        f"{kind}.{option}"
        for kind, options in _plugins(settings)
        for option in _DECISIVE
        if options.get(option) is COMPUTED
    ]
    return Generator(
        "Docusaurus",
        _DocusaurusRules(contents, slash if isinstance(slash, bool) else None).place,
        f"{url}/{base.strip('/')}" if url and base else None,
        _example(contents) + ("/" if slash is True else ""),
        Includes(("component",), (".",)),
        tuple(dict.fromkeys(content.path for content in contents)),
        computed=tuple(computed),
        built=_OTHERS,
    )


@dataclass(frozen=True, slots=True)
class _ContentFolder:
    """A folder of files of one kind. `base` is the beginning of addresses."""

    kind: str
    path: str
    base: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    prefixes: bool = True


def _example(contents: Sequence[_ContentFolder]) -> str:
    """What an address of a document of the newest version looks like."""
    bases = (
        content.base.strip("/")
        for content in contents
        if content.kind == "docs" and not content.path.startswith("i18n/")
    )
    return posixpath.join(min(bases, key=len, default=""), "guide/install")


@dataclass(frozen=True, slots=True)
class _DocusaurusRules:
    contents: tuple[_ContentFolder, ...]
    slash: bool | None

    def place(self, source: SiteFile) -> PagePlace | None:
        for content in self.contents:
            path = below(source.path, content.path)
            if path is not None:
                return self._place_in(content, path, source)
        static = below(source.path, "static")
        if static is not None:
            return PagePlace(static)
        return None

    def _place_in(self, content: _ContentFolder, path: str, source: SiteFile) -> PagePlace:
        if matches(path, content.exclude):
            return left_out("excluded by Docusaurus, as parts of other pages are")
        if not path.endswith((".md", ".mdx")):
            return PagePlace()
        match content.kind:
            case "docs":
                route = _document_route(path, content.prefixes, source)
            case "blog":
                route = source.text("slug") or _post_route(path)
            case _:
                route = source.text("slug") or _page_route(path)
        address = "/".join(filter(None, [content.base.strip("/"), *route.split("/")]))
        is_folder = self.slash is True or (self.slash is None and route.endswith("/"))
        draft = "unlisted: true" if source.matter.get("unlisted") is True else None
        order = source.matter.get("sidebar_position")
        if to_order(order) is None and content.prefixes:
            order = _split_prefix(posixpath.splitext(posixpath.basename(path))[0])[0]
        return PagePlace(
            f"{address}/" if address and is_folder else address,
            draft=draft,
            order=to_order(order),
        )


def _document_route(path: str, prefixes: bool, source: SiteFile) -> str:
    folder, stem, _ = split_name(path)
    names = folder.strip("/").split("/") if folder else []
    stripped = "/".join(_strip(name) for name in names) if prefixes else "/".join(names)
    base = f"/{stripped}/" if stripped else "/"
    slug = source.text("slug")
    if slug is not None and slug.startswith("/"):
        return slug
    if slug is None and stem.lower() in ("index", "readme", names[-1].lower() if names else ""):
        return base
    named = slug or source.text("id") or (_strip(stem) if prefixes else stem)
    return urljoin(base, named.replace("?", "%3F").replace("#", "%23"))


def _post_route(path: str) -> str:
    match = _POST.fullmatch(path)
    if match is None:
        return "/" + re.sub(r"(?:/index)?\.mdx?$", "", path)
    return f"/{match['date'].replace('-', '/')}/{match['folder']}{match['text']}"


def _page_route(path: str) -> str:
    folder, stem, _ = split_name(path)
    return f"/{folder}" if stem.lower() == "index" else f"/{folder}{stem}"


def _split_prefix(name: str) -> tuple[int | None, str]:
    match = None if _NO_PREFIX.match(name) else _PREFIX.fullmatch(name)
    return (int(match[1]), match[2]) if match else (None, name)


def _strip(name: str) -> str:
    return _split_prefix(name)[1]


def _plugins(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The kinds and the options of plugins that make pages; those of the classic preset without options, too."""
    presets = settings.get("presets")
    for preset in presets if isinstance(presets, list) else ():
        name, options = _named(preset)
        if name.endswith(("classic", "preset-classic")):
            for kind in ("docs", "blog", "pages"):
                own = options.get(kind, {})
                if own is COMPUTED:
                    yield kind, {"path": COMPUTED}
                elif own is not False:
                    yield kind, own if isinstance(own, dict) else {}
    plugins = settings.get("plugins")
    for plugin in plugins if isinstance(plugins, list) else ():
        name, options = _named(plugin)
        plugin_kind = _KINDS.get(name.rpartition("/")[2].removeprefix("docusaurus-"))
        if plugin_kind is not None:
            yield plugin_kind, options


def _named(entry: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the options of a plugin, which is a name or a list of both."""
    parts = entry if isinstance(entry, list) else [entry]
    name = parts[0] if parts and isinstance(parts[0], str) else ""
    options = parts[1] if len(parts) > 1 and isinstance(parts[1], dict) else {}
    return name, options


def _contents(folder: Folder, plugin: tuple[str, Mapping[str, Any]], default: str) -> Iterator[_ContentFolder]:
    """The folders of a plugin: the present version, older ones, and translations."""
    kind, options = plugin
    path, route = _DEFAULTS[kind]
    path = posixpath.normpath(get_text(options, "path", path))
    base = get_text(options, "routeBasePath", route).strip("/")
    identity = get_text(options, "id", "default")
    include = get_texts(options, "include")
    exclude = get_texts(options, "exclude") if "exclude" in options else _EXCLUDED
    prefixes = options.get("numberPrefixParser") is not False
    found = [(path, base)]
    if kind == "docs":
        found = list(_versions(folder, path, base, options, identity))
    translated = f"docusaurus-plugin-content-{kind}" + ("" if identity == "default" else f"-{identity}")
    for locale in folder.names("i18n"):
        begins = "" if locale == default else locale
        for own, address in found:
            version = ("current" if own == path else own.rpartition("/")[2]) if kind == "docs" else ""
            inner = posixpath.normpath(posixpath.join("i18n", locale, translated, version))
            if folder.is_folder(inner):
                yield _ContentFolder(kind, inner, posixpath.join(begins, address), include, exclude, prefixes)
    for own, address in found:
        yield _ContentFolder(kind, own, address, include, exclude, prefixes)


def _versions(
    folder: Folder, path: str, base: str, options: Mapping[str, Any], identity: str
) -> Iterator[tuple[str, str]]:
    """The folders of the versions of documents, each with the beginning of its addresses."""
    prefix = "" if identity == "default" else f"{identity}_"
    listed = read_json(folder.read(f"{prefix}versions.json"))
    names = [version for version in listed if isinstance(version, str)] if isinstance(listed, list) else []
    if options.get("disableVersioning") is True:
        names = []
    only = get_texts(options, "onlyIncludeVersions")
    settings = options.get("versions")
    settings = settings if isinstance(settings, dict) else {}
    last = get_text(options, "lastVersion", names[0] if names else "current")
    folders = {"current": path} | {name: f"{prefix}versioned_docs/version-{name}" for name in names}
    if options.get("includeCurrentVersion") is False:
        del folders["current"]
    for name, own in folders.items():
        if only and name not in only:
            continue
        version = settings.get(name)
        default = "" if name == last else "next" if name == "current" else name
        route = get_text(version, "path", default) if isinstance(version, dict) else default
        yield own, posixpath.join(base, route.strip("/"))
