"""Text to vectors: the Embedder protocol, the default space, the choice of the runtime of a model, and embedders around
something else: a function of the program, which no configuration can name, and another embedder.

The runtimes are in `onnx` and `torch`, which are imported when they are used; `endpoint_embedder` asks a server
instead.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.endpoint_embedder import OPENAI, Endpoint, EndpointEmbedder
from aidre.engine.embedding.graph import (
    HASHING,
    PREFIXES_PART,
    WORD,
    HashingEmbedder,
    declares_prefixes,
    effective_prefixes,
    prefixes_part,
)
from aidre.engine.embedding.models import DEFAULT, KNOWN
from aidre.engine.embedding.weights import ModelWeights, find_weights
from aidre.engine.errors import ConfigurationError, DimensionMismatch, InvalidInput, ModelUnavailable
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import precision_of

log = logging.getLogger(__name__)

DEFAULT_SPACE = EmbeddingSpace(
    id="sentence-transformers:all-MiniLM-L6-v2:384:cosine:v1",
    dimensions=384,
    distance="cosine",
    normalized=True,
    provider="sentence-transformers",
    model=DEFAULT.model,
)


FUNCTION_MODEL: Final = "function"
"""The model of a space that a function of a program fills."""

MAX_WORDS: Final = 256
"""The length of a chunk, in words: a function does not say how much it reads."""

EmbedTexts: TypeAlias = Callable[[list[str]], Any]
"""Embeds texts: anything that numpy makes an array of shape (texts, dimensions) of."""

NO_ENDPOINTS: Mapping[str, Endpoint] = {}


class Embedder(Protocol):
    """Turns texts into vectors of one space: float32, finite, of length 1 where the space is normalised.

    Safe to call from several threads. A text that is too long is embedded by its beginning.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The requested space with its `revision` set."""

    @property
    def runtime(self) -> str:
        """ "onnxruntime int8", "onnxruntime fp32", "sentence-transformers", "openai" or "hashing"."""

    @property
    def max_tokens(self) -> int:
        """The number of tokens after which a document is truncated, without special tokens and the model's prefix."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (texts, dimensions), float32; optimised for many texts."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (texts, dimensions), float32; optimised for the latency of one text."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each whole text, without special tokens."""


