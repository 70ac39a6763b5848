"""Every surface an outsider touches: the HTTP protocols, the command line, the search page.

Start with `app`, which mounts the protocols, or with one protocol.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
