"""Jekyll: pages, posts, collections and drafts, with permalinks of the file, of defaults and of the configuration.

A file without a front matter is copied as it is, unless a plugin for such files is on, as on GitHub Pages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aidre.ingest.records import read_date
from aidre.ingest.sites.settings.data import get_text, get_texts, read_yaml
from aidre.ingest.sites.settings.globs import matches
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    jekyll_slug,
    left_out,
    split_name,
    to_order,
)

FILES = ("_config.yml", "_config.yaml", "_config.toml")
_OTHERS = frozenset({"source_dir", "public_dir", "skip_render", "sphinx", "execute", "launch_buttons"})
"""Settings of Hexo and Jupyter Book, whose configuration has the same name."""

_STYLES = {
    "date": "/:categories/:year/:month/:day/:title:output_ext",
    "pretty": "/:categories/:year/:month/:day/:title/",
    "ordinal": "/:categories/:year/:y_day/:title:output_ext",
    "weekdate": "/:categories/:year/W:week/:short_day/:title:output_ext",
    "none": "/:categories/:title:output_ext",
}
_EXCLUDED = (".sass-cache", ".jekyll-cache", "gemfiles", "Gemfile", "Gemfile.lock", "node_modules", "vendor/bundle",
             "vendor/cache", "vendor/gems", "vendor/ruby")  # fmt: skip
_POST = re.compile(r"(?:(\d{2,4}-\d{1,2}-\d{1,2})-)?(.*)")
_MARKDOWN = "markdown,mkdown,mkdn,mkd,md"
_PAGES = frozenset({".html", ".htm", ".xhtml"})


def load(folder: Folder, name: str) -> Generator | None:
    settings = read_yaml(folder.read(name))
    if not _OTHERS.isdisjoint(settings):
        return None
    plugins = get_texts(settings, "plugins") + get_texts(settings, "gems")
    gems = folder.read("Gemfile") or ""
    on_github = "github-pages" in gems or "remote_theme" in settings
    source = posixpath.normpath(get_text(settings, "source", "."))
    rules = _JekyllRules(
        settings,
        source,
        tuple(f".{suffix.strip()}" for suffix in get_text(settings, "markdown_ext", _MARKDOWN).split(",")),
        takes_all=on_github or "jekyll-optional-front-matter" in plugins,
        takes_readme=on_github or "jekyll-readme-index" in plugins,
    )
    url = get_text(settings, "url").rstrip("/")
    return Generator(
        "Jekyll",
        rules.place,
        f"{url}/{get_text(settings, 'baseurl').strip('/')}" if url else None,
        "guide/install/" if rules.page_suffix("/") == "/" else "guide/install.html",
        Includes(("liquid",), (posixpath.join(source, "_includes"),)),
        (source,),
        built=(posixpath.normpath(get_text(settings, "destination", "_site")),),
    )


@dataclass(frozen=True, slots=True)
class _JekyllRules:
    settings: Mapping[str, Any]
    source: str
    markdown: tuple[str, ...]
    takes_all: bool
    takes_readme: bool

    def place(self, source: SiteFile) -> PagePlace | None:
        path = below(source.path, self.source)
        if path is None:
            return None
        path = below(path, get_text(self.settings, "collections_dir").strip("/")) or path
        parts = path.split("/")
        for folder, draft in (("_posts", None), ("_drafts", "a draft of Jekyll")):
            if folder in parts[:-1]:
                return self._place_post(source, path, parts.index(folder), draft)
        label = parts[0][1:] if parts[0].startswith("_") and len(parts) > 1 else ""
        collection = self._collections().get(label)
        if collection is not None:
            return self._place_of_collection(source, path, label, collection)
        if self._is_excluded(path, parts):
            return left_out("no page of Jekyll")
        if source.read_matter() is None and not self._reads_all(path, source):
            return PagePlace(path)
        return self._place_page(source, path)

    def page_suffix(self, output: str) -> str:
        """What addresses of pages end with."""
        style = get_text(self.settings, "permalink", "date")
        if style == "pretty" or (style not in _STYLES and style.endswith("/")):
            return "/"
        return ".html" if style in _STYLES or style.endswith(":output_ext") else ""

    def _reads_all(self, path: str, source: SiteFile) -> bool:
        """Whether plugins make a page of a file without a front matter."""
        if not path.endswith(self.markdown):
            return False
        stem = posixpath.splitext(path.rpartition("/")[2])[0]
        named = stem.upper() in ("README", "LICENSE", "CONTRIBUTING", "CODE_OF_CONDUCT")
        return self.takes_all and (not named or (stem.upper() == "README" and self.takes_readme))

    def _is_excluded(self, path: str, parts: Sequence[str]) -> bool:
        if matches(path, get_texts(self.settings, "include")) or parts[-1] == ".htaccess":
            return False
        hidden = any(part.startswith(("_", ".", "#")) or part.endswith("~") for part in parts)
        excluded = (*_EXCLUDED, *get_texts(self.settings, "exclude"))
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        return hidden or any(matches(part, [pattern.strip("/")]) for part in above for pattern in excluded)

    def _place_page(self, source: SiteFile, path: str) -> PagePlace:
        folder, stem, suffix = split_name(path)
        data = self._data(source, path, "pages")
        order = data.get("nav_order")
        number = to_order(order)
        if isinstance(data.get("permalink"), str):
            values = {"path": folder.strip("/"), "basename": stem, "title": stem, "output_ext": ".html"}
            return PagePlace(_fill(str(data["permalink"]), values), order=number)
        if suffix not in self.markdown and suffix not in _PAGES:
            return PagePlace(path, order=number)
        is_readme = (
            self.takes_readme
            and stem.upper() == "README"
            and not source.folder.is_file(posixpath.join(self.source, folder, "index.md"))
        )
        if stem == "index" or is_readme:
            return PagePlace(folder, order=number)
        return PagePlace(f"{folder}{stem}{self.page_suffix(suffix)}", order=number)

    def _place_post(self, source: SiteFile, path: str, at: int, draft: str | None = None) -> PagePlace:
        parts = path.split("/")
        match = _POST.fullmatch(posixpath.splitext(parts[-1])[0])
        dated, slug = (match[1], match[2]) if match else (None, "")
        if source.read_matter() is None or (dated is None and draft is None):
            return left_out("a post without a date or a front matter")
        data = self._data(source, path, "drafts" if draft else "posts")
        date = read_date(data.get("date") or data.get("updated_at")) or read_date(dated) or ""
        categories = [*parts[:at], *_categories(data)]
        template = get_text(data, "permalink", get_text(self.settings, "permalink", "date"))
        values = _date_values(date) | {
            "categories": "/".join(dict.fromkeys(category.lower() for category in categories)),
            "slugified_categories": "/".join(dict.fromkeys(map(jekyll_slug, categories))),
            "title": jekyll_slug(get_text(data, "slug", slug), pretty=True),
            "slug": jekyll_slug(get_text(data, "slug", slug)),
            "output_ext": ".html",
            "path": slug,
            "basename": parts[-1],
            "collection": "posts",
        }
        since = None if self.settings.get("future") is True else date or None
        return PagePlace(_fill(_STYLES.get(template, template), values), draft=draft, since=since)

    def _place_of_collection(self, source: SiteFile, path: str, label: str, collection: Mapping[str, Any]) -> PagePlace:
        if collection.get("output") is not True:
            return left_out(f"the collection {label} of Jekyll has no output")
        if source.read_matter() is None:
            return PagePlace(path[1:])
        data = self._data(source, path, label)
        folder, stem, _ = split_name(path.partition("/")[2])
        template = get_text(data, "permalink", get_text(collection, "permalink", ""))
        if not template:
            template = "/:collection/:path" + (self.page_suffix("") or "")
        date = read_date(data.get("date") or data.get("updated_at")) or ""
        values = _date_values(date) | {
            "collection": label,
            "path": f"{folder}{stem}",
            "name": jekyll_slug(stem),
            "title": jekyll_slug(get_text(data, "slug", stem), pretty=True),
            "slug": jekyll_slug(get_text(data, "slug", stem)),
            "categories": "/".join(category.lower() for category in _categories(data)),
            "output_ext": ".html",
        }
        order = data.get("nav_order")
        return PagePlace(
            _fill(_STYLES.get(template, template), values),
            order=to_order(order),
        )

    def _collections(self) -> dict[str, Mapping[str, Any]]:
        value = self.settings.get("collections")
        if isinstance(value, dict):
            return {
                str(name): collection if isinstance(collection, dict) else {}
                for name, collection in value.items()
                if name != "posts"
            }
        return {name: {} for name in get_texts(self.settings, "collections")}

    def _data(self, source: SiteFile, path: str, kind: str) -> dict[str, Any]:
        """The front matter over the defaults that the configuration has for the path and the kind."""
        found: dict[str, Any] = {}
        defaults = self.settings.get("defaults")
        for entry in defaults if isinstance(defaults, list) else ():
            scope = entry.get("scope") if isinstance(entry, dict) else None
            values = entry.get("values") if isinstance(entry, dict) else None
            if not isinstance(scope, dict) or not isinstance(values, dict):
                continue
            below_it = get_text(scope, "path").strip("/")
            is_in = not below_it or path == below_it or path.startswith(f"{below_it}/") or matches(path, [below_it])
            if is_in and get_text(scope, "type", kind) == kind:
                found |= values
        return found | {name: value for name, value in source.matter.items() if value is not None}


def _categories(data: Mapping[str, Any]) -> list[str]:
    """Those of `categories`, a text being a list of words, then the one of `category`."""
    listed = data.get("categories")
    found = listed.split() if isinstance(listed, str) else listed if isinstance(listed, list) else []
    category = data.get("category")
    single = category if isinstance(category, list) else [] if category in (None, "") else [category]
    return [str(name) for name in (*found, *single)]


def _date_values(date: str) -> dict[str, str]:
    moment = datetime.fromisoformat(date) if date else datetime(1970, 1, 1, tzinfo=UTC)
    forms = {
        "year": "%Y", "short_year": "%y", "month": "%m", "i_month": "%-m", "short_month": "%b", "long_month": "%B",
        "day": "%d", "i_day": "%-d", "y_day": "%j", "week": "%V", "w_year": "%G", "w_day": "%u", "short_day": "%a",
        "long_day": "%A", "hour": "%H", "minute": "%M", "second": "%S",
    }  # fmt: skip
    return {name: moment.strftime(form) for name, form in forms.items()}


def _fill(template: str, values: Mapping[str, str]) -> str:
    """The address of a template: its placeholders filled in, without empty parts."""
    filled = re.sub(
        r":([a-z_]+)",
        lambda match: values.get(_longest(match[1], values), match[0]) + _rest(match[1], values),
        template,
    )
    address = re.sub(r"/{2,}", "/", filled).lstrip("/")
    return address


def _longest(name: str, values: Mapping[str, str]) -> str:
    """The longest placeholder that a word begins with: `:title_x` is `:title` and `_x`."""
    while name and name not in values:
        name = name[:-1]
    return name


def _rest(name: str, values: Mapping[str, str]) -> str:
    found = _longest(name, values)
    return name[len(found) :] if found else ""
