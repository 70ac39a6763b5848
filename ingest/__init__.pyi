from .pipeline.ingest import ingest as ingest
from .pipeline.run import IngestOptions as IngestOptions
from .pipeline.run_events import DocumentProblem as DocumentProblem, RunProgress as RunProgress, Summary as Summary
