"""Agent Intake Protocol 0.1.0: submissions are answered with offers, and offers are bound.

Use it to serve the protocol and to read its binds offline. It translates submissions into searches and keeps the ledger
of offers and binds; it does not rank.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
