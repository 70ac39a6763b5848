"""What crawlers, browsers and search engines read: /robots.txt, /sitemap.xml, /opensearch.xml and JSON-LD.

All are the same for every caller, so they name public collections alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import ANONYMOUS, caller_of
from aidre.api.config import Settings
from aidre.api.http import JSON, cacheable_response, render_error, renders_errors_with
from aidre.api.operations.catalogs import CATALOG, JSON_LD, OPENSEARCH, OPENSEARCH_TYPE, SITEMAP, XML, origin_of
from aidre.api.retrieval import Retrieval, VisibleCollection
from aidre.engine.index.fields import parse_filter, site_of
from aidre.engine.ports import Reader

ROBOTS, TEXT = "/robots.txt", "text/plain"
MAX_URLS = 50_000
"""Addresses of one sitemap (sitemaps.org)."""
MAX_NAME_CHARS = 16
"""Longest ShortName of OpenSearch."""
OPENSEARCH_NAMESPACE = "http://a9.com/-/spec/opensearch/1.1/"
SITEMAP_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"

Mark: TypeAlias = tuple[tuple[str, str, int], ...]
"""Name, lineage and generation of each collection: equal ones have the same documents."""


def site_data(settings: Settings) -> dict[str, Any]:
    """The website as JSON-LD, for the page itself: how to search it, and where its collections are described."""
    base = settings.server.base_url
    action = {"@type": "SearchAction", "target": f"{base}/?q={{q}}", "query-input": "required name=q"}
    catalog = {"@type": "DataCatalog", "@id": CATALOG[1:]}
    return {
        "@context": "https://schema.org",
        "@type": "WebSite",
        "url": f"{base}/",
        "potentialAction": action,
        "hasPart": catalog,
    }


@renders_errors_with(render_error)
async def show_catalog(request: Request) -> Response:
    """The website and its public collections as JSON-LD."""
    retrieval: Retrieval = request.app.state.retrieval
    settings, public = retrieval.settings, _public(retrieval)
    base, organization = settings.server.base_url, settings.server.organization
    site = {**site_data(settings), "@id": f"{base}/", "name": organization or "AIDRE"}
    context = site.pop("@context")
    catalog = {
        "@type": "DataCatalog",
        "@id": f"{base}{CATALOG}",
        "name": f"Collections of {organization}" if organization else "Collections",
        "url": f"{base}/collections",
        **({"publisher": {"@type": "Organization", "name": organization}} if organization else {}),
        "dataset": [_dataset(str(base), collection) for collection in public],
    }
    content = {"@context": context, "@graph": [{**site, "hasPart": {"@id": catalog["@id"]}}, catalog]}
    return cacheable_response(request, orjson.dumps(content), "no-cache", JSON_LD)


def _dataset(base: str, collection: VisibleCollection) -> dict[str, Any]:
    url = f"{base}/collections/{quote(collection.name)}"
    documents = collection.snapshot.documents
    return {
        "@type": "Dataset",
        "@id": url,
        "name": collection.name,
        "description": collection.description or f"The collection {collection.name}",
        "url": url,
        "dateModified": collection.snapshot.collection.updated_at,
        "size": f"{documents} document{'' if documents == 1 else 's'}",
        "isAccessibleForFree": True,
        "distribution": [{"@type": "DataDownload", "encodingFormat": JSON, "contentUrl": f"{url}/changes"}],
    }


def _public(retrieval: Retrieval) -> list[VisibleCollection]:
    """The collections that everybody sees over AIDRE."""
    return list(retrieval.collections.visible(ANONYMOUS, "aidre"))


@renders_errors_with(render_error)
async def show_opensearch(request: Request) -> Response:
    """How browsers search here (OpenSearch 1.1)."""
    retrieval: Retrieval = request.app.state.retrieval
    base = str(retrieval.settings.server.base_url)
    name = retrieval.settings.server.organization or "Search"
    addresses = [("text/html", f"{base}/?q={{searchTerms}}")]
    if retrieval.collections.names(ANONYMOUS, "nlweb"):
        addresses.append((JSON, f"{base}/ask?query={{searchTerms}}"))
    urls = "".join(f"<Url type={quoteattr(kind)} template={quoteattr(url)}/>" for kind, url in addresses)
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><OpenSearchDescription xmlns="{OPENSEARCH_NAMESPACE}">'
        f"<ShortName>{escape(name[:MAX_NAME_CHARS])}</ShortName>"
        f"<Description>{escape(f'Search of {name}')}</Description>"
        f"<InputEncoding>UTF-8</InputEncoding>{urls}</OpenSearchDescription>"
    )
    return cacheable_response(request, content.encode(), "max-age=300", OPENSEARCH_TYPE)


@renders_errors_with(render_error)
async def show_robots(request: Request) -> Response:
    base = request.app.state.retrieval.settings.server.base_url
    content = f"User-agent: *\nAllow: /\n\nSitemap: {base}{SITEMAP}\n"
    return cacheable_response(request, content.encode(), "max-age=300", f"{TEXT}; charset=utf-8")


# -- the sitemap -----------------------------------------------------------------------------------------------------


@renders_errors_with(render_error)
async def show_sitemap(request: Request) -> Response:
    """The documents of public collections whose addresses are on this website, and the page."""
    retrieval: Retrieval = request.app.state.retrieval
    retrieval.check_budget(caller_of(request))
    public = _public(retrieval)
    mark: Mark = tuple(
        (collection.name, collection.snapshot.lineage, collection.snapshot.generation) for collection in public
    )
    made_for, content = getattr(request.app.state, "sitemap", (None, b""))
    if made_for != mark:
        readers = [collection.snapshot for collection in public]
        content = await retrieval.in_thread(partial(_sitemap, retrieval.settings, readers))
        request.app.state.sitemap = mark, content
    return cacheable_response(request, content, "no-cache", XML)


def _sitemap(settings: Settings, readers: list[Reader]) -> bytes:
    base = f"{settings.server.base_url}/"
    addresses = {base: ""}
    for url, updated_at in _addresses(readers, [origin_of(settings), str(settings.server.base_url)]):
        if len(addresses) == MAX_URLS:
            break
        addresses.setdefault(url, updated_at)
    entries = "".join(
        f"<url><loc>{escape(url)}</loc>{f'<lastmod>{escape(moment)}</lastmod>' if moment else ''}</url>"
        for url, moment in addresses.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="{SITEMAP_NAMESPACE}">{entries}</urlset>'.encode()


def _addresses(readers: list[Reader], roots: list[str]) -> Iterator[tuple[str, str]]:
    """The address and the date of each document that is on the website of one of the roots."""
    prefixes = tuple("/".join(root.split("/", 3)[:3]) + "/" for root in roots)
    sites = parse_filter({"site": {"in": [site_of(prefix) for prefix in prefixes]}})
    for reader in readers:
        with closing(reader.scan(sites)) as chunks:  # type: ignore[type-var]
            for chunk in chunks:
                if chunk.url is not None and chunk.url.startswith(prefixes):  # not of another port or scheme
                    yield chunk.url, chunk.updated_at


routes = [
    Route(ROBOTS, show_robots, methods=["GET"]),
    Route(SITEMAP, show_sitemap, methods=["GET"]),
    Route(OPENSEARCH, show_opensearch, methods=["GET"]),
    Route(CATALOG, show_catalog, methods=["GET"]),
]
