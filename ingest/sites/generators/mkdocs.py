"""MkDocs: pages below `docs_dir`, in folders of their own unless `use_directory_urls` is false.

The blog plugin of Material gives posts addresses by date and title, which is why their headings are read.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aidre.ingest.records import read_date
from aidre.ingest.sites.settings.data import get_table, get_text, get_texts, read_yaml
from aidre.ingest.sites.settings.globs import is_ignored
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    left_out,
    split_name,
)

FILES = ("mkdocs.yml", "mkdocs.yaml")
_PAGES = frozenset({".md", ".markdown", ".mdown", ".mkdn", ".mkd"})
_MAX_PARENTS = 5
_DATE_PARTS = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
_DATE_PART = re.compile(r"yyyy|yy|MM|dd|HH|mm|.", re.DOTALL)
_MARKUP = re.compile(r"[*`]|(?<!\w)_+|_+(?!\w)|<[^<>]{1,200}>")
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def load(folder: Folder, name: str) -> Generator | None:
    settings = _inherit(folder, name)
    plugins = _plugins(settings)
    rules = _MkdocsRules(
        posixpath.normpath(get_text(settings, "docs_dir", "docs")),
        settings.get("use_directory_urls") is not False,
        (".*", "/templates/", *get_text(settings, "exclude_docs").splitlines()),
        get_text(settings, "draft_docs").splitlines(),
        plugins.get("blog"),
        {path: number for number, path in enumerate(_navigation(settings.get("nav")))},
    )
    return Generator(
        "MkDocs",
        rules.place,
        get_text(settings, "site_url") or None,
        "guide/install/" if rules.directories else "guide/install.html",
        Includes(("snippet", "include-markdown", "brace"), _snippet_bases(settings, rules.docs)),
        (rules.docs,),
        built=(posixpath.normpath(get_text(settings, "site_dir", "site")),),
        wikilinks=not plugins.keys().isdisjoint({"roamlinks", "ezlinks", "obsidian-support", "obsidian-bridge"}),
    )


@dataclass(frozen=True, slots=True)
class _MkdocsRules:
    docs: str
    directories: bool
    excluded: tuple[str, ...]
    drafts: list[str]
    blog: Mapping[str, Any] | None
    order: Mapping[str, int] = field(default_factory=dict)

    def place(self, source: SiteFile) -> PagePlace | None:
        path = below(source.path, self.docs)
        if path is None:
            return None
        folder, stem, suffix = split_name(path)
        if is_ignored(path, self.excluded):
            return left_out("exclude_docs of MkDocs")
        if stem == "README" and source.folder.is_file(f"{self.docs}/{folder}index.md"):
            return left_out("a README beside an index.md")
        if suffix in _PAGES and self.blog is not None and self._is_post(path):
            return self._place_post(source)
        return self._place_page(path) if suffix in _PAGES else PagePlace(path)

    def _place_page(self, path: str) -> PagePlace:
        folder, stem, _ = split_name(path)
        stem = "index" if stem == "README" else stem
        address = folder if stem == "index" else f"{folder}{stem}/"
        if not self.directories:
            address = f"{folder}{stem}.html"
        draft = "draft_docs of MkDocs" if is_ignored(path, self.drafts) else None
        return PagePlace(address, draft=draft, rank=self.order.get(path))

    def _is_post(self, path: str) -> bool:
        blog = get_text(self.blog or {}, "blog_dir", "blog").strip("/")
        posts = get_text(self.blog or {}, "post_dir", "{blog}/posts").replace("{blog}", blog)
        return below(path, posts.removeprefix("./").strip("/")) is not None

    def _place_post(self, source: SiteFile) -> PagePlace:
        settings = self.blog or {}
        created = source.matter.get("date") or source.matter.get("updated_at")
        if isinstance(created, dict):
            created = created.get("created")
        date = read_date(created) or ""
        title = source.text("title") or _first_heading(source) or ""
        pattern = get_text(settings, "post_url_date_format", "yyyy/MM/dd")
        values = {
            "date": _format_date(date, pattern),
            "slug": source.text("slug") or slugify(title),
            "file": split_name(source.path)[1],
            "categories": "/".join(map(slugify, get_texts(source.matter, "categories")[:1])),
        }
        address = get_text(settings, "post_url_format", "{date}/{slug}")
        for name, value in values.items():
            address = address.replace("{" + name + "}", value)
        blog = get_text(settings, "blog_dir", "blog").strip("/.")
        path = "/".join(filter(None, [blog, *address.split("/")]))
        return PagePlace(f"{path}/" if self.directories else f"{path}.html")


def slugify(text: str) -> str:
    """A title as Material writes it into an address."""
    plain = unicodedata.normalize("NFC", _MARKUP.sub("", text))
    return re.sub(r"[^\w\- ]", "", plain).strip().lower().replace(" ", "-")


def _first_heading(source: SiteFile) -> str | None:
    match = _HEADING.search(source.folder.read(source.path) or "")
    return match[1] if match else None


def _format_date(date: str, pattern: str) -> str:
    from datetime import datetime

    if not date:
        return ""
    moment = datetime.fromisoformat(date)
    return "".join(
        moment.strftime(_DATE_PARTS[part]) if part in _DATE_PARTS else part for part in _DATE_PART.findall(pattern)
    )


def _inherit(folder: Folder, name: str) -> dict[str, Any]:
    """The settings over those of the files that they inherit from."""
    settings: dict[str, Any] = {}
    for _ in range(_MAX_PARENTS):
        loaded = read_yaml(folder.read(name))
        settings = _merge(loaded, settings)
        parent = loaded.get("INHERIT")
        if not isinstance(parent, str):
            break
        name = posixpath.normpath(posixpath.join(posixpath.dirname(name), parent))
    return settings


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below_it = merged.get(name)
        merged[name] = _merge(below_it, value) if isinstance(below_it, dict) and isinstance(value, dict) else value
    return merged


def _plugins(settings: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The options of plugins by name, without the name of their theme ("material/blog")."""
    plugins = settings.get("plugins")
    entries = plugins.items() if isinstance(plugins, dict) else _entries(plugins)
    return {str(name).rpartition("/")[2]: options if isinstance(options, dict) else {} for name, options in entries}


def _entries(listed: Any) -> list[tuple[str, Any]]:
    """The members of a list of names, or of names with options."""
    found: list[tuple[str, Any]] = []
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, str):
            found.append((entry, {}))
        elif isinstance(entry, dict):
            found += [(str(name), options) for name, options in entry.items()]
    return found


def _snippet_bases(settings: Mapping[str, Any], docs: str) -> tuple[str, ...]:
    extensions = dict(_entries(settings.get("markdown_extensions")))
    options = extensions.get("pymdownx.snippets")
    bases = get_texts(options if isinstance(options, dict) else {}, "base_path") or (".",)
    others = get_table(settings, "mdx_configs", "pymdownx.snippets")
    return tuple(dict.fromkeys((*bases, *get_texts(others, "base_path"), docs)))


def _navigation(nav: Any) -> list[str]:
    """The pages of the navigation in its order."""
    found: list[str] = []
    pending = [nav]
    while pending and len(found) < 100_000:
        entry = pending.pop()
        if isinstance(entry, str):
            found.append(posixpath.normpath(entry))
        elif isinstance(entry, dict):
            pending += reversed(list(entry.values()))
        elif isinstance(entry, list):
            pending += reversed(entry)
    return found
