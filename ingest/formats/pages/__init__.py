"""HTML pages: which of their words are the page's own text, and what the page is called.

Use it on a parsed page, in the sandbox. Files and addresses are unknown here: the room around it reads them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
