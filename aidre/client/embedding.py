"""The choice between embedding a text here and sending it to the server.

A model is loaded only where this installation brings it, or the program names it: a discovery document comes from
outside, and must neither choose a folder of this machine nor start a download.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from aidre.client.messages import DeclaredSpace
from aidre.engine.errors import AidreError, InvalidInput, ModelUnavailable
from aidre.engine.model import EmbeddingSpace

if TYPE_CHECKING:
    from aidre.engine.embedding import Embedder, EmbedTexts

Where: TypeAlias = Literal["auto", "local", "server"]
"""`auto`: a dense search of a text is embedded here where the model is here. `local`: every text is embedded here, and
never sent. `server`: every text is sent."""
BUNDLED = frozenset({"hashing"})
"""Models beside the default one that are part of the installation."""


@dataclass(slots=True)
class LocalEmbedding:
    """Embeds texts of a client. `functions` are those of the program, by the id of the space."""

    where: Where = "auto"
    functions: Mapping[str, EmbedTexts] = field(default_factory=dict)
    _loaded: dict[str, Embedder | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.functions, Mapping) or not all(map(callable, self.functions.values())):
            raise InvalidInput("models= is a mapping of the ids of spaces to functions")
        self.functions = dict(self.functions)
        if self.where not in get_args(Where):
            raise InvalidInput(f"embed={self.where!r} is unknown: use {', '.join(get_args(Where))}")

    def applies(self, mode: str | None) -> bool:
        """Whether a text that is to be searched in this mode is embedded here."""
        return self.where == "local" or (self.where == "auto" and mode == "dense")

    def embed(
        self, text: str, spaces: Sequence[DeclaredSpace], wanted: str | None
    ) -> tuple[str, NDArray[np.float32]] | None:
        """The id of a space, and the vector of the text there; None where the text has to be sent instead.

        ModelUnavailable where it must not be.
        """
        for space in spaces:
            if wanted not in {None, space.id}:
                continue
            vector = self._vector(text, space)
            if vector is not None:
                return space.id, vector
        if self.where == "local":
            raise ModelUnavailable(
                "no model of the server's embedding spaces is here: bring an embedding function by models=, "
                "or send texts by embed='auto'",
                embedding_space=wanted,
            )
        return None

    def _vector(self, text: str, space: DeclaredSpace) -> NDArray[np.float32] | None:
        function = self.functions.get(space.id)
        if function is not None:
            vector = np.asarray(function([text]), np.float32)
            if vector.shape != (1, space.dimensions):
                raise InvalidInput(
                    f"models[{space.id!r}] returned shape {vector.shape}, not (1, {space.dimensions})",
                    embedding_space=space.id,
                )
            only: NDArray[np.float32] = vector[0]
            return only
        embedder = self._embedder(space)
        return None if embedder is None else embedder.embed_queries([text])[0]

    def _embedder(self, space: DeclaredSpace) -> Embedder | None:
        if space.id not in self._loaded:
            self._loaded[space.id] = _load(space)
        return self._loaded[space.id]


def _load(space: DeclaredSpace) -> Embedder | None:
    """The embedder of a space whose model is part of this installation, in the same revision; else None."""
    from aidre.engine.embedding import DEFAULT_SPACE, load_stored

    if space.model not in BUNDLED | {DEFAULT_SPACE.model} or space.revision is None:
        return None
    if space.distance not in {"cosine", "dot", "euclidean"}:
        return None
    declared = EmbeddingSpace(
        space.id,
        space.dimensions,
        space.distance,  # type: ignore[arg-type]
        space.normalized is True,
        space.provider,
        space.model,
        space.revision,
    )
    try:
        return load_stored(declared, fetch=False)
    except AidreError:
        return None
