"""Looks ahead into the tables of file sources: the spaces that rows bring vectors for, and the columns that rows have.

Only the schema or the first rows of a file are read. A file that cannot be read is passed over here: the ingest that
follows reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.model import Json
from aidre.ingest.formats.tables import (
    find_csv_columns,
    find_csv_spaces,
    find_json_file_columns,
    find_json_file_spaces,
    find_json_lines_columns,
    find_json_lines_spaces,
    find_parquet_columns,
    find_parquet_spaces,
    find_xlsx_columns,
    find_xlsx_spaces,
)
from aidre.ingest.records import ColumnMapping, File, Mappings, escape_unprintable, get_column
from aidre.ingest.sources.folder import FileSource, walk
from aidre.ingest.sources.locate import Source

_MAX_NAMED = 20
"""Columns that a message lists."""


class _TableFormat(NamedTuple):
    """`spaces` yields ids of spaces with vectors, `rows` mappings with the columns that were found."""

    spaces: Callable[[File], Iterable[str]]
    rows: Callable[[File], Iterable[Mapping[str, Json]]]


_TABLES: dict[str, _TableFormat] = {
    ".jsonl": _TableFormat(find_json_lines_spaces, find_json_lines_columns),
    ".ndjson": _TableFormat(find_json_lines_spaces, find_json_lines_columns),
    ".json": _TableFormat(find_json_file_spaces, find_json_file_columns),
    ".jsonld": _TableFormat(find_json_file_spaces, find_json_file_columns),
    ".csv": _TableFormat(find_csv_spaces, find_csv_columns),
    ".tsv": _TableFormat(find_csv_spaces, find_csv_columns),
    ".xlsx": _TableFormat(find_xlsx_spaces, find_xlsx_columns),
    ".xlsm": _TableFormat(find_xlsx_spaces, find_xlsx_columns),
    ".parquet": _TableFormat(find_parquet_spaces, find_parquet_columns),
}


def supplied_spaces(sources: Sequence[Source], mappings: Mappings | None = None) -> set[str]:
    """Ids of the spaces that rows on disk, or the columns of mappings, bring vectors for."""
    space_ids = {space for mapping in mappings or () for space in mapping.vectors}
    for file, table in _tables(sources):
        with suppress(OSError, pa.ArrowException, ValueError, AidreError):
            space_ids.update(table.spaces(file))
    return space_ids


def check_mappings(sources: Sequence[Source], mappings: Mappings, where: str) -> None:
    """Raises ConfigurationError for a mapping with a column that none of the first rows on disk has, of its files."""
    tables = list(_tables(sources))
    for mapping in mappings:
        own = [(file, table) for file, table in tables if mappings.of(file.origin) is mapping]
        pattern = next((name for name, other in mappings.by_pattern if other is mapping), None)
        _check_mapping(own, mapping, where if pattern is None else f"{where}.{pattern!r}")


def _check_mapping(tables: Iterable[tuple[File, _TableFormat]], mapping: ColumnMapping, where: str) -> None:
    missing, columns = list(mapping.columns), dict[str, None]()
    for file, table in tables:
        with suppress(OSError, pa.ArrowException, ValueError, AidreError):
            for row in table.rows(file):
                missing = [name for name in missing if get_column(row, name) is None]
                columns.update(dict.fromkeys(row))
                if not missing:
                    return
    if columns:
        names = escape_unprintable(", ".join(list(columns)[:_MAX_NAMED]))
        raise ConfigurationError(f"{where} names the column {missing[0]!r}, which no row has: the rows have {names}")


def _tables(sources: Sequence[Source]) -> Iterator[tuple[File, _TableFormat]]:
    for source in sources:
        if isinstance(source, FileSource):
            for path in walk(source, _ignore):
                table = _TABLES.get(path.suffix.lower()) if isinstance(path, Path) else None
                if table is not None and isinstance(path, Path):
                    yield source.file(path), table


def _ignore(link: str) -> None:
    """Links that leave the folder are reported when the source is read."""
