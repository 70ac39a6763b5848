"""sentence-transformers as a runtime: the reference for exported graphs, and a runtime of its own by configuration.

The only module that loads weights; torch is imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.graph import effective_prefixes, prefixes_of_model
from aidre.engine.embedding.self_test import with_languages
from aidre.engine.embedding.weights import ModelWeights, require_sentence_transformers, revision_of
from aidre.engine.errors import ConfigurationError, ModelUnavailable
from aidre.engine.model import EmbeddingSpace

SentenceTransformer: TypeAlias = Any  # the real class would import torch
FastTokenizer: TypeAlias = Any  # of package tokenizers

MAX_LENGTH: Final = 512
"""Tokens of a text that a model without a limit of its own reads."""
NO_LENGTH: Final = 1_000_000
"""A length from here on means no limit: transformers writes 10^30."""


def load_model(folder: Path, *, attention: str | None = None) -> SentenceTransformer:
    """The model of `folder` on the CPU: safetensors only, no code from the folder, no network."""
    require_sentence_transformers(str(folder))
    if not any(folder.rglob("*.safetensors")):
        raise ModelUnavailable(f"the model in {folder} runs in ONNX Runtime alone: leave out embedding.runtime")
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
    limit_length(model)
    return model.eval()


def prompts_of(model: SentenceTransformer) -> dict[str, str]:
    """The prefixes of a query and of a document."""
    return prefixes_of_model(model.prompts, model.default_prompt_name)


def tokenizer_of(model: SentenceTransformer) -> FastTokenizer:
    """The tokenizer of package tokenizers. ModelUnavailable for a model with another one."""
    from tokenizers import Tokenizer as Fast

    tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if not isinstance(tokenizer, Fast):
        raise ModelUnavailable(
            f"the model has a tokenizer of type {type(model.tokenizer).__name__}, which has no fast form: "
            "save the model with a tokenizer.json"
        )
    return tokenizer


def special_tokens(model: SentenceTransformer) -> int:
    return int(tokenizer_of(model).num_special_tokens_to_add(False))


def limit_length(model: SentenceTransformer) -> None:
    """Have the model read no more tokens than it has positions for, and MAX_LENGTH where it has no limit.

    RoBERTa's kind counts positions from the number of the padding token on, which `max_position_embeddings` includes.
    """
    lengths = [length for length in (model.max_seq_length,) if length and length < NO_LENGTH]
    table = getattr(getattr(getattr(model[0], "auto_model", None), "embeddings", None), "position_embeddings", None)
    positions = getattr(table, "num_embeddings", None)
    if positions is not None:
        padding = getattr(table, "padding_idx", None)
        lengths.append(positions - (0 if padding is None else padding + 1))
    limit = min(lengths, default=MAX_LENGTH)
    if model.max_seq_length != limit:
        with suppress(AttributeError):  # a model of single words has no length to set
            model.max_seq_length = limit


def length_of(model: SentenceTransformer) -> int:
    """The tokens that the model reads, special ones included."""
    length = model.max_seq_length
    return int(length) if length and length < NO_LENGTH else MAX_LENGTH


class ReferenceEmbedder:
    """SentenceTransformer.encode behind the Embedder protocol."""

    runtime = "sentence-transformers"

    def __init__(self, space: EmbeddingSpace, weights: ModelWeights) -> None:
        self._model = load_model(weights.folder)
        dimensions = int(self._model.get_embedding_dimension())
        require_dimensions(space, dimensions)
        self.space = replace(space, revision=revision_of(weights, space))
        self._prefixes = effective_prefixes(space, prompts_of(self._model))
        # Truncation is a state of the tokenizer: two threads that set it at once fail with "Already borrowed".
        self._lock = Lock()
        self.max_tokens = (
            length_of(self._model) - special_tokens(self._model) - self.count_tokens([self._prefixes["document"]])[0]
        )
        self.space = with_languages(self.space, self.count_tokens)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._model.encode_document, texts, self._prefixes["document"])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._model.encode_query, texts, self._prefixes["query"])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        with self._lock:
            tokenizer = tokenizer_of(self._model)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return [len(tokenizer.encode(replace_surrogates(text), add_special_tokens=False)) for text in texts]

    def _encode(self, encode: Any, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.space.dimensions), np.float32)
        with self._lock:
            rows = encode(
                [replace_surrogates(text) for text in texts],
                prompt=prefix,
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
