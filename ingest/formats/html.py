"""HTML pages as Documents: the schema.org object that a page is about becomes the document's own.

The sandbox parses the page (html_parser.py); the choice among its objects is made here, where its address is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, Json
from aidre.ingest.formats import jsonld, schemaorg
from aidre.ingest.records import (
    PUBLISHED,
    File,
    Item,
    Unpublished,
    VectorRules,
    mark_expiry,
    note,
    read_content,
    read_date,
    read_robots,
    to_document,
    to_document_id,
)
from aidre.ingest.sandbox import SHARED, Extracted, check_answer


def read_html(file: File, rules: VectorRules) -> Iterator[Item]:
    """The one document of a page, unless it is fetched and asks not to be indexed; raises InvalidDocument, OSError.

    A publisher's own folder may hold pages for other readers than search engines, so there it is ingested.
    """
    options = {"url": file.url, "charset": file.charset}
    page = check_answer(
        SHARED.parse("html", read_content(file), {name: each for name, each in options.items() if each})
    )
    note(file, page.notice)
    publication = PUBLISHED if file.as_of is None or not file.fetched else read_robots(page.robots, file.as_of)
    if publication.reason is not None:
        yield Unpublished(file.origin, publication.reason, file.source, file.origin)
    else:
        yield file.origin, mark_expiry(page_to_document(page, file), publication)


def page_to_document(page: Extracted, file: File) -> Document:
    """The document of a page: members come from the page itself, and from its main object if the page lacks them.

    A page without a main object that lists several objects has all of them as its semantic payload: each of them has,
    or should have, a page of its own. Raises InvalidDocument.
    """
    urls = [url for url in (page.canonical, file.url) if url is not None]
    about = jsonld.find_main_object(page.objects, urls)
    row = {} if about is None else _to_valid_row(about)
    listed = [item for item in page.objects if not jsonld.is_part_type(item)]
    language = {} if page.language is None else {"language": page.language}
    members: dict[str, Json] = {
        "title": page.title or row.get("title") or _first_heading(page) or file.path.stem,
        "url": page.canonical or file.url,
        "type": row.get("type"),
        "updated_at": page.updated_at or row.get("updated_at"),
        "metadata": language | dict(page.metadata),
    }
    if about is None and listed:
        members["semantic_payload"] = {"@context": "https://schema.org", "@graph": listed}
    has_words = bool(page.text) and not page.text.isspace()
    return to_document(
        members,
        file,
        to_document_id(file.id, "the path"),
        text=page.text if has_words else str(row.get("text") or ""),
        headings=page.headings,
        verbatim=page.verbatim if has_words else (),
        schema_object=about,
    )


def _to_valid_row(about: Mapping[str, Json]) -> dict[str, Json]:
    """The object as a row; empty for an invalid object, which is not a fault of the page."""
    try:
        row = schemaorg.to_row(about)
        row["updated_at"] = read_date(row["updated_at"])
    except InvalidDocument:
        return {}
    return row


def _first_heading(page: Extracted) -> str | None:
    """The first heading of level 1; without one, the first of all."""
    titles = [heading.title for heading in page.headings if heading.level == 1] or [
        heading.title for heading in page.headings
    ]
    return titles[0] if titles else None
