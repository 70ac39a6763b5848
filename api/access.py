"""Who asks, and what of the store that caller may see.

A collection that a caller may not see behaves exactly as one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from aidre.api.settings import CollectionSettings
from aidre.engine.model import Visibility


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is empty for the anonymous caller; `collections` are the private ones that it was given."""

    name: str = ""
    collections: frozenset[str] = frozenset()
    vectors: bool = True


ANONYMOUS = Caller()


def caller_of(request: Request) -> Caller:
    """Who sent a request."""
    caller: Caller = request.scope["state"].get("caller", ANONYMOUS)
    return caller


def visibility_in_force(manifest: Visibility, settings: CollectionSettings) -> Visibility:
    """The stricter of what the manifest and the configuration say."""
    return "private" if "private" in {manifest, settings.visibility} else "public"


def may_see(caller: Caller, name: str, visibility: Visibility) -> bool:
    """Whether the collection exists for this caller."""
    return visibility == "public" or name in caller.collections
