"""Agentic Intent Protocol 0.1: passages for signed partners, with durable receipts.

Use it to serve the protocol and to read its events offline. It translates requests into searches and keeps the
ledger that the protocol demands; it does not rank.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
