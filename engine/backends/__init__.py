"""Other engines behind the seam (engine/ports.py): collections in PostgreSQL with pgvector.

`open_source` opens any of them, and local segments without an address. What the adapters share are the rows of
documents and chunks, the pending state of a writer and the state of a collection. Knows no HTTP and no file format of a
publisher. Start with `address`, then `postgres`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
