"""The derived look-ups of one segment; this room itself holds the look-up from ids and embedding keys to rows.

`text`, `fields` and `vectors` are rooms of their own that never import each other. All of them can be rebuilt from the
segment's documents, chunks and vectors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
