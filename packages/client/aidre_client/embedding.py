"""The choice between embedding a text here and sending it to the server.

A model is loaded only where this installation brings it, or the program names it: a discovery document comes from
outside, and must neither choose a folder of this machine nor start a download.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from aidre_client.errors import AidreError, InvalidInput, ModelUnavailable
from aidre_client.messages import DeclaredSpace
from aidre_client.values import to_rows, to_vector

if TYPE_CHECKING:
    from aidre.engine.embedding import Embedder

EmbedTexts: TypeAlias = Callable[[list[str]], Any]
"""From texts to a matrix, one row a text: an array, or a list of lists."""
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

    def embed(self, text: str, spaces: Sequence[DeclaredSpace], wanted: str | None) -> tuple[str, array[float]] | None:
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

    def _vector(self, text: str, space: DeclaredSpace) -> array[float] | None:
        function = self.functions.get(space.id)
        if function is not None:
            rows = to_rows(function([text])) or ()
            vector = to_vector(rows[0]) if len(rows) == 1 else None
            if vector is None or len(vector) != space.dimensions:
                raise InvalidInput(
                    f"models[{space.id!r}] returned no matrix of shape (1, {space.dimensions})",
                    embedding_space=space.id,
                )
            return vector
        embedder = self._embedder(space)
        return None if embedder is None else to_vector(embedder.embed_queries([text])[0])

    def _embedder(self, space: DeclaredSpace) -> Embedder | None:
        if space.id not in self._loaded:
            self._loaded[space.id] = _load(space)
        return self._loaded[space.id]


def _load(space: DeclaredSpace) -> Embedder | None:
    """The embedder of a space whose model is part of this installation, in the same revision; else None."""
    try:
        from aidre.engine.embedding import DEFAULT_SPACE, load_stored
        from aidre.engine.model import EmbeddingSpace
    except ImportError:  # the client alone is installed
        return None
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
