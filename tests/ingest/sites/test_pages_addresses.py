"""Every address that is derived from a source exists in the site that the real generator built, and none is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aidre.ingest.records import File, read_publication
from aidre.ingest.sites import Sites
from tests.commands.site_builds import BUILDS, LIST, SAMPLES

HOME = "https://site.example.org"
BUILT_AT = datetime(2026, 11, 1, tzinfo=UTC)
PAGES = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".qmd", ".ipynb", ".html")
GENERATED = {
    "mkdocs": r"404\.html",
    "mkdocs-material": r"404\.html|blog/archive/2024\.html",
    "docusaurus": r"404\.html|news/(archive/)?index\.html|docs/next/tips/unlisted/index\.html|de/(?!docs/next/index).*",
    "docusaurus-docs": r"404\.html",
    "vitepress": r"404\.html",
    "vitepress-clean": r"404\.html",
    "sphinx": r"genindex\.html|search\.html",
    "eleventy": r"(?!)",
    "jekyll": r"(?!)",
    "jekyll-pretty": r"(?!)",
    "hugo": r"(de/)?(tags|categories)/index\.html|(de|en)/index\.html|posts/index\.html|docs/deep/index\.html",
    "hugo-ugly": r"(tags|categories)/index\.html|(tags|categories)\.html",
    "astro": r"404\.html",
    "astro-blog": r"(?!)",
    "antora": r"404\.html|index\.html",
}
"""Pages that a generator makes of no file of their own: lists, redirects, untranslated pages under each language; and
one that is built but not to be found, because it is unlisted."""


def derive(root: Path) -> Iterator[tuple[str, str]]:
    """The files of a site with their addresses below its home."""
    sites = Sites(root, "site", HOME)
    for path in sorted(root.rglob("*")):
        origin = path.relative_to(root).as_posix()
        if not path.is_file() or origin == LIST or any(part.startswith(".") for part in origin.split("/")):
            continue
        page = sites.page(File(path, "site", origin, within=root))
        url = page.url
        is_draft = read_publication(sites.matter(origin) or {}, BUILT_AT).reason is not None
        if url is not None and page.left_out(BUILT_AT) is None and not is_draft:
            yield origin, url.removeprefix(HOME + "/")


def served(address: str, built: set[str]) -> str | None:
    """The built file that a web server sends for an address, None for an address where nothing is."""
    from urllib.parse import unquote

    path = unquote(address)
    candidates = (
        [path + "index.html"] if not path or path.endswith("/") else [path, f"{path}.html", f"{path}/index.html"]
    )
    return next((one for one in candidates if one in built), None)


def listed(name: str) -> set[str]:
    return set((SAMPLES / name / LIST).read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", BUILDS)
def test_every_derived_address_exists_in_the_built_site(name: str) -> None:
    built = listed(name)
    derived = list(derive(SAMPLES / name))
    assert derived
    assert [pair for pair in derived if served(pair[1], built) is None] == []


@pytest.mark.parametrize("name", BUILDS)
def test_every_page_of_the_built_site_is_derived_from_its_source(name: str) -> None:
    built = listed(name)
    derived = {served(address, built) for origin, address in derive(SAMPLES / name) if origin.endswith(PAGES)}
    pages = {path for path in built if path.endswith(".html")}
    assert [page for page in sorted(pages - derived) if not re.fullmatch(GENERATED[name], page)] == []


@pytest.mark.parametrize("name", BUILDS)
def test_no_two_files_have_one_address(name: str) -> None:
    addresses = [address for _, address in derive(SAMPLES / name)]
    assert len(set(addresses)) == len(addresses)
