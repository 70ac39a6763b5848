"""One ingest by many workers: blocks of files, workers that write segments, a driver that adopts and commits them.

Use `ingest_distributed` with the runner of a cluster that `connect` gives. It reads files alone, and it is for stores
of local segments in a folder that all workers share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
