"""The messages of the routes that belong to no protocol: health, the signpost, metadata of resources, public keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http import Link, Message

Base64Key: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{43}$")]


class Liveness(Message):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(Message):
    """Whether anything can be served, and how many collections are damaged."""

    status: Literal["ready", "degraded", "unavailable"]
    damaged: Annotated[int, Meta(ge=0)]
    #: Of a replica: seconds since its bucket was last read without a problem.
    replica_age: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    protocols: list[str] | UnsetType = UNSET
    #: Of a lazy replica: the collections that are pulled at the first question to them.
    unpulled: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class Description(Message):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


class ApiCatalog(Message):
    """Links of interfaces (RFC 9264), the catalog's own first."""

    linkset: list[dict[str, Any]]


class Remote(Message):
    """Where a server of the Model Context Protocol is."""

    type: Literal["streamable-http"]
    url: Link
    supported_protocol_versions: list[str] = field(name="supportedProtocolVersions")


class ServerCard(Message):
    """A server of the Model Context Protocol, for clients that have not connected (SEP-2127)."""

    schema: Link = field(name="$schema")
    name: Annotated[str, Meta(description="Reversed host and name of the server")]
    version: str
    description: str
    website_url: Link = field(name="websiteUrl")
    remotes: list[Remote]
    title: str | UnsetType = UNSET


class CatalogEntry(Message):
    """Where the server card of a server is."""

    identifier: str
    type: str
    url: Link


class AiCatalog(Message):
    """What a website offers to programs of language models: its server of the Model Context Protocol."""

    spec_version: str = field(name="specVersion")
    entries: list[CatalogEntry]


class Datasets(Message):
    """The website and its public collections as JSON-LD."""

    context: str = field(name="@context")
    graph: list[dict[str, Any]] = field(name="@graph")


class ProtectedResource(Message):
    """Protected resource metadata (RFC 9728): where a token is to be had."""

    resource: Link
    bearer_methods_supported: list[str]
    scopes_supported: list[str]
    resource_documentation: Link
    resource_name: str | UnsetType = UNSET
    authorization_servers: list[Link] | UnsetType = UNSET


class PublicKey(Message):
    """A public key of Ed25519 as JSON Web Key (RFC 7517, RFC 8037)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: Base64Key
    kid: Base64Key
    alg: Literal["Ed25519", "EdDSA"]
    use: Literal["sig"]


class KeySet(Message):
    """The public keys that are in use, the newest first."""

    keys: Annotated[list[PublicKey], Meta(min_length=1)]
