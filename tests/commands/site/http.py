"""The reference of the HTTP routes, generated from the OpenAPI document that the server serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from aidre.api.config.settings import load_settings
from aidre.api.operations.openapi import description
from tests import ROOT

Schema = Mapping[str, Any]
INTRODUCTION = """# HTTP

Every route of a server whose configuration enables all protocols and writing. `GET /openapi.json` of a running server
describes the routes that it serves, for programs that generate clients; `GET /docs` shows them in a browser. Members in
bold are required.
"""
DEPTH = 3
"""Levels of members that a table shows."""


def http_page() -> str:
    """The page in Markdown: the routes by protocol, each with parameters, body, answers and an example."""
    settings = load_settings(ROOT / "demo" / "aidre.toml")
    settings = structs.replace(settings, server=structs.replace(settings.server, writes=True))
    document = json.loads(json.dumps(description(settings)))
    sections = []
    for tag in document["tags"]:
        sections.append(f"\n## {tag['name']}\n\n{tag['description']}.\n")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", ()):
                    sections.append(_operation(method.upper(), path, operation, document))
    return INTRODUCTION + "".join(sections)


def _operation(method: str, path: str, operation: Schema, document: Schema) -> str:
    text = f"\n### {method} {path}\n\n{operation.get('summary', '').strip()}"
    text = (
        text.rstrip(".") + "." + (f" {operation['description'].strip()}" if operation.get("description") else "") + "\n"
    )
    if parameters := operation.get("parameters"):
        rows = "".join(_parameter(_resolved(one, document), document) for one in parameters)
        text += f"\n| parameter | in | type | meaning |\n|---|---|---|---|\n{rows}"
    if body := operation.get("requestBody"):
        text += _content("Request", _resolved(body, document).get("content", {}), document)
    statuses = []
    for status, answer in operation["responses"].items():
        statuses.append(f"| {status} | {_line(_resolved(answer, document).get('description', ''))} |\n")
    text += "\n| status | answer |\n|---|---|\n" + "".join(statuses)
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            text += _content(f"Answer {status}", _resolved(answer, document).get("content", {}), document)
    return text


def _parameter(parameter: Schema, document: Schema) -> str:
    name = f"**`{parameter['name']}`**" if parameter.get("required") else f"`{parameter['name']}`"
    kind = _type(parameter.get("schema", {}), document)
    return f"| {name} | {parameter['in']} | {kind} | {_line(parameter.get('description', ''))} |\n"


def _content(label: str, content: Schema, document: Schema) -> str:
    """The members of the first media type with a schema, and its first example."""
    text = ""
    for media_type, media in list(content.items())[:1]:
        schema = _resolved(media.get("schema", {}), document)
        rows = "".join(_members(schema, document))
        text += f"\n{label}, `{media_type}`"
        text += (
            f":\n\n| member | type | meaning |\n|---|---|---|\n{rows}" if rows else f": {_type(schema, document)}.\n"
        )
        examples = [one.get("value") for one in media.get("examples", {}).values()] or [media.get("example")]
        if isinstance(examples[0], dict | list):
            text += f"\n```json\n{json.dumps(examples[0], indent=1, ensure_ascii=False)[:2_000]}\n```\n"
    return text


def _members(schema: Schema, document: Schema, prefix: str = "", depth: int = 1) -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        shown = f"**`{prefix}{name}`**" if name in schema.get("required", ()) else f"`{prefix}{name}`"
        yield f"| {shown} | {_type(member, document)} | {_line(member.get('description', ''))} |\n"
        inner = _resolved(member, document)
        inner = _resolved(inner.get("items", inner), document)
        if depth < DEPTH and inner.get("type") == "object":
            yield from _members(inner, document, f"{prefix}{name}.", depth + 1)


def _resolved(schema: Schema, document: Schema) -> Schema:
    """What a reference names; of an optional one, what it may be."""
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:
        return _resolved(choices[0], document)
    if "$ref" not in schema:
        return schema
    found = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return _resolved(found, document)


def _type(schema: Schema, document: Schema) -> str:
    schema = _resolved(schema, document)
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(one, document) for one in choices))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}), document)}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
