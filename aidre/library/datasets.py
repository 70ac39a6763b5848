"""Datasets of Hugging Face become collections. The library `datasets` is not imported: its objects bring all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidInput
from aidre.engine.model import EmbeddingSpace
from aidre.library.arguments import to_store_path
from aidre.library.collection import Collection
from aidre.library.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1_000
OWN = ("text", "id", "title", "url")
"""Members of a document that the parameters name columns for."""


def from_dataset(
    dataset: Any,
    path: str | Path,
    collection: str,
    *,
    text: str = "text",
    id: str | None = None,
    title: str | None = None,
    url: str | None = None,
    vectors: str | None = None,
    metadata: Sequence[str] | None = None,
    space: EmbeddingSpace | None = None,
    embed: Callable[[list[str]], Any] | None = None,
) -> Collection:
    """Store a `Dataset` or `IterableDataset` in the collection of the store at `path`, and return the collection.

    The parameters name columns: `vectors` that of the embeddings, without which the texts are embedded; `metadata`
    those that become metadata, by default all others with numbers, strings, booleans, dates or lists of these.
    Without `id` a document's id is made of its content, so that a second run doubles nothing. `space` is made for
    vectors where it is not given. Memory is bounded by a batch, also for a dataset that is streamed; what was read
    before an error is stored. InvalidInput for a column that is missing, and the errors of `Collection.add`.

    Parameters:
        dataset: A `Dataset` or an `IterableDataset`.
        path: The folder of the store.
        collection: The name of the collection.
        text: The column of the texts.
        id: The column of the ids.
        title: The column of the titles.
        url: The column of the addresses.
        vectors: The column of the embeddings; None: the texts are embedded.
        metadata: Columns that become metadata; None: all others that can.
        space: The embedding space; None: one for the vectors, or the default one.
        embed: A function that computes the vectors of a space without a model.

    Examples:
        >>> class Rows:  # stands for datasets.load_dataset("papers", split="train")
        ...     def with_format(self, name):
        ...         return self
        ...     def iter(self, batch_size):
        ...         yield pa.table({"abstract": ["On soup", "On salad"], "year": [2020, 2021]})
        >>> papers = aidre.from_dataset(Rows(), folder, "papers", text="abstract")
        >>> papers.search("a green dish", k=1)[0].metadata
        {'year': 2021}
    """
    named = {"text": text, "id": id, "title": title, "url": url}
    columns = {member: column for member, column in named.items() if column is not None}
    batches = _tables(dataset)
    first = next(batches, None)
    if first is None:
        return Database(to_store_path(path)).collection(collection, space=space, embed=embed)
    _check_columns(first, [*columns.values(), *([] if vectors is None else [vectors]), *(metadata or ())])
    _rows(first, columns, vectors, metadata)  # what is wrong with the columns is said before anything is made
    if vectors is not None and space is None:
        space = EmbeddingSpace(vectors, _matrix(first, vectors).shape[1], "cosine")
    target = Database(to_store_path(path)).collection(collection, space=space, embed=embed)
    with target.writer() as writer:
        for table in _chain(first, batches):
            rows = _rows(table, columns, vectors, metadata)
            writer.add_all(rows, vectors=None if vectors is None else _matrix(table, vectors))
    return target


def _tables(dataset: Any) -> Iterator[pa.Table]:
    """The rows, some at a time. InvalidInput for what is not a dataset."""
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "iter"):
        known = "a dict of datasets: choose one of its splits" if isinstance(dataset, dict) else type(dataset).__name__
        raise InvalidInput(f"from_dataset takes a Dataset or an IterableDataset of Hugging Face, not {known}")
    return iter(dataset.with_format("arrow").iter(batch_size=BATCH_ROWS))


def _chain(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def _check_columns(table: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.column_names:
            raise InvalidInput(f"the dataset has no column {name!r}: it has {', '.join(table.column_names)}")


def _rows(table: pa.Table, columns: dict[str, str], vectors: str | None, metadata: Sequence[str] | None) -> pa.Table:
    """The columns of a document under their own names, and those of its metadata."""
    import pyarrow as pa

    used = {*columns.values(), vectors}
    if metadata is None:  # a column `id` or `title` that was not named is not the document's own
        chosen = [column.name for column in table.schema if column.name not in {*used, *OWN} and _is_plain(column.type)]
    else:
        chosen = [name for name in metadata if name not in used]
    if clash := sorted(set(chosen) & set(OWN)):
        raise InvalidInput(f"the column {clash[0]!r} cannot be metadata, which have no {clash[0]}: rename it")
    return pa.table({name: table[column] for name, column in columns.items()} | {name: table[name] for name in chosen})


def _is_plain(type_: Any) -> bool:
    from pyarrow import types

    if types.is_list(type_) or types.is_large_list(type_):
        return _is_plain(type_.value_type)
    return bool(
        types.is_boolean(type_)
        or types.is_integer(type_)
        or types.is_floating(type_)
        or types.is_string(type_)
        or types.is_large_string(type_)
        or types.is_date(type_)
        or types.is_timestamp(type_)
    )


def _matrix(table: pa.Table, name: str) -> NDArray[np.float32]:
    """Vectors of shape (rows, dimensions). InvalidInput where they differ in length, or one is missing."""
    rows = table[name].to_pylist()
    lengths = {None if row is None else len(row) for row in rows}
    if len(lengths) != 1 or None in lengths:
        raise InvalidInput(f"the column {name!r} must hold one vector of one length in each row")
    try:
        return np.asarray(rows, np.float32)
    except (TypeError, ValueError):
        raise InvalidInput(f"the column {name!r} holds something else than numbers") from None
