"""Obsidian: a vault of notes. Obsidian Publish gives each the path of its file, with plus signs for spaces."""

from __future__ import annotations

import posixpath

from aidre.ingest.sites.settings.place import Folder, Generator, PagePlace, SiteFile, left_out, split_name

FILES = (".obsidian",)


def load(folder: Folder, name: str) -> Generator | None:
    return Generator("Obsidian", _place, None, "Guide/Install+it", wikilinks=True)


def _place(source: SiteFile) -> PagePlace | None:
    if source.path.startswith("../"):
        return None
    if any(part.startswith(".") or part == "_templates" for part in source.path.split("/")):
        return left_out("a setting or a template of Obsidian")
    folder, stem, suffix = split_name(source.path)
    if suffix != ".md":
        return PagePlace(source.path.replace(" ", "+"))
    permalink = source.text("permalink")
    if permalink is not None:
        return PagePlace(permalink.strip("/"))
    return PagePlace(posixpath.join(folder, stem).replace(" ", "+"))
