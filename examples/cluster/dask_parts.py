"""Rows of a Dask bag as segments: each partition is written by its worker."""

import sys
from pathlib import Path

import dask
import dask.bag

import aidre

parts = sys.argv[1] if "://" in sys.argv[1] else str(Path(sys.argv[1]).absolute())  # s3://bucket/prefix, or a folder
notes = [{"id": f"note-{number}", "text": f"This is note number {number} of many."} for number in range(200)]
bag = dask.bag.from_sequence(notes, npartitions=4)
write = dask.delayed(aidre.segments.write)

if __name__ == "__main__":  # the workers are processes, which import this file
    written = [write(part, parts, partition=number) for number, part in enumerate(bag.to_delayed())]
    for names in dask.compute(*written, scheduler="processes"):
        print("\n".join(names))
