from .driver import ingest_distributed as ingest_distributed
from .ray_runner import connect as connect
