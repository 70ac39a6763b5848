"""The messages of the routes that belong to no protocol: health, the signpost, metadata of resources, public keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

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


class Description(Message):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


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
