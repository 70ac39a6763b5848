"""What every endpoint shares: bodies and members, media types, errors, envelope, metrics, access log, shared files.

Useful in routes and middleware. It authorises no caller and searches nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
