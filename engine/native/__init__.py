"""The C kernel: a search by vectors, words or both in one call. It is optional: FAISS and numpy do the same, slower.

Use `native`, which is None where the kernel was not built. It knows rows, codes and postings, no
space, no filter and no file.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
