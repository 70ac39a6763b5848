"""Sphinx: each source file is a page beside the others; `conf.py` is read by its literals and never run."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aidre.ingest.sites.settings.data import get_text, get_texts, read_python
from aidre.ingest.sites.settings.globs import matches
from aidre.ingest.sites.settings.place import Folder, Generator, Includes, PagePlace, SiteFile, left_out, split_name

FILES = ("conf.py",)
_NAMES = frozenset(
    {"extensions", "html_theme", "master_doc", "root_doc", "source_suffix", "exclude_patterns", "html_static_path",
     "project", "copyright", "templates_path", "html_title"}
)  # fmt: skip
_NO_PAGES = ("_templates", "_themes")
_FEWEST = 2
"""Names of Sphinx in a conf.py, without which it may be of another program."""


def load(folder: Folder, name: str) -> Generator | None:
    settings = read_python(folder.read(name))
    if len(_NAMES & settings.keys()) < _FEWEST:
        return None
    rules = _SphinxRules(
        _suffixes(settings),
        get_texts(settings, "exclude_patterns"),
        _templates(settings),
        _is_dirhtml(folder),
        get_text(settings, "html_file_suffix") or ".html",
    )
    return Generator(
        "Sphinx",
        rules.place,
        get_text(settings, "html_baseurl") or None,
        "guide/install/" if rules.directories else "guide/install.html",
        Includes(("rst", "directive")),
        (".",),
        built=("_build",),
    )


@dataclass(frozen=True, slots=True)
class _SphinxRules:
    suffixes: tuple[str, ...]
    excluded: tuple[str, ...]
    templates: tuple[str, ...]
    directories: bool
    end: str = ".html"

    def place(self, source: SiteFile) -> PagePlace | None:
        path = source.path
        if path.startswith("../"):
            return None
        if path.startswith("_static/"):
            return PagePlace(path)
        if path == "conf.py" or path.startswith(tuple(f"{folder}/" for folder in (*_NO_PAGES, *self.templates))):
            return left_out("no page of Sphinx")
        if any(matches(part, self.excluded) for part in _parents(path)):
            return left_out("exclude_patterns of Sphinx")
        suffix = next((candidate for candidate in self.suffixes if path.endswith(candidate)), None)
        return PagePlace() if suffix is None else PagePlace(self._address(path[: -len(suffix)]))

    def _address(self, name: str) -> str:
        folder, stem, _ = split_name(name + ".")
        if not self.directories:
            return f"{name}{self.end}"
        return folder if stem == "index" else f"{name}/"


def _parents(path: str) -> list[str]:
    """A path and the folders above it, each of which a pattern may leave out."""
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _suffixes(settings: Mapping[str, Any]) -> tuple[str, ...]:
    value = settings.get("source_suffix")
    found = tuple(value) if isinstance(value, dict) else get_texts(settings, "source_suffix")
    found = tuple(suffix for suffix in found if isinstance(suffix, str) and suffix.startswith(".")) or (".rst",)
    extensions = get_texts(settings, "extensions")
    reads_markdown = not {"myst_parser", "myst_nb", "recommonmark"}.isdisjoint(extensions)
    notebooks = (".ipynb",) if not {"nbsphinx", "myst_nb"}.isdisjoint(extensions) else ()
    return tuple(dict.fromkeys((*found, *((".md",) if reads_markdown else ()), *notebooks)))


def _templates(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(posixpath.normpath(template) for template in get_texts(settings, "templates_path"))


def _is_dirhtml(folder: Folder) -> bool:
    """Whether the site is built with folders: what Read the Docs is told, or the Makefile calls."""
    read_the_docs = folder.read(".readthedocs.yaml") or folder.read("../.readthedocs.yaml") or ""
    return "builder: dirhtml" in read_the_docs
