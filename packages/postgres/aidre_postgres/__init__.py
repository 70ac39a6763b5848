"""Collections in PostgreSQL with pgvector behind the seam (`aidre.engine.ports`), where a commit is a transaction.

`open_source` finds it by the entry point `aidre.engines`. Start with `source`, then `tables`, then `writer`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
