"""A collection through time: Store, Snapshot, Writer, commit, merge, change feed and garbage collection.

Use it to search a collection or to write to one. Operations on a whole store are in `engine/maintenance/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
