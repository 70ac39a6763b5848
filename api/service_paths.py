"""What /openapi.json says of the addresses beside the protocols: health, metrics, itself, how to come in."""

from __future__ import annotations

from typing import Any

from aidre.api.exposition import MEDIA_TYPE
from aidre.api.guard.metadata import MCP, WELL_KNOWN
from aidre.api.page.routes import HTML
from aidre.api.wire import JSON

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


KEPT: Schema = {"description": "The caller has it already"}
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
    """The paths; `refused` is what the envelope of AIDRE says where it is asked for one that the guard does not let
    in."""
    metrics = _get("showMetrics", "What was counted, as Prometheus reads it", STRING)
    shown = _answer("The metrics", STRING, MEDIA_TYPE.partition(";")[0])
    metrics["get"]["responses"] = {"200": shown, "401": refused, "403": refused}
    begin = _get("showSignpost", "Where to begin; a page for people", SIGNPOST, **{"304": KEPT}, **_guarded(refused))
    begin["get"]["responses"]["200"]["content"][HTML] = {"schema": STRING}
    return {
        "/": begin,
        "/healthz": _get("isAlive", "Whether the process lives", _object(["status"], status={"const": "ok"})),
        "/readyz": _get(
            "isReady", "Whether anything can be served", READINESS, **{"503": _answer("Nothing can", READINESS)}
        ),
        "/openapi.json": _get("describe", "This document", DESCRIPTION, **{"304": KEPT}, **_guarded(refused)),
        "/metrics": metrics,
        WELL_KNOWN: _resource("describeResource", "How to come in (RFC 9728)", refused),
        WELL_KNOWN + MCP: _resource("describeMcpResource", "How MCP clients come in (RFC 9728)", refused),
    }


def _guarded(refused: Schema) -> Schema:
    return dict.fromkeys(("401", "403", "429", "503"), refused)


def _resource(name: str, summary: str, refused: Schema) -> Schema:
    return _get(name, summary, RESOURCE, **{"304": KEPT, "401": refused})
