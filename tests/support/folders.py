"""For tests of sources on disk: files that are written into folders, and what is read from them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from aidre.engine.model import Document, EmbeddingSpace
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sites import UrlStyle
from aidre.ingest.sources.folder import FileSource, read_source
from aidre.ingest.sources.locate import locate_sources
from tests.support import rows

RULES = VectorRules([EmbeddingSpace("s", 2, "cosine")], [])


def write(path: Path, content: str | bytes = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found_in(
    *paths: Path,
    name: str | None = None,
    url_base: str | None = None,
    url_style: UrlStyle = "auto",
    notes: list[str] | None = None,
    as_of: datetime | None = None,
) -> list[Item]:
    """What the sources yield; what they note is added to `notes`."""
    noted: list[str] = [] if notes is None else notes
    found: list[Item] = []
    for source in locate_sources(paths, name, url_base, url_style):
        assert isinstance(source, FileSource)
        found += read_source(source, RULES, noted.append, as_of=as_of)
    return found


def documents(*paths: Path, name: str | None = None, url_base: str | None = None) -> list[Document]:
    """The documents of sources of which nothing fails."""
    return rows.documents(found_in(*paths, name=name, url_base=url_base))


def rejections(path: Path) -> list[Rejected]:
    return [each for each in found_in(path) if isinstance(each, Rejected)]
