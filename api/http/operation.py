"""One operation of the OpenAPI document: what a route takes and answers, by the structs of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aidre.api.http.request import JSON

Schema = dict[str, Any]

GUARDED = (401, 403, 429, 503)
"""Statuses of the guard, in the error envelope of the protocol of the path."""


@dataclass(frozen=True, slots=True)
class BodyContent:
    """A body: its struct, or the schema of what is not JSON, and its media types, the preferred one first.

    `also` are schemas of further media types.
    """

    kind: type | Schema
    media_types: tuple[str, ...] = (JSON,)
    description: str = "The answer"
    also: Mapping[str, Schema] = field(default_factory=dict)

    def described(self, example: Any) -> Schema:
        """The media types of a Request Body or Response Object."""
        kind = self.kind
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"} if isinstance(kind, type) else kind
        described = {"schema": schema} if example is None else {"schema": schema, "example": example}
        others = {media_type: {"schema": also} for media_type, also in self.also.items()}
        return dict.fromkeys(self.media_types, described) | others


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path, a query string or a header."""

    name: str
    place: Literal["path", "query", "header"]
    description: str
    example: Any
    schema: Schema = field(default_factory=lambda: {"type": "string"})
    required: bool | None = None
    """None: unless it is one of the query string."""

    def described(self) -> Schema:
        """The Parameter Object."""
        required = self.place != "query" if self.required is None else self.required
        described = {"name": self.name, "in": self.place, "required": required, "description": self.description}
        return {**described, "schema": self.schema, "example": self.example}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path. `answers` are by status, `errors` are the statuses that are answered with `error`; a
    conditional GET may be answered with 304, and a guarded route answers as the guard does."""

    method: Literal["get", "post", "put", "delete"]
    path: str
    name: str
    tag: str
    summary: str
    description: str
    answers: Mapping[int, BodyContent]
    error: BodyContent | None = None
    errors: tuple[int, ...] = ()
    request: BodyContent | None = None
    parameters: tuple[Parameter, ...] = ()
    links: Mapping[str, Schema] = field(default_factory=dict)
    conditional: bool = False
    guarded: bool = True

    def kinds(self) -> list[type]:
        """The structs of all its bodies."""
        contents = (self.request, *self.answers.values(), self.error)
        return [content.kind for content in contents if content is not None and isinstance(content.kind, type)]

    def described(self, examples: Mapping[str, Any]) -> Schema:
        """The Operation Object. `examples` has the example of the request as `request`, of answers by status."""
        described: Schema = {
            "operationId": self.name,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
        }
        if self.parameters:
            described["parameters"] = [parameter.described() for parameter in self.parameters]
        if self.request is not None:
            content = self.request.described(examples.get("request"))
            described["requestBody"] = {"required": True, "content": content}
        return {**described, "responses": self._responses(examples)}

    def _responses(self, examples: Mapping[str, Any]) -> Schema:
        responses: dict[int, Schema] = {}
        for status, content in self.answers.items():
            described = content.described(examples.get(str(status)))
            responses[status] = {"description": content.description} | ({"content": described} if described else {})
        if self.links:
            responses[max(responses)]["links"] = dict(self.links)
        if self.conditional:
            responses[304] = {"description": "The caller has it already: its copy is current"}
        if self.error is not None:
            refused = {"description": self.error.description, "content": self.error.described(None)}
            responses |= dict.fromkeys((*self.errors, *(GUARDED if self.guarded else ())), refused)
        return {str(status): responses[status] for status in sorted(responses)}


def link(operation: str, description: str, **parameters: str) -> Schema:
    """A link from an answer to a further request, whose parameters are runtime expressions. What goes into the body is
    said in the description: many generators refuse a document with a `requestBody` here that is not a string."""
    described: Schema = {"operationId": operation, "description": description}
    return described | ({"parameters": parameters} if parameters else {})
