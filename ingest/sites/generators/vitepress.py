"""VitePress: every Markdown file of `srcDir` is a page, with `.html` unless `cleanUrls` is true."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from aidre.ingest.sites.settings.data import get_text, get_texts
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
)

FILES = tuple(
    f".vitepress/config{end}.{suffix}" for end in ("", "/index") for suffix in ("ts", "mts", "js", "mjs", "cts", "cjs")
)
_DECISIVE = ("srcDir", "srcExclude", "cleanUrls", "rewrites")
_MAX_PARAMETERS = 3
"""Each multiplies the places at which a match is sought."""

_PARAMETER = re.compile(r":(\w+)(\([^()]*\))?([*+?]?)|\(([^()]*)\)")


def load(folder: Folder, name: str) -> Generator | None:
    exported = read_exported(folder.read(name))
    settings = exported or {}
    rewrites = settings.get("rewrites")
    rules = _VitepressRules(
        posixpath.normpath(get_text(settings, "srcDir", ".")),
        get_texts(settings, "srcExclude"),
        settings.get("cleanUrls") is True,
        [(re.compile(_to_pattern(old)), new) for old, new in rewrites.items() if isinstance(new, str)]
        if isinstance(rewrites, dict)
        else [],
    )
    sitemap = settings.get("sitemap")
    host = get_text(sitemap, "hostname").rstrip("/") if isinstance(sitemap, dict) else ""
    base = get_text(settings, "base", "/").strip("/")
    host = "" if settings.get("base") is COMPUTED else host
    home = (host if host.endswith("/" + base) or not base else f"{host}/{base}") if host else None
    return Generator(
        "VitePress",
        rules.place,
        home,
        "guide/install" + ("" if rules.clean else ".html"),
        Includes(("comment", "code"), (rules.source,)),
        (rules.source, posixpath.join(rules.source, "public")),
        computed=tuple(option for option in _DECISIVE if exported is None or settings.get(option) is COMPUTED),
        built=("node_modules", ".vitepress"),
    )


@dataclass(frozen=True, slots=True)
class _VitepressRules:
    source: str
    excluded: tuple[str, ...]
    clean: bool
    rewrites: list[tuple[re.Pattern[str], str]]

    def place(self, source: SiteFile) -> PagePlace | None:
        path = below(source.path, self.source)
        if path is None:
            return None
        public = below(path, "public")
        if public is not None or not path.endswith(".md"):
            return PagePlace(public)
        if "node_modules" in path.split("/"):
            return left_out("code")
        if "[" in path or matches(path, self.excluded):
            return left_out("a template for pages, or srcExclude of VitePress")
        folder, stem, _ = split_name(self._rewrite(path))
        if stem == "index":
            return PagePlace(folder)
        return PagePlace(f"{folder}{stem}" + ("" if self.clean else ".html"))

    def _rewrite(self, path: str) -> str:
        for pattern, new in self.rewrites:
            match = pattern.fullmatch(path)
            if match is not None:
                return _fill(new, match)
        return path


def _fill(new: str, found: re.Match[str]) -> str:
    """A path whose parameters are what a pattern found; those without a name in their order."""
    named = found.groupdict()
    others = [value for index, value in enumerate(found.groups(), 1) if index not in found.re.groupindex.values()]
    unnamed = iter(others)
    return _PARAMETER.sub(lambda match: named.get(match[1]) or "" if match[1] else next(unnamed, "") or "", new)


def _to_pattern(old: str) -> str:
    """A pattern of path-to-regexp: `:name`, `:name(...)` and `:name*`, each with a name of its own."""
    if sum(1 for _ in _PARAMETER.finditer(old[:500])) > _MAX_PARAMETERS:
        return r"(?!)"
    written: list[str] = []
    position = 0
    for match in _PARAMETER.finditer(old[:500]):
        written.append(re.escape(old[position : match.start()]))
        if match[1] is None:
            written.append("(.*)" if match[4] else "")
        else:
            inner = ".*?" if match[3] in ("*", "+") or match[2] == "(.*)" else "[^/]+?"
            written.append(f"(?P<{match[1]}>{inner})")
        position = match.end()
    pattern = "".join((*written, re.escape(old[position:500])))
    try:
        re.compile(pattern)
    except re.error:
        return r"(?!)"
    return pattern
