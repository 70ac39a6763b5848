"""Bytes on disk: durable writes, Arrow files, the manifest, tombstones, changelogs, the writer's lock.

Use it to write files durably, and to read which files a generation names. It knows no queries and opens no segments.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
