"""The embedding spaces that a program names for a collection, and what computes their vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidInput, SpaceConflict
from aidre.engine.model import EmbeddingSpace
from aidre.engine.retrieve import Policy

if TYPE_CHECKING:
    from aidre.engine import Address
    from aidre.engine.embedding import Embedder, Endpoint


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration says to a program that opens a store: where its collections are, how each is searched, and
    by what texts are embedded. Without a configuration the defaults of a server hold."""

    address: Address | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    runtime: str = "auto"
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)


class Spaces:
    """The embedding spaces that a program names for a collection, and their embedders, each loaded once."""

    def __init__(
        self,
        spaces: Sequence[EmbeddingSpace] | None,
        embed: Callable[[list[str]], Any] | None,
        endpoint: str | Endpoint | None,
        loaded: dict[EmbeddingSpace, Embedder],
        configured: Configured,
    ) -> None:
        from aidre.engine.embedding import FUNCTION_MODEL, OPENAI

        if embed is not None and endpoint is not None:
            raise InvalidInput("embed= and endpoint= both fill a space: pass one of them")
        if (embed is not None or endpoint is not None) and spaces is not None and len(spaces) != 1:
            raise InvalidInput("embed= and endpoint= fill one space: name that one by space=")
        if embed is not None and not callable(embed):
            raise InvalidInput("embed= is a function from a list of texts to their vectors")
        if embed is not None and spaces is not None and spaces[0].model is None:
            spaces = [replace(spaces[0], model=FUNCTION_MODEL)]
        if endpoint is not None and spaces is not None:
            if spaces[0].model is None:
                raise InvalidInput(
                    f"endpoint= needs the name of a model: EmbeddingSpace({spaces[0].id!r}, ..., model=)"
                )
            spaces = [replace(spaces[0], provider=OPENAI)]
        self.given = spaces
        self._embed = embed
        self._endpoint = None if endpoint is None else to_endpoint(endpoint)
        self._loaded = loaded
        self._configured = configured
        self._asked: dict[EmbeddingSpace, Embedder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Embedders stay where they were loaded; a function is sent as pickle sends functions, by its name."""
        return Spaces, (self.given, self._embed, self._endpoint, {}, self._configured)

    def for_writing(self, stored: Sequence[EmbeddingSpace] | None) -> list[EmbeddingSpace]:
        """The spaces as they are declared to a writer. InvalidInput where none is filled by what was passed."""
        from aidre.engine.embedding import DEFAULT_SPACE, FUNCTION_MODEL, OPENAI

        spaces = list(self.given or stored or [DEFAULT_SPACE])
        if self._embed is not None and all(space.model != FUNCTION_MODEL for space in spaces):
            raise InvalidInput("embed= fills a space without a model of its own: name that by space=")
        if self._endpoint is not None and all(space.provider != OPENAI for space in spaces):
            raise InvalidInput("endpoint= fills a space that names its model: name that by space=")
        return spaces

    def check_stored(self, collection: str, stored: Sequence[EmbeddingSpace]) -> None:
        """SpaceConflict where a declared space measures otherwise than the stored one of its id."""
        by_id = {space.id: space for space in stored}
        for space in self.given or ():
            other = by_id.get(space.id, space)
            for member in ("dimensions", "distance"):
                declared, expected = getattr(space, member), getattr(other, member)
                if declared != expected:
                    raise SpaceConflict(
                        f"space {space.id!r} has {member} {expected!r} in collection {collection!r}, "
                        f"and not {declared!r}: "
                        "declare what is stored, or nothing",
                        embedding_space=space.id,
                        member=member,
                    )

    def embedder(self, space: EmbeddingSpace) -> Embedder:
        """The embedder of a space that has a model. ModelUnavailable."""
        from aidre.engine.embedding import FUNCTION_MODEL, OPENAI, FunctionEmbedder, load_embedder, with_prefixes

        if space.model == FUNCTION_MODEL and self._embed is not None:
            embed = self._embed
            return with_prefixes(space, lambda bare: FunctionEmbedder(bare, embed))
        configured = self._configured
        endpoints = configured.endpoints if self._endpoint is None else {space.id: self._endpoint}
        known = self._asked if space.provider == OPENAI else self._loaded  # an endpoint is of this collection alone
        bare = replace(space, revision=None, precision=None)
        key = replace(bare, languages=None)
        loaded = known.get(key)
        if loaded is None:
            loaded = known.setdefault(key, load_embedder(bare, runtime=configured.runtime, endpoints=endpoints))
        return loaded

    def embed(self, space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
        """The vector of a query in a stored space, shape (dimensions,). ModelUnavailable."""
        from aidre.engine.embedding import of_revision

        vector: NDArray[np.float32] = of_revision(self.embedder(space), space).embed_queries([text])[0]
        return vector


def to_endpoint(value: str | Endpoint) -> Endpoint:
    """The endpoint at an address. InvalidInput."""
    from aidre.engine.embedding import Endpoint

    endpoint = Endpoint(value) if isinstance(value, str) else value
    if not isinstance(endpoint, Endpoint):
        raise InvalidInput(f"endpoint= is an address or an aidre.Endpoint, not {type(value).__name__}")
    try:
        parts = urlsplit(endpoint.url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidInput('endpoint= is an address such as "https://api.example.com/v1"')
    return endpoint
