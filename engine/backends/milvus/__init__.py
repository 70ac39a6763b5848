"""Collections in Milvus behind the seam (engine/ports.py). `writer` says how a commit is atomic without transactions.

Tested with one standalone server of release 2.3.5. Start with `source`, then `writer`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
