"""The resources of MCP: each collection that the caller may see, described in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from aidre.api.access import Caller
from aidre.api.protocols.nlweb.answer import Service

SCHEME = "aidre://collections/"


@dataclass(frozen=True, slots=True)
class Resource:
    """`text` is the JSON that reading it gives."""

    uri: str
    name: str
    description: str
    text: str


def list_resources(caller: Caller, service: Service) -> Iterator[Resource]:
    """The collections that the caller may see over NLWeb."""
    for one in service.retrieval.collections.visible(caller, "nlweb"):
        snapshot = one.snapshot
        content = {
            "name": one.name,
            "description": one.description,
            "visibility": one.visibility,
            "updated_at": snapshot.collection.updated_at,
            "documents": snapshot.documents,
            "chunks": snapshot.chunks,
            "site": one.name,
        }
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
        yield Resource(SCHEME + one.name, one.name, one.description, text)


def read_resource(uri: str, caller: Caller, service: Service) -> Resource | None:
    """None for one that does not exist for the caller."""
    return next((one for one in list_resources(caller, service) if one.uri == uri), None)
