"""Rows of a Spark frame as segments: each partition is written by its executor."""

import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import Row, SparkSession

import aidre

parts = sys.argv[1] if "://" in sys.argv[1] else str(Path(sys.argv[1]).absolute())  # s3://bucket/prefix, or a folder


def write_part(rows: Iterator[Row]) -> list[str]:
    task = TaskContext.get()
    assert task is not None
    return aidre.segments.write((row.asDict() for row in rows), parts, partition=task.partitionId())


spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
notes = [(f"note-{number}", f"This is note number {number} of many.", number) for number in range(200)]
frame = spark.createDataFrame(notes, ["id", "text", "number"]).repartition(4, "id")
names = frame.rdd.mapPartitions(write_part).collect()
spark.stop()
print("\n".join(sorted(names)))
