"""NLWeb 0.55 over HTTP, Server-Sent Events and MCP, with promises for slow requests.

The room `query` parses requests and the room `answer` makes items; this room has the response envelope, the promises
and the transports. Nothing here searches or ranks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
