"""What is done with a collection of a server beside searching it: documents read, counted and written, and the feed of
its changes. Operations without input or output, as those of the protocols. Start with `documents`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
