"""Quarto: websites and books, whose pages are `.html` files beside each other."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aidre.ingest.sites.settings.data import get_table, get_text, get_texts, read_yaml
from aidre.ingest.sites.settings.globs import compile_glob
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    left_out,
    split_name,
    to_order,
)

FILES = ("_quarto.yml", "_quarto.yaml")
_PAGES = frozenset({".qmd", ".md", ".ipynb", ".rmd"})


def load(folder: Folder, name: str) -> Generator | None:
    settings = read_yaml(folder.read(name))
    project = get_table(settings, "project")
    kind = get_text(project, "type", "default")
    if kind not in ("website", "book", "blog", "manuscript"):
        return None
    book = get_table(settings, "book")
    site = book if kind == "book" else get_table(settings, "website")
    rules = _QuartoRules(
        get_texts(project, "render"),
        _chapters(book) if kind == "book" else None,
    )
    url = get_text(site, "site-url") or None
    path = get_text(site, "site-path").strip("/")
    return Generator(
        "Quarto",
        rules.place,
        f"{url.rstrip('/')}/{path}" if url and path and not url.rstrip("/").endswith(path) else url,
        "guide/install.html",
        Includes(("shortcode",)),
        (".",),
        built=(posixpath.normpath(get_text(project, "output-dir", "_book" if kind == "book" else "_site")),),
    )


@dataclass(frozen=True, slots=True)
class _QuartoRules:
    """`chapters` are the pages of a book with their places, None for a website."""

    render: tuple[str, ...]
    chapters: Mapping[str, int] | None

    def place(self, source: SiteFile) -> PagePlace | None:
        path = source.path
        if path.startswith("../"):
            return None
        parts = path.split("/")
        if any(part.startswith(("_", ".")) for part in parts):
            return left_out("no page of Quarto")
        folder, stem, suffix = split_name(path)
        if suffix not in _PAGES:
            return PagePlace()
        if self.chapters is not None and path not in self.chapters:
            return left_out("no chapter of the book")
        if self.chapters is None and not self._is_rendered(path, parts[-1]):
            return left_out("not rendered by Quarto")
        output = source.text("output-file")
        if output is not None:
            stem = posixpath.splitext(output)[0] if output.endswith(".html") else output
        order = source.matter.get("order")
        return PagePlace(
            folder if stem == "index" else f"{folder}{stem}.html",
            rank=None if self.chapters is None else self.chapters[path],
            order=to_order(order),
        )

    def _is_rendered(self, path: str, name: str) -> bool:
        if name.lower() in ("readme.md", "readme.qmd"):
            return False
        wanted = [glob for glob in self.render if not glob.startswith("!")]
        rendered = not wanted or any(_is_match(path, glob) for glob in wanted)
        return rendered and not any(_is_match(path, glob[1:]) for glob in self.render if glob.startswith("!"))


def _is_match(path: str, pattern: str) -> bool:
    """A pattern of Quarto: a folder means all below it, and a name without a slash is one at any place."""
    pattern = pattern.strip().removeprefix("./")
    if pattern.endswith("/"):
        return path.startswith(pattern)
    if pattern.startswith("/"):
        return bool(compile_glob(pattern[1:]).fullmatch(path))
    return any(compile_glob(glob).fullmatch(path) for glob in (pattern, f"**/{pattern}", f"{pattern}/**"))


def _chapters(book: Mapping[str, Any]) -> dict[str, int]:
    """The chapters and appendices of a book, in order."""
    found: dict[str, int] = {"index.qmd": 0}
    pending: list[Any] = [book.get("appendices"), book.get("chapters")]
    while pending and len(found) < 10_000:
        entry = pending.pop()
        if isinstance(entry, str):
            found.setdefault(posixpath.normpath(entry), len(found))
        elif isinstance(entry, list):
            pending += reversed(entry)
        elif isinstance(entry, dict):
            pending += [entry.get("chapters"), entry.get("file"), entry.get("href"), entry.get("part")]
    return found
