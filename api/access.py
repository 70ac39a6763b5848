"""Who asks, and what of the store that caller may see.

A collection that a caller may not see behaves exactly as one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from aidre.api.settings import CollectionSettings
from aidre.engine.model import Visibility


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is empty for the anonymous caller; `collections` are the private ones that it was given.

    `account` says whose chunks are counted together, where they are counted.
    """

    name: str = ""
    collections: frozenset[str] = frozenset()
    vectors: bool = True
    account: str = field(default="", compare=False)

    @property
    def logged(self) -> str:
        """What a log may say: the name that the operator gave a key; of a token only that it was one, since its subject
        may be a person."""
        kind, _, _ = self.name.partition(" ")
        return self.name if kind == "key" else kind


ANONYMOUS = Caller()


def granted(collection: str | None, account: str = "") -> Caller:
    """Whom an intake searches as: anonymous, but for the one collection that it grants, if it names one."""
    return Caller(collections=frozenset() if collection is None else frozenset({collection}), account=account)


def caller_of(request: Request) -> Caller:
    """Who sent a request."""
    return caller_in(request.scope)


def caller_in(scope: Any) -> Caller:
    """Who sent the request of a scope; anonymous until it is known."""
    caller: Caller = scope["state"].get("caller", ANONYMOUS)
    return caller


def visibility_in_force(manifest: Visibility, settings: CollectionSettings) -> Visibility:
    """The stricter of what the manifest and the configuration say."""
    return "private" if "private" in {manifest, settings.visibility} else "public"


def may_see(caller: Caller, name: str, visibility: Visibility) -> bool:
    """Whether the collection exists for this caller."""
    return visibility == "public" or name in caller.collections
