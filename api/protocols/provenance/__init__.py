"""Signatures: of chunks as compact JWS (RFC 7515), of answers as HTTP message signatures (RFC 9421).

Use it to sign and to manage the key file. It verifies nothing and imports no protocol.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
