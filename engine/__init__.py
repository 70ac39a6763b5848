"""The index core: stores collections on disk and searches them.

For code that reads or writes a store: `open_source` opens one, and `ports` says what comes back. Knows no HTTP and no
file format of a publisher. Start with `model`, then `ports`, then `collection`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
