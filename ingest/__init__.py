"""Documents in, one commit out.

For reading sources, cutting them into chunks, embedding and committing them. Fetches over HTTP but serves none, and
knows no FAISS. Start with `pipeline`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
