"""What serves many collections and many replicas: the catalog, packs of small publications, retention, lazy caches.

Use it from publishers and replicas. One publication, and what signs it, are of `engine/maintenance`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
