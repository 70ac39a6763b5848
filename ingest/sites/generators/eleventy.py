"""Eleventy: a folder for each template, or its `permalink`, which a data file beside it may set, too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aidre.ingest.records import read_date
from aidre.ingest.sites.settings.data import get_text, read_json
from aidre.ingest.sites.settings.globs import is_ignored
from aidre.ingest.sites.settings.literals import COMPUTED, read_constant, read_exported
from aidre.ingest.sites.settings.place import (
    Folder,
    Generator,
    Includes,
    PagePlace,
    SiteFile,
    below,
    eleventy_slug,
    left_out,
    split_name,
    to_order,
)

FILES = (".eleventy.js", *(f"eleventy.config.{suffix}" for suffix in ("js", "mjs", "cjs", "ts", "mts")))
_TEMPLATES = (".md", ".html", ".njk", ".liquid", ".hbs", ".mustache", ".ejs", ".haml", ".pug", ".webc")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}-(.*)")
_VARIABLE = re.compile(r"\{\{-?\s{0,9}([\w.]{1,80})((?:\s{0,9}\|[^{}|]{1,80}){0,5}?)\s{0,9}-?\}\}")
_CALL = re.compile(
    r"\b(set(?:Input|Includes|Layouts|Data|Output)Directory|ignores\.add)\(\s*[\"'`]([^\"'`]{1,200})[\"'`]"
)
_INPUT = re.compile(r"\beleventy\b[^\"\n]{0,200}--input[= ]([^\s\"]{1,200})")
_FILTER = re.compile(r"(\w+)\s*(?::\s*[\"']([^\"']*)[\"']|\([\"']([^\"']*)[\"']\))?")


def load(folder: Folder, name: str) -> Generator | None:
    text = folder.read(name)
    settings = (read_exported(text) or {}) | read_constant(text, "config")
    folders = settings.get("dir")
    folders = folders if isinstance(folders, dict) else {}
    calls = _CALL.findall(text or "")
    arguments = dict(calls)
    script = _INPUT.search(folder.read("package.json") or "")
    named = script[1] if script else get_text(folders, "input", ".")
    source = posixpath.normpath(arguments.get("setInputDirectory") or named)
    inner = [
        arguments.get("setIncludesDirectory") or get_text(folders, "includes", "_includes"),
        arguments.get("setLayoutsDirectory") or get_text(folders, "layouts", "_layouts"),
        arguments.get("setDataDirectory") or get_text(folders, "data", "_data"),
    ]
    output = arguments.get("setOutputDirectory") or get_text(folders, "output", "_site")
    ignored = (
        "node_modules/",
        *(f"/{posixpath.normpath(posixpath.join(source, folder))}/" for folder in inner),
        *(argument.removeprefix("./") for call, argument in calls if call == "ignores.add"),
        *(folder.read(".eleventyignore") or "").splitlines(),
        *(folder.read(".gitignore") or "").splitlines(),
    )
    prefix = get_text(settings, "pathPrefix").strip("/")
    return Generator(
        "Eleventy",
        _EleventyRules(source, ignored).place,
        None,
        "guide/install/",
        Includes(("liquid", "include-markdown"), (posixpath.join(source, inner[0]),), beside=False),
        (source,),
        computed=tuple(f"dir.{option}" for option in ("input",) if folders.get(option) is COMPUTED),
        built=(posixpath.normpath(output),),
        notes=(f"pathPrefix is /{prefix}/: --url-base ends with it",) if prefix else (),
    )


@dataclass(frozen=True, slots=True)
class _EleventyRules:
    source: str
    ignored: tuple[str, ...]

    def place(self, source: SiteFile) -> PagePlace | None:
        path = below(source.path, self.source)
        if path is None:
            return None
        if is_ignored(source.path, self.ignored):
            return left_out("ignored by Eleventy, or a part of other pages")
        if not path.endswith(_TEMPLATES):
            return PagePlace()
        data = _data(source.folder, self.source, path) | dict(source.matter)
        permalink = data.get("permalink")
        if isinstance(permalink, dict):
            permalink = permalink.get("build")
        if permalink is False:
            return left_out("permalink: false")
        order = data.get("order")
        address = _default(path) if permalink is None else None
        if isinstance(permalink, str):
            address = _permalink(permalink, path, data)
        return PagePlace(
            address,
            draft="draft: true" if data.get("draft") is True else None,
            order=to_order(order),
        )


def _default(path: str) -> str:
    folder, stem, _ = split_name(path)
    is_index = stem == "index" or posixpath.basename(folder.rstrip("/")) == stem
    return folder if is_index else f"{folder}{stem}/"


def _without_date(name: str) -> str:
    match = _DATED.search(name)
    return match[1] if match else name


def _data(folder: Folder, source: str, path: str) -> dict[str, Any]:
    """What files of data say of a template: those of each folder above it, then its own."""
    found: dict[str, Any] = {}
    parts = path.split("/")[:-1]
    names = [(parts[: depth + 1], parts[depth]) for depth in range(len(parts))]
    stem = posixpath.splitext(path.rpartition("/")[2])[0]
    for above, name in [*names, (parts, stem)]:
        base = posixpath.join(source, *above, name)
        for suffix in (".json", ".11tydata.json"):
            loaded = read_json(folder.read(base + suffix))
            found |= loaded if isinstance(loaded, dict) else {}
        for suffix in (".11tydata.js", ".11tydata.mjs", ".11tydata.cjs"):
            found |= read_exported(folder.read(base + suffix)) or {}
    return found


def _permalink(template: str, path: str, data: Mapping[str, Any]) -> str | None:
    """The address that a permalink gives; None if it computes more than names and simple filters do."""
    folder, stem, _ = split_name(path)
    own = _without_date(stem)
    last = _without_date(posixpath.basename(folder.rstrip("/")))
    values = {"page.fileSlug": last if own == "index" else own, "page.filePathStem": f"/{folder}{own}"}
    unknown: list[str] = []

    def replace(match: re.Match[str]) -> str:
        value = values.get(match[1], data.get(match[1]))
        if match[1] == "page.date":
            value = (
                data.get("date")
                or data.get("updated_at")
                or ((dated := re.match(r"\d{4}-\d{2}-\d{2}", stem)) and dated[0])
            )
        if not isinstance(value, str | int):
            unknown.append(match[1])
            return ""
        text = str(value)
        for name, *arguments in _FILTER.findall(match[2]):
            argument = arguments[0] or arguments[1]
            if name in ("slugify", "slug"):
                slug = eleventy_slug(text)
                text = slug or ""
                unknown.extend([name] if slug is None else [])
            elif name == "date" and "%" in argument and (moment := read_date(text)):
                text = datetime.fromisoformat(moment).strftime(argument)
            elif name == "downcase":
                text = text.lower()
            else:
                unknown.append(name)
        return text

    address = _VARIABLE.sub(replace, template)
    if unknown or "{{" in address or "{%" in address:
        return None
    address = posixpath.normpath(address).lstrip("/") + ("/" if address.endswith("/") else "")
    address = "" if address in (".", "./") else address
    return address[: -len("index.html")] if address == "index.html" or address.endswith("/index.html") else address
