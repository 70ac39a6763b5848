from . import dropping as dropping, garbage as garbage
from .backfill import BackfillProgress as BackfillProgress, fill_space as fill_space, remove_space as remove_space
from .change_feed import (
    continues_history as continues_history,
    diverges as diverges,
    read_previous as read_previous,
)
from .generations import LARGE_SEGMENT_ROWS as LARGE_SEGMENT_ROWS, Generations as Generations
from .lookup import DocumentLocator as DocumentLocator, find_vectors as find_vectors
from .loose import (
    FolderPlace as FolderPlace,
    LooseSegment as LooseSegment,
    SegmentOrder as SegmentOrder,
    SegmentPlace as SegmentPlace,
    adopt_segments as adopt_segments,
    check_name as check_name,
    find_whole as find_whole,
    is_name as is_name,
    is_stored as is_stored,
    put_segments as put_segments,
)
from .snapshot import Snapshot as Snapshot
from .store import Store as Store, local_store as local_store, stale_spaces as stale_spaces
from .writer import SourceStates as SourceStates, Writer as Writer, check_upsert as check_upsert
