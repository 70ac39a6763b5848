from .driver import InProcess as InProcess, ingest_distributed as ingest_distributed
from .job import LoadModels as LoadModels, Runner as Runner
from .ray_runner import connect as connect
