"""The OpenAPI 3.1 description of the served routes; the protocol texts remain normative (AIDRE 22.2).

Its schemas are made from the structs of the messages, its paths from the operations that each protocol declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.config import Limits, Settings
from aidre.api.http import JSON, Operation, cacheable_response, schema_components
from aidre.api.operations.operations import OPERATIONS, PROVENANCE
from aidre.api.protocols.aidre import OPERATIONS as AIDRE, WRITES
from aidre.api.protocols.intake import OPERATIONS as INTAKE
from aidre.api.protocols.intent import OPERATIONS as INTENT
from aidre.api.protocols.nlweb import OPERATIONS as NLWEB

Schema = dict[str, Any]

VERSION = "1"
TAGS = {
    "AIDRE": "AI Discovery and Retrieval Endpoint, draft-batum-aidre-00",
    "NLWeb": "NLWeb 0.55",
    "Agentic Intent": "Agentic Intent Protocol 0.1",
    "Agent Intake": "Agent Intake Protocol 0.1.0",
    "Provenance": "The public keys of signed chunks and answers",
    "Operations": "Health, metrics and descriptions of the server",
}
EXAMPLES = Path(__file__).with_name("openapi_examples.json")
"""Requests and answers by the name of the operation."""
LIMITED = (("SearchRequest", "query"), ("AskQuery", "text"), ("IntentRuntime", "query_text"))
"""Members that have at most `query_chars` characters."""


def description(settings: Settings) -> Schema:
    """The whole document: the routes that are always served, and those that this configuration enables."""
    operations = list(_operations(settings))
    examples = _examples()
    paths: Schema = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation.described(examples.get(operation.name, {}))
    for parameter in paths["/ask"]["get"]["parameters"]:
        parameter["schema"] = {**parameter["schema"], "maxLength": settings.limits.query_chars}
    tags = {operation.tag for operation in operations}
    components: Schema = {"schemas": _schemas(operations, settings.limits)}
    if settings.knows_callers:
        bearer = {"type": "http", "scheme": "bearer", "description": "A secret of the operator, or an OAuth token"}
        components["securitySchemes"] = {"bearer": bearer}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": settings.server.organization or "AIDRE",
            "version": VERSION,
            "description": "Search of a publisher's documents for agents, over "
            + ", ".join(
                text for name, text in TAGS.items() if name in tags and name not in {"Provenance", "Operations"}
            ),
            "contact": {"name": settings.server.organization or "The operator", "url": str(settings.server.base_url)},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": str(settings.server.base_url)}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in tags],
        "security": [{}, {"bearer": []}] if settings.knows_callers else [{}],
        "paths": paths,
        "components": components,
    }


def _operations(settings: Settings) -> Iterator[Operation]:
    yield from AIDRE
    if settings.server.writes:
        yield from WRITES
    yield from NLWEB
    if settings.intakes:
        yield from INTAKE
    if settings.intent.declared:
        yield from INTENT
    if settings.provenance.key is not None:
        yield from PROVENANCE
    yield from OPERATIONS


def _schemas(operations: Iterable[Operation], limits: Limits) -> Schema:
    """The components, with the limits that are in force."""
    kinds = dict.fromkeys(kind for operation in operations for kind in operation.kinds())
    schemas = schema_components(kinds)
    for name, member in LIMITED:
        if name in schemas:
            schemas[name]["properties"][member]["maxLength"] = limits.query_chars
    top_k = schemas["SearchRequest"]["properties"]["top_k"]
    top_k["description"] += f"; {limits.top_k_default} if left out, a larger number than {limits.top_k_max} is clamped"
    return schemas


@cache
def _examples() -> Schema:
    examples: Schema = orjson.loads(EXAMPLES.read_bytes())
    return examples


async def show(request: Request) -> Response:
    """The document, built once."""
    state = request.app.state
    if not hasattr(state, "described"):
        state.described = orjson.dumps(description(state.retrieval.settings))
    return cacheable_response(request, state.described, "max-age=300", JSON)


routes = [Route("/openapi.json", show, methods=["GET"])]
