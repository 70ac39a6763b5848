"""Divides the files of an ingest into blocks, the unit of work of one worker.

Blocks follow the order of the sources. A large file of rows is read by several blocks, each of which takes the rows
whose document id has a hash of its own, so that two rows with one id of a file are in one block, in their order. The
ids of other files are known only after they were read: these are divided by file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Final

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from aidre.ingest.records import File, Item, Rejected, RowBatch

MAX_BLOCK_BYTES: Final = 16 << 20
MAX_BLOCK_FILES: Final = 1024
"""A block becomes one segment: fewer and larger ones make the adoption faster, more of them keep all workers busy."""
MIN_BLOCK_BYTES: Final = 64 << 10
MIN_BLOCK_FILES: Final = 16
BLOCKS_PER_WORKER: Final = 4
"""So many blocks a worker, where the files suffice: a slow one at the end costs a quarter of a worker's share."""
_ROW_SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"})


@dataclass(frozen=True, slots=True)
class Block:
    """`files` are read whole, unless `parts` is more than 1: then only the rows of the part with number `part`."""

    number: int
    files: tuple[File, ...]
    part: int = 0
    parts: int = 1


def divide(files: Sequence[File], workers: int) -> list[Block]:
    """The files in blocks, in their order."""
    sizes = [_size_of(file) for file in files]
    wanted = BLOCKS_PER_WORKER * max(1, workers)
    most_bytes = min(MAX_BLOCK_BYTES, max(MIN_BLOCK_BYTES, -(-sum(sizes) // wanted)))
    most_files = min(MAX_BLOCK_FILES, max(MIN_BLOCK_FILES, -(-len(files) // wanted)))
    blocks: list[Block] = []
    waiting: list[File] = []
    waiting_bytes = 0

    def close() -> None:
        nonlocal waiting, waiting_bytes
        if waiting:
            blocks.append(Block(len(blocks), tuple(waiting)))
        waiting, waiting_bytes = [], 0

    for file, size in zip(files, sizes, strict=True):
        if size > most_bytes and file.path.suffix.lower() in _ROW_SUFFIXES:
            close()
            parts = -(-size // most_bytes)
            blocks += [Block(len(blocks) + part, (file,), part, parts) for part in range(parts)]
            continue
        if waiting and (waiting_bytes + size > most_bytes or len(waiting) >= most_files):
            close()
        waiting.append(file)
        waiting_bytes += size
    close()
    return blocks


def items_of_part(items: Iterator[Item], block: Block) -> Iterator[Item]:
    """The items that belong to a block, of all that its files have."""
    if block.parts == 1:
        yield from items
        return
    for item in items:
        if isinstance(item, RowBatch):
            mine = list(compress(range(len(item)), (_is_mine(identity, block) for identity in item.ids)))
            if mine:
                yield item.take(mine)
        elif isinstance(item, Rejected):
            if _is_mine(item.document_id or item.where, block):
                yield item
        elif isinstance(item, tuple):
            if _is_mine(item[1].id, block):
                yield item
        elif block.part == 0:
            yield item


def _is_mine(key: str, block: Block) -> bool:
    return bool(xxh3_64_intdigest(key.encode("utf-8", "surrogatepass")) % block.parts == block.part)


def _size_of(file: File) -> int:
    with suppress(OSError):  # it is reported when it is read
        return file.path.stat().st_size
    return 0


# -- as text ---------------------------------------------------------------------------------------------------


def block_to_json(block: Block) -> str:
    """A block as one flat value. JSON in ASCII: a name of a file need not be text."""
    files = [
        [str(file.path), file.source, file.origin, file.url, file.within and str(file.within), file.is_called_by_path]
        for file in block.files
    ]
    return json.dumps([block.number, block.part, block.parts, files])


def block_from_json(text: str) -> Block:
    number, part, parts, files = json.loads(text)
    return Block(
        number,
        tuple(
            File(
                Path(path),
                source,
                origin,
                url,
                within=None if within is None else Path(within),
                is_called_by_path=is_called_by_path,
            )
            for path, source, origin, url, within, is_called_by_path in files
        ),
        part,
        parts,
    )


def block_table(block: Block) -> pa.Table:
    """What a worker is given: one row."""
    return pa.table({"block": pa.array([block_to_json(block)], pa.large_string())})
