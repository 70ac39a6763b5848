"""The C kernel: vector search in one call. It is optional: without it FAISS and numpy do the same, slower.

Use `native`, which is None where the kernel was not built. It knows rows and codes, no space, no filter and no file.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
