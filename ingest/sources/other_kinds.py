"""What would read the kinds of files that are left out: an extra, an option, or another format to save them in."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.util import find_spec

from aidre.ingest.formats.markup import CODE_SUFFIXES
from aidre.ingest.formats.scans import IMAGE_SUFFIXES
from aidre.ingest.records import escape_unprintable

NEEDED = {
    **dict.fromkeys((".rst", ".rest"), ("docutils", "office")),
    **dict.fromkeys(IMAGE_SUFFIXES, ("PIL", "ocr")),
}
"""Libraries, and the extras that bring them, by the suffixes that need them."""

_MAX_NAMED = 5
"""Suffixes without a cure that are named; the others are counted."""

_SAVE_AS = {
    **dict.fromkeys((".doc", ".pages", ".wpd", ".wps", ".docm", ".dot"), ".docx or PDF"),
    **dict.fromkeys((".ppt", ".pps", ".key", ".pptm"), ".pptx or PDF"),
    **dict.fromkeys((".xls", ".ods", ".numbers", ".xlsb"), ".xlsx"),
    **dict.fromkeys((".bmp", ".heic", ".heif", ".gif", ".avif", ".jp2"), ".png, for --ocr"),
    **dict.fromkeys((".mobi", ".azw", ".azw3", ".fb2", ".lit"), ".epub"),
    **dict.fromkeys((".msg", ".mbox", ".pst"), ".eml"),
    **dict.fromkeys((".tex", ".latex", ".djvu", ".ps", ".xps", ".chm"), "PDF"),
    **dict.fromkeys((".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar"), ".zip, or unpack it"),
    **dict.fromkeys((".textile", ".wiki", ".mediawiki", ".pod", ".t2t", ".rmarkdown"), "Markdown"),
}
"""The format to save a file in."""


@cache
def is_installed(library: str) -> bool:
    return find_spec(library) is not None


def find_missing(suffix: str) -> str | None:
    """The library that files of a suffix lack."""
    library, _ = NEEDED.get(suffix, (None, None))
    return None if library is None or is_installed(library) else library


def find_cure(suffix: str) -> str | None:
    """What to do to have files of a suffix read; None where nothing is known."""
    if suffix in IMAGE_SUFFIXES and find_missing(suffix) is None:
        return "--ocr"
    if suffix in NEEDED:
        option = " and --ocr" if suffix in IMAGE_SUFFIXES else ""
        return f"pip install 'aidre[{NEEDED[suffix][1]}]'{option}"
    if suffix in CODE_SUFFIXES:
        return "--code"
    return f"save as {_SAVE_AS[suffix]}" if suffix in _SAVE_AS else None


def describe_kinds(kinds: Counter[str]) -> str:
    """Suffixes with their counts, most common first, those that could be read with what reads them."""
    cures = {suffix: cure for suffix, _ in kinds.most_common() if (cure := find_cure(suffix)) is not None}
    by_cure: dict[str, list[str]] = {}
    for suffix, cure in cures.items():
        by_cure.setdefault(cure, []).append(f"{suffix} {kinds[suffix]}")
    named = [f"{', '.join(names)}: {cure}" for cure, names in by_cure.items()]
    others = [f"{suffix} {count}" for suffix, count in kinds.most_common() if suffix not in cures]
    more = [f"{len(others) - _MAX_NAMED} more kinds"] * (len(others) > _MAX_NAMED)
    plain = [", ".join([*others[:_MAX_NAMED], *more])] if others else []
    return escape_unprintable("; ".join([*named, *plain]))
