from .pipeline.ingest import ingest as ingest
from .pipeline.progress import Problem as Problem, Progress as Progress, Summary as Summary
from .pipeline.run import IngestOptions as IngestOptions
