"""Builds the derived files of a segment from its primary files: fields, ids, keys, lexicon, vector index.

Run as a program (`python -m`), it is a worker of `workers.py`: it reads one task a line from standard input, builds the
file, and writes one line of reply. It ends with the process that started it.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from aidre.engine.index import build_ids, build_keys
from aidre.engine.index.fields import Content, ReservedColumns, SparseStrings, build_fields
from aidre.engine.index.text import LexicalText, WordCounts, build_lexicon, declared_language, lexical_column
from aidre.engine.model import Json
from aidre.engine.storage import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    WORDS_FILE,
    BinaryArray,
    FileEntry,
    index_file,
    keys_file,
    vectors_file,
    write_file,
)

Batches: TypeAlias = Sequence[pa.RecordBatch]
FileKind: TypeAlias = Literal["fields", "lexicon", "ids", "keys", "index"]
ROW_FILES: Final[tuple[FileKind, ...]] = ("lexicon", "fields", "ids")
"""The kinds that every segment has, the slowest to build first."""

_MAX_CACHED_METADATA: Final = 1 << 12
"""Distinct metadata that are parsed once: many documents often share a few."""

_SLICE_CHUNKS: Final = 1 << 12
"""Chunks whose texts are joined with their titles in one Arrow operation."""


@dataclass(frozen=True, slots=True)
class EncodedCodebook:
    """A trained index without rows (`data`, as text), and metadata for the index file: the checksum of the vectors
    that it is built from, and the number of rows that the codebook was trained on."""

    data: str
    vectors_checksum: str
    trained_rows: int


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of derived file to build in the segment at `folder`; with the lexicon, the words are built, too.

    `space` is the space id for keys and index, `dates` the declared date fields for fields, `codebook` is for index.
    """

    folder: str
    kind: FileKind
    space: str = ""
    dates: tuple[str, ...] = ()
    codebook: EncodedCodebook | None = None


def build_files(task: Task) -> dict[str, FileEntry]:
    """Build and write the files of a task; returns their entries by name."""
    return {
        name: write_file(Path(task.folder) / name, [batch], batch.schema)
        for name, batch in _BUILDERS[task.kind](task).items()
    }


# -- documents and chunks as the indexes take them -------------------------------------------------------------


