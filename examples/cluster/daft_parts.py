"""Rows of a Daft frame as segments: each partition is written where it is, and no column is copied on the way."""

import sys
from collections.abc import Iterator
from pathlib import Path

import daft
from daft.io.sink import DataSink, WriteResult
from daft.recordbatch import MicroPartition
from daft.schema import Schema

import aidre

parts = sys.argv[1] if "://" in sys.argv[1] else str(Path(sys.argv[1]).absolute())  # s3://bucket/prefix, or a folder


class Segments(DataSink[list[str]]):  # type: ignore[misc]  # Daft's types are not read
    """The content alone names a segment here, since Daft numbers no partitions."""

    def name(self) -> str:
        return "aidre"

    def schema(self) -> Schema:
        return Schema._from_field_name_and_types([("segment", daft.DataType.string())])

    def write(self, micropartitions: Iterator[MicroPartition]) -> Iterator[WriteResult[list[str]]]:
        for rows in micropartitions:
            names = aidre.segments.write(rows.to_arrow(), parts, partition="daft")
            yield WriteResult(names, bytes_written=0, rows_written=len(rows))

    def finalize(self, write_results: list[WriteResult[list[str]]]) -> MicroPartition:
        return MicroPartition.from_pydict({"segment": [name for one in write_results for name in one.result]})


numbers = list(range(200))
notes = {"id": [f"note-{n}" for n in numbers], "text": [f"This is note number {n} of many." for n in numbers]}
frame = daft.from_pydict(notes).into_partitions(4)
print("\n".join(sorted(frame.write_sink(Segments()).to_pydict()["segment"])))
