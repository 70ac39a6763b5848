"""Text to vectors: the Embedder protocol, the default space, and the choice of the runtime of a model.

The runtimes are in `onnx` and `torch`, which are imported when they are used; `endpoint` asks a server instead.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.endpoint import OPENAI, Endpoint, EndpointEmbedder
from aidre.engine.embedding.function import FUNCTION_MODEL
from aidre.engine.embedding.hashing import HashingEmbedder
from aidre.engine.embedding.weights import DEFAULT_MODEL, Weights, find_weights
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import precision_of

log = logging.getLogger(__name__)

DEFAULT_SPACE = EmbeddingSpace(
    id="sentence-transformers:all-MiniLM-L6-v2:384:cosine:v1",
    dimensions=384,
    distance="cosine",
    normalized=True,
    provider="sentence-transformers",
    model=DEFAULT_MODEL,
)


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
        """The number of tokens after which a text is truncated, without special tokens."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (texts, dimensions), float32; optimised for many texts."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (texts, dimensions), float32; optimised for the latency of one text."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each whole text, without special tokens."""


def load_embedder(
    space: EmbeddingSpace, *, runtime: str = "auto", endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS
) -> Embedder:
    """The embedder of `space.model`. Raises ModelUnavailable, or ConfigurationError if space and model do not match.

    `runtime` is "onnxruntime", "sentence-transformers", or "auto": ONNX Runtime if the model can be exported,
    else sentence-transformers. The first use of a model on a machine exports it, which takes some seconds.
    `endpoints` are those of the configuration by the id of their space; none is asked before the first text.
    """
    if space.model is None:
        raise ConfigurationError(f"space {space.id!r} has no model: its vectors are brought by the rows")
    if runtime not in RUNTIMES:
        raise ConfigurationError(f"runtime {runtime!r} is unknown: use one of {', '.join(RUNTIMES)}")
    if space.provider == OPENAI:
        return EndpointEmbedder(space, _endpoint_of(space, endpoints))
    if space.model == "hashing":
        return HashingEmbedder(space)
    if space.model == FUNCTION_MODEL:
        raise ModelUnavailable(
            f"space {space.id!r} is filled by a function of a program: pass it as embed=, or send vectors",
            embedding_space=space.id,
        )
    if space.provider not in {None, "sentence-transformers"}:
        raise ConfigurationError(
            f"space {space.id!r}: provider {space.provider!r} is unknown: use sentence-transformers or openai"
        )
    return RUNTIMES[runtime](space, find_weights(space.model))


def load_stored(
    space: EmbeddingSpace, *, runtime: str = "auto", endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS
) -> Embedder:
    """The embedder for queries to stored vectors; raises ModelUnavailable also if another revision computed them."""
    embedder = load_embedder(space, runtime=runtime, endpoints=endpoints)
    if embedder.space.revision != space.revision:
        raise ModelUnavailable(
            f"space {space.id!r} holds vectors of another revision of its model: ingest again to recompute them",
            embedding_space=space.id,
        )
    return embedder


@dataclass(frozen=True, slots=True)
class ModelState:
    """An installed model: the SHA-256 of its weights, and whether its graph is in the cache and intact."""

    digest: str
    is_exported: bool


def model_state(space: EmbeddingSpace) -> ModelState | None:
    """The state of the model of a space, which is neither loaded nor exported; None for one that is no file here.
    Raises ModelUnavailable where it is missing or altered."""
    if space.model in {None, "hashing", FUNCTION_MODEL} or space.provider == OPENAI:
        return None
    from aidre.engine.embedding.onnx import find_export

    weights = find_weights(str(space.model))
    return ModelState(weights.digest, find_export(weights))


def embedding_key(space: EmbeddingSpace, text: str) -> bytes:
    """16 bytes that identify an embedding: hash of space, revision, precision and the embedded string."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (space.id, space.revision or "", precision_of(space), text):
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


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


def _exported(space: EmbeddingSpace, weights: Weights) -> Embedder:
    from aidre.engine.embedding.onnx import load_exported

    return load_exported(space, weights)


def _native(space: EmbeddingSpace, weights: Weights) -> Embedder:
    from aidre.engine.embedding.torch import ReferenceEmbedder

    return ReferenceEmbedder(space, weights)


def _auto(space: EmbeddingSpace, weights: Weights) -> Embedder:
    from aidre.engine.embedding.graph import NotExportable

    try:
        return _exported(space, weights)
    except NotExportable as error:
        log.warning("%s; sentence-transformers runs it instead, which is slower", error)
        return _native(space, weights)


RUNTIMES: Mapping[str, Callable[[EmbeddingSpace, Weights], Embedder]] = {
    "auto": _auto,
    "onnxruntime": _exported,
    "sentence-transformers": _native,
}
