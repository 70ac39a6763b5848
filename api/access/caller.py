"""The caller of a request, and the collections that it may see.

A collection that a caller may not see behaves exactly like one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from aidre.api.config import CollectionSettings
from aidre.engine.model import Visibility


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is empty for the anonymous caller; `collections` are the private ones that it may see.

    `account` is the key, the token's subject or the address that shares a rate, a chunk budget and a part of each
    bounded table.
    """

    name: str = ""
    collections: frozenset[str] = frozenset()
    vectors: bool = True
    may_write: bool = False
    account: str = field(default="", compare=False)

    @property
    def logged(self) -> str:
        """The name for logs: that of a key, as the operator chose it; of a token only that it was one, since its
        subject may be a person."""
        kind, _, _ = self.name.partition(" ")
        return self.name if kind == "key" else kind


ANONYMOUS = Caller()


def intake_caller(collection: str | None, account: str = "") -> Caller:
    """The caller as which an intake searches: anonymous, with a grant to its own collection if it names one."""
    return Caller(collections=frozenset() if collection is None else frozenset({collection}), account=account)


def caller_of(request: Request) -> Caller:
    """The caller of a request."""
    return caller_in(request.scope)


def caller_in(scope: Any) -> Caller:
    """The caller of an ASGI scope; anonymous until the guard has admitted the request."""
    caller: Caller = scope["state"].get("caller", ANONYMOUS)
    return caller


def may_query_by_vector(caller: Caller, settings: CollectionSettings) -> bool:
    """Whether the collection answers queries by vector of this caller; an anonymous one has no scope."""
    return not settings.restricts_vector_queries or (caller.vectors and bool(caller.name))


def visibility_in_force(manifest: Visibility, settings: CollectionSettings) -> Visibility:
    """The stricter visibility of the manifest and the configuration."""
    return "private" if "private" in {manifest, settings.visibility} else "public"


def may_see(caller: Caller, name: str, visibility: Visibility) -> bool:
    """Whether the collection exists for this caller."""
    return visibility == "public" or name in caller.collections
