from .pipeline.ingest import ingest as ingest
from .pipeline.run import IngestOptions as IngestOptions
from .pipeline.run_events import Problem as Problem, Progress as Progress, Summary as Summary
