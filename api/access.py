"""Who asks, and what of the store that caller may see.

A collection that a caller may not see behaves exactly as one that does not exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request

from aidre.api.settings import CollectionSettings, Key
from aidre.engine.model import Visibility


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is empty for the anonymous caller; `collections` are the private ones that it was given."""

    name: str = ""
    collections: frozenset[str] = frozenset()
    vectors: bool = True


ANONYMOUS = Caller()


def granted(collection: str) -> Caller:
    """Whom an editorial domain or an intake searches as: anonymous, but for the one collection that it grants."""
    return Caller(collections=frozenset({collection}))


def bears_key(request: Request, keys: Iterable[Key]) -> bool:
    """Whether a request comes with the secret of a key that may search."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    found = hashlib.sha256(secret.strip().encode("latin-1", "replace")).hexdigest()
    fits = [hmac.compare_digest(found, key.sha256) and "search" in key.scopes for key in keys]
    return scheme.lower() == "bearer" and any(fits)


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
