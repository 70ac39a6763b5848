"""The documentation site opened from the disk: its search works there, and asks no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.support.clocks import until
from tests.support.search_site import chromium

pytestmark = [pytest.mark.process, pytest.mark.slow]
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def built(folder: Path) -> Path:
    """A site of two pages, with the theme, the search and the scripts of the documentation."""
    pytest.importorskip("material")
    kept = {name: SETTINGS[name] for name in ("theme", "extra", "use_directory_urls")}
    settings = {"site_name": "site", "plugins": ["search", "offline"], **kept}
    (folder / "docs" / "inner").mkdir(parents=True)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "docs" / "index.md").write_text("# Start\n\nNothing to see.\n", encoding="utf-8")
    (folder / "docs" / "inner" / "power.md").write_text("# Power\n\nIt survives a power cut.\n", encoding="utf-8")
    shutil.copy(ROOT / "docs" / "iframe-worker.js", folder / "docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", str(folder / "mkdocs.yml")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder / "site"


def test_the_search_works_on_the_disk_and_asks_no_network(tmp_path: Path) -> None:
    site = built(tmp_path)
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "inner/power.html"):
            found, pauses = page.locator(".md-search-result__link").first, count(500, 500)

            def is_found(name: str = name, found: Any = found, pauses: Iterator[int] = pauses) -> bool:
                """Opened again until what is typed meets a search that is ready: on a busy machine that takes a while,
                and the theme forgets what was typed before."""
                page.goto(f"file://{site}/{name}")
                page.wait_for_timeout(next(pauses))
                page.locator(".md-search__input").fill("power cut")
                page.wait_for_timeout(1_500)
                return bool(found.is_visible())

            until(is_found, "the search finds nothing")
            assert str(found.get_attribute("href")).split("?")[0].endswith("inner/power.html")
    assert [url for url in asked if not url.startswith("file:")] == []


def test_the_site_is_built_with_what_was_tried_here() -> None:
    plugins = [one if isinstance(one, str) else next(iter(one)) for one in SETTINGS["plugins"]]
    assert {"search", "offline"} <= set(plugins)
    assert SETTINGS["extra"]["polyfills"] == ["iframe-worker.js"]
