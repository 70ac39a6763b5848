"""Prefixes that a model wants before a text, such as E5's "query: ": those of its folder, or what a space declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from aidre.engine.model import EmbeddingSpace

PREFIXES_PART: Final = "prefixes="
"""Begins the part of a revision that tells prefixes apart."""


def prefixes_of_model(prompts: Mapping[str, str | None], default: str | None) -> dict[str, str]:
    """The prefixes of a query and of a document among the prompts of a sentence-transformers model.

    For documents the first that is not empty counts: to a folder with the prompts query and passage alone, as those of
    E5, sentence-transformers adds an empty one called document, which its `encode_document` then prefers.
    """
    fallback = prompts.get(default or "") or ""
    named = [prompts[name] or "" for name in ("document", "passage", "corpus") if name in prompts]
    document = next(filter(None, named), "") if named else fallback
    return {"query": prompts.get("query", fallback) or "", "document": document}


def declares_prefixes(space: EmbeddingSpace) -> bool:
    return space.query_prefix is not None or space.document_prefix is not None


def effective_prefixes(space: EmbeddingSpace, of_model: Mapping[str, str]) -> dict[str, str]:
    """The prefixes of a query and of a document: each as the space declares it, else as the model's folder does."""
    declared = {"query": space.query_prefix, "document": space.document_prefix}
    return {name: of_model.get(name, "") if given is None else given for name, given in declared.items()}


def prefixes_part(space: EmbeddingSpace) -> list[str]:
    """The part of a revision that stands for the declared prefixes; none without them."""
    if not declares_prefixes(space):
        return []
    canonical = json.dumps([space.query_prefix, space.document_prefix]).encode()
    return [PREFIXES_PART + hashlib.sha256(canonical).hexdigest()[:8]]
