"""Vectors of one segment: encoding, exact distances, product quantization, inverted lists, the scan.

The only room that imports FAISS. Use it to find and score rows by vector; it knows no filter, no chunk and no
generation. What to scan, how deep, and how hits of many segments rank is decided in `engine/search/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
