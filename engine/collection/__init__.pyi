from . import garbage as garbage
from .backfill import BackfillProgress as BackfillProgress, fill_space as fill_space, remove_space as remove_space
from .change_feed import (
    Change as Change,
    ChangeCursor as ChangeCursor,
    ChangelogId as ChangelogId,
    ChangesPage as ChangesPage,
    read_previous as read_previous,
)
from .commit import CommitResult as CommitResult
from .generations import Generations as Generations
from .merge_policy import LARGE_SEGMENT_ROWS as LARGE_SEGMENT_ROWS
from .recalibration import (
    Recalibration as Recalibration,
    recalibrate as recalibrate,
)
from .snapshot import Hit as Hit, Snapshot as Snapshot
from .store import Store as Store
from .writer import Writer as Writer
