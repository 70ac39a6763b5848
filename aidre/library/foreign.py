"""Words of other libraries, which are answered by an error that names ours."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from aidre.engine.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")

_ROWS: Final = 'rows, as in add([{"id": "a", "text": "a text", "price": 3}])'
_ARGUMENTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(["n_results", "top_k", "topk", "limit", "num_results"], "k="),
    **dict.fromkeys(["query", "query_text", "q"], 'the first argument, as in search("a text")'),
    **dict.fromkeys(["query_texts", "queries"], 'search("a text"), or search_many(["a text", "another"])'),
    **dict.fromkeys(["query_embeddings", "query_embedding", "query_vector", "embedding"], "vector="),
    **dict.fromkeys(["where", "query_filter", "scroll_filter", "filters", "expr", "prefilter"], "filter="),
    "where_document": "a phrase in double quotes in the text of a search",
    **dict.fromkeys(["include", "with_payload", "output_fields"], "not needed: hits have text and metadata"),
    **dict.fromkeys(["with_vectors", "include_vectors", "embeddings"], "vectors="),
    **dict.fromkeys(["documents", "metadatas", "metadata", "payload", "payloads", "points", "data", "texts"], _ROWS),
    "ids": f'the member "id" of {_ROWS}',
    **dict.fromkeys(["score_threshold", "min_relevance", "threshold"], "min_score="),
    **dict.fromkeys(["nprobe", "nprobes", "ef", "ef_search", "search_params", "num_candidates"], "recall="),
    **dict.fromkeys(["embedding_function", "embedding_fn"], "embed="),
    **dict.fromkeys(["metric", "distance", "dimension", "dimensions", "dim", "vectors_config", "vector_size"],
                    'space=aidre.EmbeddingSpace("mine", 384, "cosine")'),
    **dict.fromkeys(["reranker", "rerank_with"], "rerank="),
    **dict.fromkeys(["order", "sort", "sort_by", "orderby"], "order_by="),
    "order_by": "order=",
    **dict.fromkeys(["select", "columns"], "fields="),
    **dict.fromkeys(["alpha", "weight"], "weights="),
    **dict.fromkeys(["ranker", "rrf", "rank_constant", "fusion_method"], 'fusion="rrf"'),
    "skip": "offset=",
}  # fmt: skip
"""By an argument of another library, what stands for it here."""

_VERBS: Final[Mapping[str, str]] = {
    **dict.fromkeys(["query", "query_points", "similarity_search", "search_points", "vector_search"], "search"),
    **dict.fromkeys(["query_batch", "query_batch_points", "search_batch"], "search_many"),
    **dict.fromkeys(["peek", "scroll", "retrieve", "to_list", "head"], "get(limit=10), or scan()"),
    **dict.fromkeys(["update", "set_payload", "overwrite_payload", "modify"], 'patch({"id": {"price": 4}})'),
    **dict.fromkeys(["upload_points", "upload_collection", "insert", "merge_insert", "add_documents"], "add or upsert"),
    **dict.fromkeys(["remove", "delete_points"], "delete(ids), or delete(filter=...)"),
    **dict.fromkeys(["create_collection", "get_collection", "get_or_create_collection", "recreate_collection"],
                    'collection("name", space=...)'),
    **dict.fromkeys(["create_table", "open_table", "table"], 'collection("name", space=...)'),
    **dict.fromkeys(["list_collections", "get_collections", "table_names", "list_tables"], "collections()"),
    **dict.fromkeys(["delete_collection", "drop_table", "drop_collection"], 'drop("name")'),
    **dict.fromkeys(["count_rows", "num_rows", "size"], "count()"),
    **dict.fromkeys(["to_pandas", "to_arrow", "to_polars"], "those of hits, as in search(\"a text\").to_pandas()"),
    **dict.fromkeys(["persist", "flush"], "not needed: a write is durable when it returns"),
    "facet": "facets",
    "checkout": "at(generation)",
}  # fmt: skip
"""By a verb of another library, ours."""


def own_words(verb: Callable[P, T]) -> Callable[P, T]:
    """The same verb, which tells our word for an argument of another library, and which arguments have to be named.
    InvalidInput."""
    parameters = inspect.signature(verb).parameters.values()
    known = frozenset(parameter.name for parameter in parameters)
    placed = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    by_name = [f"{parameter.name}=" for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    rest = f", and {', '.join(by_name)} by name" if by_name else ", and nothing else"
    most = math.inf if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters) else len(placed)

    @wraps(verb)
    def checked(*args: P.args, **named: P.kwargs) -> T:
        if not named.keys() <= known:
            _refuse(verb.__name__, named.keys() - known)
        if len(args) > most:
            raise InvalidInput(f"{verb.__name__} takes {' and '.join(placed[1:])} without a name{rest}")
        return verb(*args, **named)

    return checked


def _refuse(verb: str, names: Iterable[str]) -> None:
    """What has no word of ours is left to Python."""
    for name in sorted(names):
        if name in _ARGUMENTS:
            raise InvalidInput(f"{verb} has no argument {name}: here it is {_ARGUMENTS[name]}")


def no_attribute(owner: object, name: str) -> AttributeError:
    """The error of an attribute that is missing, with our word for a verb of another library."""
    cure = f": here it is {_VERBS[name]}" if name in _VERBS else ""
    return AttributeError(f"{type(owner).__name__} has no {name}{cure}", name=name, obj=owner)
