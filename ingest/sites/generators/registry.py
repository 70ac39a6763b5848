"""The generators by the names of their configuration files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aidre.ingest.sites.generators import (
    antora,
    astro,
    docusaurus,
    eleventy,
    hugo,
    jekyll,
    mkdocs,
    obsidian,
    quarto,
    sphinx,
    vitepress,
)
from aidre.ingest.sites.settings.place import Folder, Generator

Load: TypeAlias = Callable[[Folder, str], Generator | None]

GENERATORS: Final[Mapping[str, Load]] = {
    name: module.load
    for module in (mkdocs, docusaurus, vitepress, astro, eleventy, antora, quarto, hugo, jekyll, sphinx, obsidian)
    for name in module.FILES
}
"""Functions from a folder and the name of its configuration file to the generator; None for a file that is of another
program. Where a folder has several, the first of this order counts."""
