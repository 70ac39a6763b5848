"""What operators read: health, Prometheus metrics, the OpenAPI document, the scrubber; and the search page.

Endpoints beside the protocols. Not for commands, which are in `api/cli/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
