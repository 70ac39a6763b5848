"""Rate limits, concurrency limits and the daily chunk budget, shared by all workers.

Use it to charge a caller. Who the caller is, `api/access/` decides.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