class FunctionEmbedder:
    """`embed` is called with passages and with queries alike, and from several threads. Its vectors are not cached, and
    another function in its place is not noticed: the vectors of a space have to come from one model."""

    runtime = FUNCTION_MODEL
    max_tokens = MAX_WORDS

    def __init__(self, space: EmbeddingSpace, embed: EmbedTexts) -> None:
        self.space = space
        self._embed = embed

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """InvalidInput where the function returns no numbers, DimensionMismatch for another shape."""
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        try:
            vectors = np.asarray(self._embed(list(texts)), np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the function of space {self.space.id!r} returned no matrix: {error}") from error
        expected = len(texts), self.space.dimensions
        if vectors.shape != expected:
            raise DimensionMismatch(
                f"the function of space {self.space.id!r} returned an array of shape {vectors.shape}, not {expected}",
                embedding_space=self.space.id,
                expected_dimensions=self.space.dimensions,
                actual_dimensions=vectors.shape[-1] if vectors.ndim else 0,
            )
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_documents(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [sum(1 for _ in WORD.finditer(text)) for text in texts]


class PrefixedEmbedder:
    """An Embedder that puts the prefixes of a space before each text of another one."""

    def __init__(self, space: EmbeddingSpace, inner: Embedder) -> None:
        self._inner = inner
        self._prefixes = effective_prefixes(space, {})
        parts = [part for part in (inner.space.revision,) if part]
        self.space = replace(inner.space, revision=";".join([*parts, *prefixes_part(space)]))
        self.runtime = inner.runtime
        self.max_tokens = inner.max_tokens - inner.count_tokens([self._prefixes["document"]])[0]

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._inner.embed_documents([self._prefixes["document"] + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._inner.embed_queries([self._prefixes["query"] + text for text in texts])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._inner.count_tokens(texts)


def load_embedder(
    space: EmbeddingSpace,
    *,
    runtime: str = "auto",
    endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS,
    fetch: bool = True,
) -> Embedder:
    """The embedder of `space.model`. Raises ModelUnavailable, or ConfigurationError if space and model do not match.

    `runtime` is "onnxruntime", "sentence-transformers", or "auto": ONNX Runtime if the model can be exported,
    else sentence-transformers. The first use of a model on a machine exports it, which takes some seconds; a known one
    that is not on this machine is fetched before, unless `fetch` is False.
    `endpoints` are those of the configuration by the id of their space; none is asked before the first text.
    """
    if space.model is None:
        raise ConfigurationError(f"space {space.id!r} has no model: its vectors are brought by the rows")
    if runtime not in RUNTIMES:
        raise ConfigurationError(f"runtime {runtime!r} is unknown: use one of {', '.join(RUNTIMES)}")
    if space.provider == OPENAI:
        endpoint = _endpoint_of(space, endpoints)
        return with_prefixes(space, lambda bare: EndpointEmbedder(bare, endpoint))
    if space.model == HASHING:
        return with_prefixes(space, HashingEmbedder)
    if space.model == FUNCTION_MODEL:
        raise ModelUnavailable(
            f"space {space.id!r} is filled by a function of a program: pass it as embed=, or send vectors",
            embedding_space=space.id,
        )
    if space.provider not in {None, "sentence-transformers"}:
        raise ConfigurationError(
            f"space {space.id!r}: provider {space.provider!r} is unknown: use sentence-transformers or openai"
        )
    return RUNTIMES[runtime](space, find_weights(space.model, fetch=fetch))


def with_prefixes(space: EmbeddingSpace, make: Callable[[EmbeddingSpace], Embedder]) -> Embedder:
    """What `make` makes of the space: an embedder that knows no prefixes, to which the declared ones are added."""
    if not declares_prefixes(space):
        return make(space)
    parts = [part for part in (space.revision or "").split(";") if part and not part.startswith(PREFIXES_PART)]
    return PrefixedEmbedder(space, make(replace(space, revision=";".join(parts) or None)))


def load_stored(
    space: EmbeddingSpace,
    *,
    runtime: str = "auto",
    endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS,
    fetch: bool = True,
) -> Embedder:
    """The embedder for queries to stored vectors; raises ModelUnavailable also if another revision computed them."""
    return of_revision(load_embedder(space, runtime=runtime, endpoints=endpoints, fetch=fetch), space)


def of_revision(embedder: Embedder, space: EmbeddingSpace) -> Embedder:
    """The embedder, if it computed the vectors of a stored space. ModelUnavailable."""
    if embedder.space.revision != space.revision:
        raise ModelUnavailable(
            f"space {space.id!r} holds vectors of another revision of its model: ingest again to recompute them",
            embedding_space=space.id,
        )
    return embedder


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model of this machine: the SHA-256 of its weights, and whether its graph is in the cache and intact."""

    folder: Path
    digest: str
    is_exported: bool


def model_state(space: EmbeddingSpace) -> ModelState | None:
    """The state of the model of a space, which is neither loaded nor exported; None for one that is not a file here.
    Raises ModelUnavailable where it is missing or altered."""
    if space.model in {None, "hashing", FUNCTION_MODEL} or space.provider == OPENAI:
        return None
    from aidre.engine.embedding.onnx import find_export

    weights = find_weights(str(space.model), fetch=False)
    return ModelState(weights.folder, weights.digest, find_export(weights))


def reads_language(space: EmbeddingSpace, tag: str) -> bool:
    """Whether the model of a space knows the language with this short tag; True where that is not told."""
    if space.languages is not None:
        return tag in space.languages
    return space.model != DEFAULT.model or tag == "en"


def cosine_floor(space: EmbeddingSpace) -> float:
    """The cosine that any two texts have, about: 0.75 with E5, 0 where it is small or not known."""
    return next((model.cosine_floor for model in KNOWN.values() if model.model == space.model), 0.0)


def embedding_keys(space: EmbeddingSpace, texts: Iterable[str]) -> list[bytes]:
    """16 bytes for each text that identify its embedding: hash of space, revision, precision and the string."""
    of_space = hashlib.blake2b(digest_size=16)
    for part in (space.id, space.revision or "", precision_of(space)):
        of_space.update(_with_length(part))
    keys = []
    for text in texts:
        digest = of_space.copy()
        digest.update(_with_length(text))
        keys.append(digest.digest())
    return keys


def _with_length(part: str) -> bytes:
    content = part.encode("utf-8", "surrogatepass")
    return len(content).to_bytes(8, "little") + content


def _endpoint_of(space: EmbeddingSpace, endpoints: Mapping[str, Endpoint]) -> Endpoint:
    endpoint = endpoints.get(space.id)
    if endpoint is None:
        raise ModelUnavailable(
            f"space {space.id!r} is embedded by an endpoint, which no store records: add the line "
            f'endpoint = "https://..." to its [[spaces]] in aidre.toml, and name that file by --config; '
            "a program passes endpoint=",
            embedding_space=space.id,
            reason="no_endpoint",
        )
    return endpoint


def _exported(space: EmbeddingSpace, weights: ModelWeights) -> Embedder:
    from aidre.engine.embedding.onnx import load_exported

    return load_exported(space, weights)


def _native(space: EmbeddingSpace, weights: ModelWeights) -> Embedder:
    from aidre.engine.embedding.torch import ReferenceEmbedder

    return ReferenceEmbedder(space, weights)


def _auto(space: EmbeddingSpace, weights: ModelWeights) -> Embedder:
    from aidre.engine.embedding.graph import NotExportable

    try:
        return _exported(space, weights)
    except NotExportable as error:
        log.warning("%s; sentence-transformers runs it instead, which is slower", error)
        return _native(space, weights)


RUNTIMES: Mapping[str, Callable[[EmbeddingSpace, ModelWeights], Embedder]] = {
    "auto": _auto,
    "onnxruntime": _exported,
    "sentence-transformers": _native,
}
