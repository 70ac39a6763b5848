"""What one question finds in one collection, for every door: HTTP protocols, the library and the command line.

A question is answered by a generator that asks for what waits or costs (`Embed`, `Search`, `Count`, ...) and is sent
the result, so this room has no threads, no event loop, no clock, no settings and no model. `run` carries the steps out
in one thread; a server has a driver of its own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
