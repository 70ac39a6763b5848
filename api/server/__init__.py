"""The HTTP connection, the middleware around the application, and the form in which protocols join it (`Mounted`).

Useful to serve an ASGI application with time-outs and overload protection. It knows no retrieval protocol.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
