"""Guarded HTTP GET: public addresses only, deadlines, robots.txt, byte limits.

Use it to fetch a source. What an answer contains is for `ingest/sources/` to decide.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
