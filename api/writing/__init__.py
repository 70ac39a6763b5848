"""How do documents come in over HTTP? A writer process makes one commit of what concurrent requests send.

`DocumentWrites` is what endpoints call; the process holds a collection's lock for each commit alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
