from . import ingest as ingest
from .backfill import drop_space as drop_space, embed_space as embed_space
from .documents import DocumentWriter as DocumentWriter
from .last_read import oldest_read_times as oldest_read_times, save_read_times as save_read_times
from .progress import (
    Committed as Committed,
    EmbedSummary as EmbedSummary,
    Event as Event,
    Notice as Notice,
    Problem as Problem,
    Progress as Progress,
    Summary as Summary,
)
from .run import IngestOptions as IngestOptions
