from .merge import (
    LiveRows as LiveRows,
    Recompute as Recompute,
    live_rows as live_rows,
    split_live_rows as split_live_rows,
    write_merged as write_merged,
)
from .pending import PendingCommit as PendingCommit
from .records import (
    ChunkColumns as ChunkColumns,
    RecordColumns as RecordColumns,
    to_columns as to_columns,
    to_record as to_record,
)
from .segment_reader import BoundedCache as BoundedCache, SegmentReader as SegmentReader
from .segment_writer import (
    KeyedVectors as KeyedVectors,
    Staging as Staging,
    add_file as add_file,
    add_vectors as add_vectors,
    key_array as key_array,
    write_pending as write_pending,
)
from .spill import SPILL_BYTES as SPILL_BYTES, Spill as Spill
from .staged import StagedSegments as StagedSegments, open_staged as open_staged
from .stored_chunk import StoredChunk as StoredChunk
from .view import (
    RowMask as RowMask,
    Segments as Segments,
    SegmentView as SegmentView,
    TopK as TopK,
    merge_top_k as merge_top_k,
    open_segments as open_segments,
    pack_bitmap as pack_bitmap,
    rows_containing as rows_containing,
    rows_with as rows_with,
)
from .workers import MAX_WORKERS as MAX_WORKERS, Workers as Workers
