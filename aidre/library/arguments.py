"""Arguments of the library's verbs, checked before anything is read or written. InvalidInput names the argument."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields import Filter, parse_filter, stored_name
from aidre.engine.model import Distance, EmbeddingSpace, Json, Mode, Precision
from aidre.engine.retrieve import FieldOrder, Question
from aidre.library.conversion import to_vector
from aidre.library.values import to_comparable, to_filter_json
from aidre_client.values import (
    FacetRequest,
    Facets,
    SearchOrder,
    check_mode,
    check_range,
    check_space_id,
    check_text,
    shown,
    to_field_order,
    to_requests,
)

if TYPE_CHECKING:
    from aidre.ingest import IngestOptions

MAX_DIMENSIONS = 65_536
MAX_K = 10_000
"""Most hits of a search."""
IN_MEMORY: Final = ":memory:"
"""Written for the path of a store that is kept nowhere."""

_FOREIGN_DISTANCES: Final = {
    "l2": "euclidean", "euclid": "euclidean", "l2sq": "euclidean", "ip": "dot", "inner_product": "dot",
    "inner": "dot", "innerproduct": "dot", "dotproduct": "dot", "dot_product": "dot", "angular": "cosine",
    "cos": "cosine", "cosine_similarity": "cosine",
}  # fmt: skip


def check_wait(wait: Any) -> None:
    if not isinstance(wait, int | float) or isinstance(wait, bool) or not 0 <= wait < math.inf:
        raise InvalidInput(f"wait must be a number of seconds of at least 0, not {shown(wait)}")


def to_names(names: Any, argument: str) -> list[str]:
    """The names of fields in a list."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput(f"{argument} is a list of names, not {type(names).__name__}")
    listed = list(names)
    if not all(isinstance(name, str) for name in listed):
        raise InvalidInput(f"{argument} is a list of names, which are strings")
    return listed


def to_filter(filter: Json | None) -> Filter | None:
    """InvalidFilter."""
    return None if filter is None else parse_filter(to_filter_json(filter))


def to_path(path: Any, argument: str) -> Path:
    """An absolute path with the home of the user expanded: the program may change its working folder. Links stay."""
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        raise InvalidInput(f"{argument} is a path, not {type(path).__name__}")
    if not text or "\0" in text:
        raise InvalidInput(f"{argument} is not a path: it is empty or has a null character")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise InvalidInput(f"{argument} begins with the home of a user who has none: write the whole path") from None
    except FileNotFoundError:
        raise InvalidInput(f"{argument} is below the working folder, which is gone: write the whole path") from None


def to_facets(facets: Facets) -> tuple[FacetRequest, ...]:
    """Facets with ends of ranges as a filter has values. InvalidInput, InvalidFilter."""
    requests = to_requests(facets)
    return tuple(replace(request, ranges=_to_ranges(request)) if request.ranges else request for request in requests)


def _to_ranges(request: FacetRequest) -> list[Any]:
    path = f"facet {request.field!r}.ranges"
    return [tuple(to_comparable(end, path) for end in pair) for pair in request.ranges]


def to_order(order: SearchOrder | None) -> FieldOrder | None:
    field_order = to_field_order(order)
    return None if field_order is None else FieldOrder(stored_name(field_order[0]), field_order[1], all_relevant=True)


def to_store_path(path: Any) -> Path | None:
    """The folder of a store; None for one in memory. InvalidInput."""
    written = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if written == IN_MEMORY:
        return None
    if isinstance(written, str) and "://" in written:
        raise InvalidInput(f'the store is a folder or ":memory:", not the address {shown(written)}: pass that as uri=')
    return to_path(path, "the store")


def to_queries(queries: Any) -> Any:
    """Texts, or vectors as the rows of a matrix."""
    if isinstance(queries, str | bytes | dict) or not isinstance(queries, Iterable):
        raise InvalidInput(f"search_many needs a list of texts or a matrix of vectors, not {type(queries).__name__}")
    listed = queries if isinstance(queries, np.ndarray) else list(queries)
    texts = 0 if isinstance(listed, np.ndarray) else sum(isinstance(query, str) for query in listed)
    if 0 < texts < len(listed):
        raise InvalidInput("search_many needs a list of texts or a matrix of vectors, not both in one")
    return listed


def to_spaces(space: Any) -> list[EmbeddingSpace] | None:
    """The spaces that a program declares; None for those that are stored."""
    if space is None:
        return None
    spaces = [space] if isinstance(space, EmbeddingSpace) else space
    if not isinstance(spaces, list | tuple) or not all(isinstance(item, EmbeddingSpace) for item in spaces):
        raise InvalidInput("space= is an aidre.EmbeddingSpace or a list of them")
    if not spaces or len({declared.id for declared in spaces}) < len(spaces):
        raise InvalidInput("space= is a list of at least one space, each with an id of its own")
    for declared in spaces:
        _check_space(declared)
    return list(spaces)


def _check_space(space: EmbeddingSpace) -> None:
    if not isinstance(space.id, str) or not space.id.strip() or not space.id.isprintable():
        raise InvalidInput(f"the id of a space is a string that is not blank, not {shown(space.id)}")
    where = f"space {space.id[:64]!r}"
    size: Any = space.dimensions
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_DIMENSIONS:
        raise InvalidInput(f"{where}: dimensions is a number from 1 to {MAX_DIMENSIONS:,}, not {shown(size)}")
    for name, allowed in (("distance", get_args(Distance)), ("precision", (None, *get_args(Precision)))):
        value: Any = getattr(space, name)
        if not isinstance(value, str | None) or value not in allowed:
            own_name = _FOREIGN_DISTANCES.get(value.lower()) if isinstance(value, str) and name == "distance" else None
            cure = "" if own_name is None else f": here it is {own_name!r}"
            known = ", ".join(filter(None, allowed))
            raise InvalidInput(f"{where}: {name} is one of {known}, not {shown(value)}{cure}")
    if not isinstance(space.model, str | None):
        raise InvalidInput(f"{where}: model is the name of one, not {shown(space.model)}")
    for name in ("query_prefix", "document_prefix"):
        if not isinstance(value := getattr(space, name), str | None):
            raise InvalidInput(f"{where}: {name} is a string, not {shown(value)}")
    languages: Any = space.languages
    if languages is not None and not (isinstance(languages, tuple) and all(isinstance(tag, str) for tag in languages)):
        raise InvalidInput(f'{where}: languages is a tuple of tags such as ("en", "de"), not {shown(languages)}')


def to_question(
    text: str | None,
    vector: Any,
    *,
    k: int,
    offset: int,
    filter: Filter | None,
    mode: Mode | None,
    space: str | None,
) -> Question:
    """InvalidInput, InvalidVector."""
    check_range("k", k, 1, MAX_K)
    check_range("offset", offset, 0, MAX_K)
    check_mode(mode)
    check_space_id(space)
    if text is not None:
        check_text(text)
    query_vector = None if vector is None else to_vector(vector, space)
    return Question(k, text, query_vector, space, filter, mode, offset, scaled=False)


def to_ingest_options(sources: Sequence[object], options: Mapping[str, Any]) -> IngestOptions:
    """The options of an ingest of some sources. InvalidInput."""
    from aidre.ingest import IngestOptions

    if not sources:
        raise InvalidInput("ingest needs the path or address of a source")
    for source in sources:
        to_path(source, "a source")
    known = {field.name for field in fields(IngestOptions)}
    if unknown := sorted(options.keys() - known):
        raise InvalidInput(f"ingest has no option {unknown[0]}: it has {', '.join(sorted(known))}")
    return IngestOptions(**options)
