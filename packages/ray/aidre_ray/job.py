"""What the driver tells every worker, and what a worker answers: flat Arrow tables, one row a fact.

Nested values would be pickled by Ray, and spilled slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
import orjson
import pyarrow as pa

from aidre.engine.embedding import Embedder
from aidre.engine.errors import StorageFailed
from aidre.engine.model import EmbeddingSpace
from aidre.engine.storage import SegmentEntry
from aidre.ingest.pipeline import IngestOptions, RunCounters
from aidre.ingest.records import Rejected, Unpublished
from aidre.ingest.sources import FileSource
from aidre_ray.blocks import Block

LoadModels: TypeAlias = Callable[[], Mapping[str, Embedder]]
"""Loads the embedders by space id. A worker calls it once; it must be possible to pickle it."""

ANSWER_SCHEMA: Final = pa.schema(
    [("block", pa.int64()), ("kind", pa.string()), ("name", pa.large_string()), ("value", pa.large_string())]
)


@dataclass(frozen=True, slots=True)
class Job:
    """What all blocks of a run have in common.

    Workers read the `generation` of the collection, None where there is none yet, and write into `staging`. `spaces`
    are those of the collection as they are stored, `configured` those with the revision of their model. `now` is the
    `updated_at` of documents without, so that a block that is written again has the same content.
    """

    store: Path
    collection: str
    generation: int | None
    staging: Path
    now: str
    sources: tuple[FileSource, ...]
    spaces: tuple[EmbeddingSpace, ...]
    configured: tuple[EmbeddingSpace, ...]
    dates: tuple[str, ...]
    max_segment_rows: int
    options: IngestOptions
    load: LoadModels


class Runner(Protocol):
    """Gives blocks to workers. `workers` is how many there are."""

    @property
    def workers(self) -> int: ...

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        """One answer for each block, in any order. A block may be done again, but it has one answer."""


class WrittenDocument(NamedTuple):
    """A document that a block wrote, with its number of chunks; `is_new` if the collection does not have it yet."""

    chunks: int
    is_new: bool


@dataclass(slots=True)
class BlockResult:
    """The outcome of a block: the segments that it wrote, and the outcome of each document."""

    block: int
    segments: list[SegmentEntry] = field(default_factory=list)
    written: dict[str, WrittenDocument] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    left_out: list[Unpublished] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """Sources of the documents that it wrote."""
    found: list[str] = field(default_factory=list)
    """Sources of all documents that it read."""
    counts: RunCounters = field(default_factory=RunCounters)
    repeated_ids: int = 0
    fault: tuple[str, str] | None = None
    """Code and message of the error that ended the run."""


def to_table(answer: BlockResult) -> pa.Table:
    rows = [
        *(("segment", "", orjson.dumps(entry).decode()) for entry in answer.segments),
        *(
            ("new" if written.is_new else "changed", name, str(written.chunks))
            for name, written in answer.written.items()
        ),
        *(("unchanged", document_id, None) for document_id in answer.unchanged),
        *(("rejected", "", orjson.dumps(problem).decode()) for problem in answer.rejected),
        *(("left out", "", orjson.dumps(left_out).decode()) for left_out in answer.left_out),
        *(("notice", "", text) for text in answer.notices),
        *(("source", name, None) for name in answer.sources),
        *(("found", name, None) for name in answer.found),
        ("counts", "", orjson.dumps({**asdict(answer.counts), "repeated_ids": answer.repeated_ids}).decode()),
        *([("fault", *answer.fault)] if answer.fault is not None else []),
    ]
    kinds, names, values = zip(*rows, strict=True)
    return pa.table([[answer.block] * len(rows), kinds, names, values], schema=ANSWER_SCHEMA)


def from_table(table: pa.Table) -> BlockResult:
    """Raises StorageFailed for what no worker of this release answers: it is not trusted."""
    try:
        return _from_rows(table)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, pa.ArrowException) as error:
        raise StorageFailed(f"a worker gave an invalid answer ({type(error).__name__}): run the ingest again") from None


def _from_rows(table: pa.Table) -> BlockResult:
    rows: Iterable[tuple[int, str, str, str | None]] = zip(
        *(column.to_pylist() for column in table.columns), strict=True
    )
    answer = BlockResult(table.column("block")[0].as_py())
    for _, kind, name, value in rows:
        match kind:
            case "segment":
                answer.segments.append(msgspec.json.decode(value or "", type=SegmentEntry))
            case "new" | "changed":
                answer.written[name] = WrittenDocument(int(value or 0), kind == "new")
            case "unchanged":
                answer.unchanged.append(name)
            case "rejected":
                answer.rejected.append(msgspec.json.decode(value or "", type=Rejected))
            case "left out":
                answer.left_out.append(msgspec.json.decode(value or "", type=Unpublished))
            case "notice":
                answer.notices.append(value or "")
            case "source":
                answer.sources.append(name)
            case "found":
                answer.found.append(name)
            case "fault":
                answer.fault = name, value or ""
            case _:
                counts = orjson.loads(value or "")
                answer.repeated_ids = counts.pop("repeated_ids")
                answer.counts = RunCounters(**counts)
    return answer
