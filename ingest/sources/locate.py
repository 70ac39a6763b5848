"""Resolves the paths and addresses of a command line to sources with distinct names, and says why one is empty."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from aidre.engine.errors import ConfigurationError
from aidre.ingest.fetch import is_url
from aidre.ingest.records import escape_unprintable
from aidre.ingest.sites import UrlStyle, to_url_style
from aidre.ingest.sources.folder import FileSource, ReadFiles
from aidre.ingest.sources.other_kinds import describe_kinds, find_cure, find_missing
from aidre.ingest.sources.readers import READERS, is_readable, is_sitemap
from aidre.ingest.sources.web import WebSource, web_source

Source: TypeAlias = FileSource | WebSource


def locate_sources(
    paths: Sequence[str | Path],
    name: str | None = None,
    url_base: str | None = None,
    url_style: UrlStyle = "auto",
    *,
    code: bool = False,
    ocr: str | None = None,
) -> list[Source]:
    """The sources of some paths and addresses, without duplicates.

    Raises ConfigurationError for a path that does not exist or cannot be read, and for two sources of one name.
    """
    url_style = to_url_style(url_style)
    if url_base is not None:
        if not url_base.startswith(("http://", "https://")):
            raise ConfigurationError(f"url base {url_base!r} must begin with http:// or https://")
        url_base = url_base.rstrip("/")
    options = FileSource(name or "", Path(), None, url_base, code, url_style, ocr)
    sources = [_locate(path, options) for path in paths]
    roots: dict[str, Path | str] = {}
    for source in sources:
        if roots.setdefault(source.name, source.root) != source.root:
            raise ConfigurationError(
                f"two sources are both named {source.name!r}: ingest {escape_unprintable(str(source.root))} on its own "
                f"with a name, such as --source {_suggest_name(source.root)}"
            )
    return list(dict.fromkeys(sources))


def check_source_roots(stored: Mapping[str, str], roots: Mapping[str, str]) -> None:
    """Raises ConfigurationError for a source name that is stored with another folder. A name whose folder no longer
    exists is free again."""
    for name, root in roots.items():
        stored_root = stored.get(name, root)
        if stored_root != root and Path(stored_root).exists():
            raise ConfigurationError(
                f"source {name!r} is already {stored_root}: give {root} a name of its own, such as "
                f"--source {_suggest_name(root)}"
            )


def _suggest_name(root: Path | str) -> str:
    """A name for a folder whose own is taken: with that of the folder above, as an argument of a shell."""
    return shlex.quote(escape_unprintable("-".join(part for part in Path(root).parts[-2:] if part.strip("/"))))


def _locate(path: str | Path, options: FileSource) -> Source:
    """The source of a path, with the name of `options` if that has one, and its other members."""
    if isinstance(path, str) and is_url(path):
        return web_source(path, options.name or None)
    if path == "":  # an unset shell variable; Path("") would be the current folder
        raise ConfigurationError("a source has no name: give a file, a folder (. is this one) or an http(s) address")
    source = _locate_file(Path(path), options)
    if source.only is None:
        return source
    file = source.root / source.only
    if not is_sitemap(source.file(file)):
        return source
    # The pages of a sitemap are not documents of its folder, which may be a source as well: a name of their own.
    return WebSource(options.name or f"{source.name}/{source.only}", source.only, str(file), file)


def _locate_file(path: Path, options: FileSource) -> FileSource:
    # A link keeps its own name: only the folder that it is in is resolved.
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    resolved = absolute.parent.resolve() / absolute.name
    try:
        if resolved.resolve(strict=True).is_dir():
            with os.scandir(resolved):
                return replace(options, name=options.name or _folder_name(resolved), root=resolved)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise ConfigurationError(f"source {escape_unprintable(str(path))} cannot be read: {reason}") from None
    if not resolved.is_file():
        raise ConfigurationError(f"source {escape_unprintable(str(path))} is neither a file nor a folder")
    if not is_readable(resolved.name, code=True, ocr=options.ocr is not None):
        raise ConfigurationError(f"source {escape_unprintable(str(path))} {_explain_unread(resolved.suffix.lower())}")
    name = options.name or _folder_name(resolved.parent)
    return replace(options, name=name, root=resolved.parent, only=resolved.name)


def _explain_unread(suffix: str) -> str:
    if find_missing(suffix):
        return f"needs {find_missing(suffix)}: {find_cure(suffix)}"
    return f"is of no known kind: {find_cure(suffix) or ' '.join(sorted(READERS)) + ' can be read'}"


def _folder_name(folder: Path) -> str:
    return folder.name or "root"


def explain_empty(source: Source, files: ReadFiles) -> str:
    """The reason for one line; `files` are those of the run, which has ended."""
    if isinstance(source, WebSource):
        return "has no document: it lists no page or entry that can be read: check the address"
    kinds = files.other_kinds.get(source.name)
    if any(name == source.name for name, _ in files.names.values()):
        return (
            "has no document: none of its files has a text; of tables, name the columns that hold it with text = "
            "[COLUMN, ...] below [collections.NAME.mapping] in aidre.toml"
        )
    if not kinds:
        return "has no document: the folder holds no file that is read: check the path"
    return (
        f"has no document: its files are of kinds that are not read ({describe_kinds(kinds)}): convert them "
        f"to one of {' '.join(sorted(READERS))}"
    )
