"""Collections in Milvus behind the seam (`aidre.engine.ports`), where rows are visible by a commit record.

`open_source` finds it by the entry point `aidre.engines`. Tested with one standalone server of release 2.3.5, and with
Milvus Lite. Start with `source`, then `writer`, which says how a commit is atomic without transactions, then `words`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
