"""HTML pages as Documents: the one object of schema.org that a page is about is the document's own.

What the page says is read in the sandbox (page.py); which of its objects it is about is decided here, where its
address is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Json
from aidre.ingest import jsonld, schemaorg
from aidre.ingest.extracted import Extracted, extracted
from aidre.ingest.found import File, Found, content
from aidre.ingest.members import document, document_id, instant
from aidre.ingest.sandbox import SHARED
from aidre.ingest.vectors import VectorRules


def html(file: File, rules: VectorRules) -> Iterator[Found]:
    """The one document of a page; raises InvalidDocument, OSError."""
    page = SHARED.parse("html", content(file), {} if file.url is None else {"url": file.url})
    yield file.origin, page_document(extracted(page), file)


def page_document(page: Extracted, file: File) -> Document:
    """A page is one document. Its text is the page's; an object has a say where the page has no words of its own.

    A page that lists several objects, none of which it is about, has them all as its semantic payload: each has, or
    should have, a page of its own.
    """
    urls = [url for url in (page.canonical, file.url) if url is not None]
    about = jsonld.main_object(page.objects, urls)
    said = {} if about is None else _said(about)
    listed = [each for each in page.objects if not jsonld.is_part_type(each)]
    language = {} if page.language is None else {"language": page.language}
    members: dict[str, Json] = {
        "title": page.title or said.get("title") or _first_heading(page) or file.path.stem,
        "url": page.canonical or file.url,
        "type": said.get("type"),
        "updated_at": page.updated_at or said.get("updated_at"),
        "metadata": language | dict(page.metadata),
    }
    if about is None and listed:
        members["semantic_payload"] = {"@context": "https://schema.org", "@graph": listed}
    has_words = bool(page.text) and not page.text.isspace()
    return document(
        members,
        file,
        document_id(file.id, "the path"),
        text=page.text if has_words else str(said.get("text") or ""),
        headings=page.headings,
        schema_object=about,
    )


def _said(about: Mapping[str, Json]) -> dict[str, Json]:
    """What an object says as a row does; an odd one, which is no fault of its page, says nothing."""
    try:
        row = schemaorg.as_row(about)
        row["updated_at"] = None if row["updated_at"] is None else instant(row["updated_at"])
    except InvalidDocument:
        return {}
    return row


def _first_heading(page: Extracted) -> str | None:
    return next((each.title for each in page.headings if each.level == 1), None)
