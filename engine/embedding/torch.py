"""sentence-transformers as a runtime: the reference for exported graphs, and a runtime of its own by configuration.

The only module that loads weights; torch is imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.weights import Weights, require_sentence_transformers, with_label
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace

SentenceTransformer: TypeAlias = Any  # the real class would import torch


def load_model(folder: Path, *, attention: str | None = None) -> SentenceTransformer:
    """The model of `folder` on the CPU: safetensors only, no code from the folder, no network."""
    require_sentence_transformers(str(folder))
    try:
        from sentence_transformers import SentenceTransformer as Model
        from transformers.utils import logging as output
    except ImportError as error:
        raise ModelUnavailable(f"sentence-transformers cannot be imported ({error}): install it again") from error
    progress: Any = output  # its functions carry no types
    progress.disable_progress_bar()
    arguments: dict[str, Any] = {"use_safetensors": True}
    if attention:
        arguments["attn_implementation"] = attention
    try:
        model = Model(str(folder), device="cpu", local_files_only=True, trust_remote_code=False, model_kwargs=arguments)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelUnavailable(f"the model in {folder} cannot be loaded ({reason}): install it again") from error
    return model.eval()


def prompts_of(model: SentenceTransformer) -> dict[str, str]:
    """The prompts that `encode_query` and `encode_document` prepend to a text."""
    prompts: dict[str, str | None] = model.prompts
    fallback = prompts.get(model.default_prompt_name or "") or ""
    document = next((prompts[name] for name in ("document", "passage", "corpus") if name in prompts), fallback)
    return {"query": prompts.get("query", fallback) or "", "document": document or ""}


def special_tokens(model: SentenceTransformer) -> int:
    return int(model.tokenizer.backend_tokenizer.num_special_tokens_to_add(False))


class ReferenceEmbedder:
    """SentenceTransformer.encode behind the Embedder protocol."""

    runtime = "sentence-transformers"

    def __init__(self, space: EmbeddingSpace, weights: Weights) -> None:
        self._model = load_model(weights.folder)
        dimensions = int(self._model.get_embedding_dimension())
        require_dimensions(space, dimensions)
        self.space = replace(space, revision=with_label(weights.revision, space.revision))
        length = self._model.max_seq_length or 512
        self.max_tokens = int(length) - special_tokens(self._model)
        # Truncation is a state of the tokenizer: two threads that set it at once fail with "Already borrowed".
        self._lock = Lock()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._model.encode_document, texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._model.encode_query, texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        with self._lock:
            tokenizer = self._model.tokenizer.backend_tokenizer
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return [len(tokenizer.encode(replace_surrogates(text), add_special_tokens=False)) for text in texts]

    def _encode(self, encode: Any, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        with self._lock:
            rows = encode(
                [replace_surrogates(text) for text in texts],
                convert_to_numpy=True,
                show_progress_bar=False,
                normalize_embeddings=self.space.normalized,
            )
        return np.ascontiguousarray(rows, np.float32)


def require_dimensions(space: EmbeddingSpace, dimensions: int) -> None:
    """Raises ConfigurationError if the space declares other dimensions than the model has."""
    if space.dimensions != dimensions:
        raise ConfigurationError(
            f"space {space.id!r}: dimensions = {space.dimensions}, but model {space.model!r} has {dimensions}: "
            f"set dimensions = {dimensions}",
            embedding_space=space.id,
            expected_dimensions=dimensions,
            actual_dimensions=space.dimensions,
        )


def replace_surrogates(text: str) -> str:
    """`text` with "?" for each lone surrogate, which tokenizers reject; the length stays the same."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
