"""aidre: a vector retrieval engine, and the AI Discovery and Retrieval Endpoint (AIDRE) on top of it.

`aidre.open` opens a store, whose collections are written and searched; every error is an `AidreError` with a code.
Importing aidre loads nothing heavy; each name loads its module at the first use. What is not listed in `__all__` is
private.
"""

import lazy_loader

__version__ = "0.3.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
