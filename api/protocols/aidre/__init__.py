"""AIDRE: discovery, collections, text and vector search, chunk lookup, the change feed.

Pure translation between HTTP and `api/retrieval/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
