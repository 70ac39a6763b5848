"""OpenAPI paths beside the protocols: health, metrics, the document itself, protected resource metadata."""

from __future__ import annotations

from typing import Any

from aidre.api.access import MCP, RESOURCE_METADATA
from aidre.api.http import JSON
from aidre.api.operations.prometheus import MEDIA_TYPE
from aidre.api.operations.search_page import HTML

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
URI: Schema = {"type": "string", "format": "uri"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STRINGS: Schema = {"type": "array", "items": STRING}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _answer(description: str, schema: Schema, media_type: str = JSON) -> Schema:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _get(name: str, summary: str, schema: Schema, **more: Schema) -> Schema:
    responses = {"200": _answer("The answer", schema), **more}
    return {"get": {"operationId": name, "summary": summary, "responses": responses}}


NOT_MODIFIED: Schema = {"description": "Not modified"}
SIGNPOST = _object(["service", "discovery", "openapi"], service={"const": "AIDRE"}, discovery=URI, openapi=URI)
READINESS = _object(["status", "damaged"], status={"enum": ["ready", "degraded", "unavailable"]}, damaged=COUNT)
DESCRIPTION = _object(["openapi", "info", "paths"], openapi=STRING, info={"type": "object"}, paths={"type": "object"})
RESOURCE = _object(
    ["resource", "bearer_methods_supported", "scopes_supported"],
    resource=URI,
    resource_name=STRING,
    authorization_servers={"type": "array", "items": URI},
    bearer_methods_supported=STRINGS,
    scopes_supported=STRINGS,
    resource_documentation=URI,
)


def paths(refused: Schema) -> Schema:
    """The paths; `refused` is the answer to a request that the guard rejects, in AIDRE's envelope."""
    metrics = _get("showMetrics", "Metrics in the format of Prometheus", STRING)
    shown = _answer("The metrics", STRING, MEDIA_TYPE.partition(";")[0])
    metrics["get"]["responses"] = {"200": shown, "401": refused, "403": refused}
    begin = _get(
        "showSignpost",
        "Links to the other documents; a search page for browsers",
        SIGNPOST,
        **{"304": NOT_MODIFIED},
        **_guarded(refused),
    )
    begin["get"]["responses"]["200"]["content"][HTML] = {"schema": STRING}
    return {
        "/": begin,
        "/healthz": _get("isAlive", "Whether the process is alive", _object(["status"], status={"const": "ok"})),
        "/readyz": _get(
            "isReady",
            "Whether anything can be served",
            READINESS,
            **{"503": _answer("Nothing can be served", READINESS)},
        ),
        "/openapi.json": _get("describe", "This document", DESCRIPTION, **{"304": NOT_MODIFIED}, **_guarded(refused)),
        "/metrics": metrics,
        RESOURCE_METADATA: _resource("describeResource", "Protected resource metadata (RFC 9728)", refused),
        RESOURCE_METADATA + MCP: _resource(
            "describeMcpResource", "Protected resource metadata of MCP (RFC 9728)", refused
        ),
    }


def _guarded(refused: Schema) -> Schema:
    return dict.fromkeys(("401", "403", "429", "503"), refused)


def _resource(name: str, summary: str, refused: Schema) -> Schema:
    return _get(name, summary, RESOURCE, **{"304": NOT_MODIFIED, "401": refused})
