"""The derived files of a segment, made from the files that hold truth: fields, look-ups, lexicon, index codes.

As a program it is one of `workers`: it makes what each line of its input says and answers with a line; it ends with
the process that started it.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from aidre.engine.arrow import FileEntry, write_file
from aidre.engine.field_rows import Content, Present, Reserved
from aidre.engine.fields import FieldRow, build_fields_from
from aidre.engine.ids import build_ids, build_keys
from aidre.engine.languages import declared_language
from aidre.engine.lexicon import LexicalText, build_lexicon, lexical_column
from aidre.engine.model import Json
from aidre.engine.schema import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    FIELDS_FILE,
    IDS_FILE,
    LEXICON_FILE,
    index_file,
    keys_file,
    vectors_file,
)
from aidre.engine.words import Strings

Batches: TypeAlias = Sequence[pa.RecordBatch]
What: TypeAlias = Literal["fields", "lexicon", "ids", "keys", "index"]
ROW_FILES: Final[tuple[What, ...]] = ("lexicon", "fields", "ids")
"""What every segment has, the longest work first."""

_REMEMBERED: Final = 1 << 12
"""So many different metadata are read once: of many documents they are the same few."""

_AT_ONCE: Final = 1 << 12
"""Chunks whose words are put together at once."""


@dataclass(frozen=True, slots=True)
class Codebook:
    """A trained index without rows (`data` as text), and what an index file says of its vectors and its training."""

    data: str
    vectors_checksum: str
    trained_rows: int


@dataclass(frozen=True, slots=True)
class Task:
    """One derived file of the segment in the folder `place`; `space` for keys and index, the rest for one kind each."""

    place: str
    what: What
    space: str = ""
    dates: tuple[str, ...] = ()
    codebook: Codebook | None = None


def derive(task: Task) -> tuple[str, FileEntry]:
    """Make and write one file; its name and its entry."""
    name, batch = _MAKERS[task.what](task)
    return name, write_file(Path(task.place) / name, [batch], batch.schema)


def stored_fields(documents: Batches, dates: Sequence[str]) -> pa.RecordBatch:
    """The fields of stored documents."""

    def joined(name: str) -> Strings:
        return _one(documents, name).cast(pa.large_binary())

    def present(name: str) -> Present:
        strings = joined(name)
        rows = np.flatnonzero(strings.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
        return rows, strings.drop_null()

    reserved = Reserved(joined("id"), joined("updated_at"), present("url"), present("type"))
    return build_fields_from(reserved, _contents(documents), dates)


def field_rows(documents: Batches) -> Iterator[FieldRow]:
    """What each document offers to filters, parsed from its stored JSON."""
    contents = _contents(documents)
    for batch in documents:
        reserved = (batch.column(name).to_pylist() for name in ("id", "url", "type", "updated_at"))
        for identity, url, kind, updated_at in zip(*reserved, strict=True):
            yield FieldRow(identity, url, kind, updated_at, *next(contents))


def _contents(documents: Batches) -> Iterator[Content]:
    """Metadata and schema.org object of each document."""
    known: dict[bytes | None, Mapping[str, Json]] = {None: {}}
    for stored, schema_object in _stored(documents, "metadata", "schema_object"):
        metadata = known.get(stored)
        if metadata is None:
            metadata = orjson.loads(stored)
            if len(known) < _REMEMBERED:
                known[stored] = metadata
        yield metadata, None if schema_object is None else orjson.loads(schema_object)


def lexical_texts(documents: Batches, chunks: Batches) -> Iterator[LexicalText]:
    """What the lexicon indexes of each chunk, in order."""
    titles = _one(documents, "title")
    languages = list(_declared(documents))
    for batch in chunks:
        for start in range(0, len(batch), _AT_ONCE):
            part = batch.slice(start, _AT_ONCE)
            rows = part.column("document_row")
            texts = lexical_column(titles.take(rows), part.column("section"), part.column("text"))
            yield from map(LexicalText, texts.to_pylist(), map(languages.__getitem__, rows.to_pylist()))


def _declared(documents: Batches) -> Iterator[str | None]:
    """The language that each document declares; most say the same few words."""
    known: dict[bytes | None, str | None] = {}
    for metadata, schema_object in _stored(documents, "metadata", "schema_object"):
        if schema_object is None and metadata in known:
            yield known[metadata]
            continue
        language = declared_language(*(orjson.loads(each) if each else None for each in (metadata, schema_object)))
        if schema_object is None and len(known) < _REMEMBERED:
            known[metadata] = language
        yield language


def _stored(documents: Batches, *names: str) -> Iterator[tuple[Any, ...]]:
    for batch in documents:
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _one(batches: Batches, name: str) -> Any:
    """A column of large strings as one array."""
    return pa.concat_arrays([pa.array([], pa.large_string()), *(batch.column(name) for batch in batches)])


# -- one maker a kind of file ----------------------------------------------------------------------------------


def _open(task: Task, name: str) -> Batches:
    reader = pa.ipc.open_file(pa.memory_map(str(Path(task.place) / name), "r"))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def _column(batches: Batches, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([batch.column(name) for batch in batches], kind)


def _fields(task: Task) -> tuple[str, pa.RecordBatch]:
    return FIELDS_FILE, stored_fields(_open(task, DOCUMENTS_FILE), task.dates)


def _lexicon(task: Task) -> tuple[str, pa.RecordBatch]:
    return LEXICON_FILE, build_lexicon(lexical_texts(_open(task, DOCUMENTS_FILE), _open(task, CHUNKS_FILE)))


def _ids(task: Task) -> tuple[str, pa.RecordBatch]:
    chunks, documents = (_column(_open(task, name), "id", pa.large_string()) for name in (CHUNKS_FILE, DOCUMENTS_FILE))
    return IDS_FILE, build_ids(chunks, documents)


def _keys(task: Task) -> tuple[str, pa.RecordBatch]:
    (batch,) = _open(task, vectors_file(task.space))
    return keys_file(task.space), build_keys(pa.chunked_array([batch.column("key")]))


def _index(task: Task) -> tuple[str, pa.RecordBatch]:
    from aidre.engine.index import encoded_batch

    assert task.codebook is not None
    (batch,) = _open(task, vectors_file(task.space))
    column = batch.column("vector")
    codes = column.values.to_numpy(zero_copy_only=True).reshape(len(column), -1)
    about = task.codebook
    return index_file(task.space), encoded_batch(codes, about.data, about.vectors_checksum, about.trained_rows)


_MAKERS: Mapping[What, Callable[[Task], tuple[str, pa.RecordBatch]]] = {
    "fields": _fields, "lexicon": _lexicon, "ids": _ids, "keys": _keys, "index": _index,
}  # fmt: skip


# -- as a program ----------------------------------------------------------------------------------------------


def as_line(task: Task) -> bytes:
    return orjson.dumps(asdict(task)) + b"\n"


def _from_line(line: bytes) -> Task:
    members: dict[str, Any] = orjson.loads(line)
    codebook = members.pop("codebook")
    return Task(**members | {"dates": tuple(members["dates"]), "codebook": codebook and Codebook(**codebook)})


def _answer(line: bytes) -> Json:
    try:
        name, entry = derive(_from_line(line))
    except Exception as error:  # told, and tried again where the reason can be seen
        return {"fault": f"{type(error).__name__}: {error}"}
    return {"name": name, "entry": entry.to_json()}


def main() -> None:
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            tasks.put(line)
        os._exit(0)  # whoever asked is gone, and with it the use of what is being made

    threading.Thread(target=listen, daemon=True).start()
    while True:
        answer = orjson.dumps(_answer(tasks.get())) + b"\n"
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
