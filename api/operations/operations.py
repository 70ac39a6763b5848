"""The operations beside the protocols: health, metrics, documents about the server, public keys."""

from __future__ import annotations

from functools import partial

from aidre.api.access import MCP, RESOURCE_METADATA
from aidre.api.http import AIDRE_JSON, JSON, PROBLEM_JSON, BodyContent, Error, Operation
from aidre.api.operations.catalogs import (
    AI_CATALOG,
    AI_CATALOG_TYPE,
    API_CATALOG,
    CARD_TYPE,
    CATALOG,
    EARLIER_CARD,
    JSON_LD,
    LINKSET,
    OPENSEARCH,
    OPENSEARCH_TYPE,
    SERVER_CARD,
    SITEMAP,
    XML,
)
from aidre.api.operations.crawling import ROBOTS, TEXT as ROBOTS_TYPE
from aidre.api.operations.llms_text import MEDIA_TYPE as LLMS_MEDIA_TYPE
from aidre.api.operations.monitoring import MEDIA_TYPE
from aidre.api.operations.page import HTML, Signpost
from aidre.api.operations.status_messages import (
    AiCatalog,
    ApiCatalog,
    Datasets,
    Description,
    KeySet,
    Liveness,
    ProtectedResource,
    Readiness,
    ServerCard,
)
from aidre.api.protocols.provenance import KEYS_MEDIA_TYPE, WELL_KNOWN

ERROR = BodyContent(Error, (AIDRE_JSON, JSON, PROBLEM_JSON), "An error")
TEXT = {"type": "string"}

_get = partial(Operation, method="get", tag="Operations", error=ERROR)
_open = partial(_get, guarded=False, errors=(421,))

OPERATIONS: tuple[Operation, ...] = (
    _get(
        path="/",
        name="showSignpost",
        summary="Links to the other documents",
        description="The search page for browsers.",
        answers={200: BodyContent(Signpost, also={HTML: TEXT})},
        conditional=True,
    ),
    _get(
        path="/docs",
        name="showDocumentation",
        summary="This documentation as a page",
        description="Drawn in the browser from the OpenAPI document.",
        answers={200: BodyContent(TEXT, (HTML,))},
        conditional=True,
    ),
    _open(
        path="/healthz",
        name="isAlive",
        summary="Whether the process is alive",
        description="Answered without a look at the store.",
        answers={200: BodyContent(Liveness)},
    ),
    _open(
        path="/readyz",
        name="isReady",
        summary="Whether anything can be served",
        description="Ready while any collection can be served.",
        answers={200: BodyContent(Readiness), 503: BodyContent(Readiness, description="Nothing can be served")},
    ),
    _get(
        path="/openapi.json",
        name="describe",
        summary="This document",
        description="The routes that this server serves.",
        answers={200: BodyContent(Description)},
        conditional=True,
    ),
    _get(
        path="/llms.txt",
        name="introduce",
        summary="What may be searched here, for language models",
        description="Collections and interfaces as Markdown, by the conventions of llmstxt.org.",
        answers={200: BodyContent(TEXT, (LLMS_MEDIA_TYPE.partition(";")[0],))},
        conditional=True,
    ),
    _get(
        path=API_CATALOG,
        name="listInterfaces",
        summary="The interfaces of this server (RFC 9727)",
        description="A linkset (RFC 9264): each interface with what describes it.",
        answers={200: BodyContent(ApiCatalog, (LINKSET,))},
        conditional=True,
    ),
    _get(
        path=SERVER_CARD,
        name="showServerCard",
        summary="The server card of the Model Context Protocol",
        description="Name, address and versions, for clients that have not connected yet.",
        answers={200: BodyContent(ServerCard, (CARD_TYPE,))},
        errors=(404,),
        conditional=True,
    ),
    _get(
        path=EARLIER_CARD,
        name="showServerCardAsBefore",
        summary="The same at the address of earlier proposals",
        description="Many programs look for the card here.",
        answers={200: BodyContent(ServerCard)},
        errors=(404,),
        conditional=True,
    ),
    _get(
        path=AI_CATALOG,
        name="listServers",
        summary="Where the server card is, for those who know the website alone",
        description="An AI Catalog with the server of the Model Context Protocol, or with none.",
        answers={200: BodyContent(AiCatalog, (AI_CATALOG_TYPE,))},
        conditional=True,
    ),
    _get(
        path=CATALOG,
        name="listDatasets",
        summary="The public collections as JSON-LD",
        description="A schema.org WebSite with its SearchAction, and a DataCatalog.",
        answers={200: BodyContent(Datasets, (JSON_LD,))},
        conditional=True,
    ),
    _get(
        path=OPENSEARCH,
        name="describeSearch",
        summary="How browsers search here",
        description="An OpenSearch 1.1 description.",
        answers={200: BodyContent(TEXT, (OPENSEARCH_TYPE,))},
        conditional=True,
    ),
    _get(
        path=ROBOTS,
        name="showRobots",
        summary="What crawlers may read",
        description="Everything that is public; it names the sitemap.",
        answers={200: BodyContent(TEXT, (ROBOTS_TYPE,))},
        conditional=True,
    ),
    _get(
        path=SITEMAP,
        name="showSitemap",
        summary="The documents that are on this website",
        description="Documents of public collections whose addresses begin as that of this server; 50,000 at most.",
        answers={200: BodyContent(TEXT, (XML,))},
        conditional=True,
    ),
    _open(
        path="/metrics",
        name="showMetrics",
        summary="Metrics in the format of Prometheus",
        description="Counts of requests and searches, their durations, and the state of the collections.",
        answers={200: BodyContent(TEXT, (MEDIA_TYPE.partition(";")[0],))},
        errors=(401, 403, 421),
    ),
    _open(
        path=RESOURCE_METADATA,
        name="describeResource",
        summary="Protected resource metadata (RFC 9728)",
        description="Where clients get a token for this server.",
        answers={200: BodyContent(ProtectedResource)},
        errors=(401, 421),
        conditional=True,
    ),
    _open(
        path=RESOURCE_METADATA + MCP,
        name="describeMcpResource",
        summary="Protected resource metadata of MCP (RFC 9728)",
        description="Where clients of the Model Context Protocol get a token.",
        answers={200: BodyContent(ProtectedResource)},
        errors=(401, 421),
        conditional=True,
    ),
)
PROVENANCE: tuple[Operation, ...] = (
    _open(
        path=WELL_KNOWN,
        name="listProvenanceKeys",
        tag="Provenance",
        summary="The public keys of signed provenance",
        description="Verify chunks and answers with them. Fetch them again when a signature names an unknown key.",
        answers={200: BodyContent(KeySet, (KEYS_MEDIA_TYPE,))},
        errors=(401, 421),
        conditional=True,
    ),
)