def build_stored_fields(documents: Batches, dates: Sequence[str]) -> pa.RecordBatch:
    """The field index of stored documents; `dates` are the metadata fields that are declared dates."""

    def dense(name: str) -> BinaryArray:
        return _concatenated(documents, name).cast(pa.large_binary())

    def sparse(name: str) -> SparseStrings:
        strings = dense(name)
        rows = np.flatnonzero(strings.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
        return rows, strings.drop_null()

    reserved = ReservedColumns(dense("id"), dense("updated_at"), sparse("url"), sparse("type"))
    return build_fields(reserved, _contents(documents), dates)


def _contents(documents: Batches) -> Iterator[Content]:
    """The metadata and the schema.org object of each document."""
    cache: dict[bytes | None, Mapping[str, Json]] = {None: {}}
    for stored, schema_object in _rows(documents, "metadata", "schema_object"):
        metadata = cache.get(stored)
        if metadata is None:
            metadata = orjson.loads(stored)
            if len(cache) < _MAX_CACHED_METADATA:
                cache[stored] = metadata
        yield metadata, None if schema_object is None else orjson.loads(schema_object)


def lexical_texts(documents: Batches, chunks: Iterable[pa.RecordBatch]) -> Iterator[LexicalText]:
    """The text that the lexicon indexes of each chunk, in order."""
    titles = _concatenated(documents, "title")
    languages = list(_declared_languages(documents))
    for batch in chunks:
        for start in range(0, len(batch), _SLICE_CHUNKS):
            piece = batch.slice(start, _SLICE_CHUNKS)
            rows = piece.column("document_row")
            texts = lexical_column(titles.take(rows), piece.column("section"), piece.column("text"))
            yield from map(LexicalText, texts.to_pylist(), map(languages.__getitem__, rows.to_pylist()))


def _declared_languages(documents: Batches) -> Iterator[str | None]:
    """The language that each document declares. Cached by metadata, but not where a schema.org object may differ."""
    cache: dict[bytes | None, str | None] = {}
    for metadata, schema_object in _rows(documents, "metadata", "schema_object"):
        if schema_object is None and metadata in cache:
            yield cache[metadata]
            continue
        language = declared_language(*(orjson.loads(text) if text else None for text in (metadata, schema_object)))
        if schema_object is None and len(cache) < _MAX_CACHED_METADATA:
            cache[metadata] = language
        yield language


def _rows(batches: Batches, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some columns, row by row, as Python values."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _concatenated(batches: Batches, name: str) -> Any:
    """A column of large strings as one array."""
    return pa.concat_arrays([pa.array([], pa.large_string()), *(batch.column(name) for batch in batches)])


# -- one builder a kind of file --------------------------------------------------------------------------------


def _open(task: Task, name: str) -> Batches:
    reader = pa.ipc.open_file(pa.memory_map(str(Path(task.folder) / name), "r"))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


def _chunked_ids(batches: Batches) -> pa.ChunkedArray:
    return pa.chunked_array([batch.column("id") for batch in batches], pa.large_string())


def _fields(task: Task) -> dict[str, pa.RecordBatch]:
    return {FIELDS_FILE: build_stored_fields(_open(task, DOCUMENTS_FILE), task.dates)}


def _lexicon(task: Task) -> dict[str, pa.RecordBatch]:
    words = WordCounts()
    lexicon = build_lexicon(lexical_texts(_open(task, DOCUMENTS_FILE), _open(task, CHUNKS_FILE)), words)
    return {LEXICON_FILE: lexicon, WORDS_FILE: words.to_batch()}


def _ids(task: Task) -> dict[str, pa.RecordBatch]:
    chunks, documents = (_chunked_ids(_open(task, name)) for name in (CHUNKS_FILE, DOCUMENTS_FILE))
    return {IDS_FILE: build_ids(chunks, documents)}


def _keys(task: Task) -> dict[str, pa.RecordBatch]:
    vectors, keys = vectors_file(task.space), keys_file(task.space)
    (batch,) = _open(task, vectors)
    return {keys: build_keys(pa.chunked_array([batch.column("key")]))}


def _index(task: Task) -> dict[str, pa.RecordBatch]:
    from aidre.engine.index.vectors import build_index_batch  # loads FAISS, which the other kinds do without

    codebook = task.codebook
    assert codebook is not None
    (batch,) = _open(task, vectors_file(task.space))
    column = batch.column("vector")
    vectors = column.values.to_numpy(zero_copy_only=True).reshape(len(column), -1)
    encoded = build_index_batch(vectors, codebook.data, codebook.vectors_checksum, codebook.trained_rows)
    return {index_file(task.space): encoded}


_BUILDERS: Mapping[FileKind, Callable[[Task], dict[str, pa.RecordBatch]]] = {
    "fields": _fields, "lexicon": _lexicon, "ids": _ids, "keys": _keys, "index": _index,
}  # fmt: skip


# -- as a program ----------------------------------------------------------------------------------------------


def to_line(task: Task) -> bytes:
    return orjson.dumps(task) + b"\n"


def _reply(line: bytes) -> Json:
    try:
        files = build_files(msgspec.json.decode(line, type=Task))
    except Exception as error:  # the parent tries again in its own process, where the traceback is seen
        return {"fault": f"{type(error).__name__}: {error}"}
    return {"files": files}


def main() -> None:
    """Build files, one task a line, until standard input is closed."""
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read_tasks() -> None:
        for line in sys.stdin.buffer:
            tasks.put(line)
        os._exit(0)  # the parent has ended: abandon the file in progress

    threading.Thread(target=read_tasks, daemon=True).start()
    while True:
        reply = orjson.dumps(_reply(tasks.get())) + b"\n"
        sys.stdout.buffer.write(reply)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
