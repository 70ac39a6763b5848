"""Antora: pages of the modules of a component, whose descriptor is `antora.yml`; a playbook says how URLs end."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aidre.ingest.sites.settings.data import get_table, get_text, get_texts, read_yaml
from aidre.ingest.sites.settings.place import Folder, Generator, Includes, PagePlace, SiteFile, left_out, split_name

FILES = ("antora.yml",)
_PLAYBOOKS = ("antora-playbook.yml", "playbook.yml", "site.yml", "antora-playbook.yaml", "local-antora-playbook.yml")
_XREF = re.compile(r"xref:([^\[\]\s]{1,400}\.adoc)")
_MAX_ABOVE = 3


def load(folder: Folder, name: str) -> Generator | None:
    descriptor = read_yaml(folder.read(name))
    if not isinstance(descriptor.get("name"), str):
        return None
    playbook = _playbook(folder)
    urls = get_table(playbook, "urls")
    style = get_text(urls, "html_extension_style", "default")
    rules = _AntoraRules(
        _segment(descriptor["name"]),
        _version(descriptor, urls),
        style,
        _navigation(folder, get_texts(descriptor, "nav")),
    )
    return Generator(
        "Antora",
        rules.place,
        get_text(get_table(playbook, "site"), "url") or None,
        posixpath.join(rules.component, rules.version, "guide/install" + _ENDS.get(style, ".html")),
        Includes(("adoc",)),
    )


_ENDS = {"default": ".html", "drop": "", "indexify": "/"}


@dataclass(frozen=True, slots=True)
class _AntoraRules:
    component: str
    version: str
    style: str
    order: Mapping[str, int]

    def place(self, source: SiteFile) -> PagePlace | None:
        parts = source.path.split("/")
        if parts[0] != "modules" or len(parts) < 3:
            return None
        if len(parts) == 3:
            return left_out("the navigation of Antora")
        module, family, relative = parts[1], parts[2], "/".join(parts[3:])
        base = posixpath.join(self.component, self.version, _segment(module))
        if family == "assets" and parts[3] in ("images", "attachments"):
            family, relative = parts[3], "/".join(parts[4:])
        if family in ("images", "attachments"):
            return PagePlace(posixpath.join(base, f"_{family}", relative))
        if family != "pages" or "/_" in f"/{relative}" or not relative.endswith(".adoc"):
            return left_out("no page of Antora: pages include it, or it is hidden")
        return PagePlace(self._address(base, relative), rank=self.order.get(f"{module}/{relative}"))

    def _address(self, base: str, relative: str) -> str:
        folder, stem, _ = split_name(relative)
        if self.style != "default" and stem == "index":
            return posixpath.join(base, folder) if base or folder else ""
        return posixpath.join(base, f"{folder}{stem}{_ENDS.get(self.style, '.html')}")


def _segment(name: str) -> str:
    return "" if name == "ROOT" else name


def _version(descriptor: Mapping[str, Any], urls: Mapping[str, Any]) -> str:
    """The part of addresses that names the version. What Git says (`version: true`) is not known here."""
    version = descriptor.get("version")
    if isinstance(version, bool) or version is None or version in ("master", "~"):
        return ""
    segment = "latest_prerelease_version_segment" if descriptor.get("prerelease") else "latest_version_segment"
    latest = urls.get(segment)
    if isinstance(latest, str) and get_text(urls, "latest_version_segment_strategy") == "replace":
        return latest
    return str(version)


def _playbook(folder: Folder) -> dict[str, Any]:
    """The playbook of the folder, or of one above it that is inside the source."""
    path = ""
    for _ in range(_MAX_ABOVE):
        for name in _PLAYBOOKS:
            playbook = read_yaml(folder.read(path + name))
            if "content" in playbook or "urls" in playbook or "site" in playbook:
                return playbook
        path += "../"
    return {}


def _navigation(folder: Folder, files: tuple[str, ...]) -> dict[str, int]:
    """The pages that the navigation lists, by module and path, in its order."""
    found: dict[str, int] = {}
    for file in files:
        own = file.split("/")[1] if file.startswith("modules/") else "ROOT"
        for target in _XREF.findall(folder.read(file) or ""):
            module, _, page = target.rpartition(":")
            found.setdefault(f"{module.rpartition(':')[2] or own}/{page}", len(found))
    return found
