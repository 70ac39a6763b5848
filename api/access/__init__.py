"""Authorisation: who the caller is, which collections it may see, and what it may spend.

Use `Guard` for a request and `may_see` for a collection. Counting is in `limits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
