"""Queries over many segments: dense, BM25 and hybrid, and the calibration of how deep a scan goes.

Use it to rank rows of opened segments. It knows no generation, no file and no writer.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
