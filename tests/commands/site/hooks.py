"""What mkdocs calls: it adds the pages that are made from the code or lie outside of docs/, and turns links to them."""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests import ROOT
from tests.commands.site.links import SHOWN, rewritten
from tests.commands.site.pages import GENERATED, MARKS
from tests.commands.site.rooms import FOLDERS, room_page, rooms


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Enters the pages of the rooms below Architecture."""
    section = next(entry["Architecture"] for entry in config.nav or [] if "Architecture" in entry)
    for folder in FOLDERS:
        pages = [{f"{room.path}/": room.page} for room in rooms() if room.path.split("/")[0] == folder]
        section.append({f"{folder}/": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and pictures that are not in docs/."""
    for path, make in GENERATED.items():
        files.append(File.generated(config, path, content=make()))
    for room in rooms():
        files.append(File.generated(config, room.page, content=room_page(room)))
    for source, path in SHOWN.items():
        if (ROOT / source).exists():
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, path, content=rewritten(text, source, path)))
    for picture in sorted((ROOT / "benchmarks" / "plots").glob("*.svg")):
        files.append(File.generated(config, f"plots/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns links of pages in docs/ that leave it."""
    path = page.file.src_uri
    for name, make in MARKS.items():
        mark = f"<!-- {name} -->"
        markdown = markdown.replace(mark, make()) if mark in markdown else markdown
    return rewritten(markdown, f"docs/{path}", path) if page.file.generated_by is None else markdown
