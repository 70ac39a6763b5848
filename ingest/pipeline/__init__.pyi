from . import ingest as ingest
from .document_writer import DocumentWriter as DocumentWriter, delete_passing as delete_passing
from .last_read import (
    load_read_times as load_read_times,
    oldest_read_times as oldest_read_times,
    save_read_times as save_read_times,
)
from .mirror import Mirror as Mirror, SeenIds as SeenIds, find_stored_drafts as find_stored_drafts
from .run import IngestOptions as IngestOptions, Run as Run
from .run_events import (
    Committed as Committed,
    DocumentProblem as DocumentProblem,
    EmbedSummary as EmbedSummary,
    Event as Event,
    Notice as Notice,
    RunCounters as RunCounters,
    RunProgress as RunProgress,
    Summary as Summary,
    Tally as Tally,
)
from .space_backfill import drop_space as drop_space, embed_space as embed_space
