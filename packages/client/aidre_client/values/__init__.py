"""Values that a program exchanges with a collection, local or of a server: hits, facets, highlights, and their checks.

For the client, the library and the engine, which share these types. Loads neither numpy nor httpx. Start with `hits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
