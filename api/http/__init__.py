"""What every endpoint shares: request bodies and members, media types, errors, envelope, metrics, access log, SQLite.

Useful in routes and middleware. It authorises no caller and searches nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
