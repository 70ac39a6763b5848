"""One immutable segment: collected in memory, written, opened, merged, and viewed through its tombstones.

Use it to read rows of a segment, to write one, or to merge several. `engine/collection/` decides which segments are
live; `engine/search/` scores their rows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
