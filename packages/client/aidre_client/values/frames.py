"""Hits as tables: of Arrow, pandas and polars. Each library is imported by the function that makes its table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aidre_client.errors import ConfigurationError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_EXACT = 1 << 53
"""Up to here each integer is a float."""
_TEXTS = ("id", "document_id", "text", "title", "url")


def columns_of(hits: Sequence[Any]) -> dict[str, list[Any]]:
    """The hits of one query by column, from the best one on."""
    return {"rank": list(range(len(hits))), **_members(hits)}


def columns_of_many(queries: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """The hits of several queries after one another, with the index of the query of each."""
    return {
        "query": [query for query, hits in enumerate(queries) for _ in hits],
        "rank": [rank for hits in queries for rank in range(len(hits))],
        **_members([hit for hits in queries for hit in hits]),
    }


def _members(hits: Sequence[Any]) -> dict[str, list[Any]]:
    texts = {name: [getattr(hit, name) for hit in hits] for name in _TEXTS}
    return {"score": [float(hit.score) for hit in hits], **texts, "metadata": [dict(hit.metadata) for hit in hits]}


def to_arrow(columns: Mapping[str, list[Any]]) -> pa.Table:
    """Numbers, strings and a struct of metadata. ConfigurationError without pyarrow."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigurationError("to_arrow makes an Arrow table: pip install pyarrow") from None
    types = {"query": pa.int64(), "rank": pa.int64(), "score": pa.float64()}
    table = {
        name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items() if name != "metadata"
    }
    return pa.table({**table, "metadata": _struct(columns["metadata"])})


def to_pandas(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ConfigurationError("to_pandas makes a frame of pandas: pip install pandas") from None
    return pd.DataFrame(columns)


def to_polars(columns: Mapping[str, list[Any]]) -> pl.DataFrame:
    try:
        import polars as pl
    except ImportError:
        raise ConfigurationError("to_polars makes a frame of polars: pip install polars pyarrow") from None
    return pl.DataFrame(to_arrow(columns))


def _struct(rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """The metadata of the rows; a column of nulls where none has any, since no file has a struct without fields."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return pa.nulls(len(rows))
    return pa.StructArray.from_arrays([_field([row.get(name) for row in rows]) for name in names], names)


def _field(values: list[Any]) -> pa.Array:
    """An array of one type; of JSON where the values have several, and where integers leave 64 bits."""
    import pyarrow as pa

    if len(set(_kinds(values))) <= 1:
        try:
            return pa.array(values, from_pandas=False)
        except (pa.ArrowException, OverflowError):
            pass
    elif all(value is None or (type(value) in {int, float} and abs(value) <= _EXACT) for value in values):
        return pa.array(values, pa.float64())
    return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values], pa.string())


def _kinds(values: Sequence[Any]) -> Iterator[str]:
    """The type of each value that is there, of lists with that of what they hold; of objects one that is no other's."""
    for value in values:
        if isinstance(value, list):
            yield from (f"list of {kind}" for kind in _kinds(value))
        elif isinstance(value, dict):
            yield f"object of {sorted((name, *_kinds([item])) for name, item in value.items())}"
        elif value is not None:
            yield type(value).__name__
