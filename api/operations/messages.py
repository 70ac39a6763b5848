"""The messages of the routes that belong to no protocol: health, the signpost, metadata of resources, public keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from aidre.api.http import Message

Uri: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
Base64Key: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{43}$")]


class Signpost(Message, frozen=True, kw_only=True):
    """Where the other documents are."""

    service: Literal["AIDRE"]
    discovery: Uri
    openapi: Uri


class Liveness(Message, frozen=True, kw_only=True):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(Message, frozen=True, kw_only=True):
    """Whether anything can be served, and how many collections are damaged."""

    status: Literal["ready", "degraded", "unavailable"]
    damaged: Annotated[int, Meta(ge=0)]


class Description(Message, frozen=True, kw_only=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


class ProtectedResource(Message, frozen=True, kw_only=True):
    """Protected resource metadata (RFC 9728): where a token is to be had."""

    resource: Uri
    resource_name: str | UnsetType = UNSET
    authorization_servers: list[Uri] | UnsetType = UNSET
    bearer_methods_supported: list[str]
    scopes_supported: list[str]
    resource_documentation: Uri


class PublicKey(Message, frozen=True, kw_only=True):
    """A public key of Ed25519 as JSON Web Key (RFC 7517, RFC 8037)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: Base64Key
    kid: Base64Key
    alg: Literal["Ed25519", "EdDSA"]
    use: Literal["sig"]


class KeySet(Message, frozen=True, kw_only=True):
    """The public keys that are in use, the newest first."""

    keys: Annotated[list[PublicKey], Meta(min_length=1)]
