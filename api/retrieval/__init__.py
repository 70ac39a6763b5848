"""The one search verb that all protocols share: visibility, embedding, scheduling, pages, cursors, live snapshots.

Useful for a protocol, through `Retrieval`. It renders no envelope and reads no request.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
