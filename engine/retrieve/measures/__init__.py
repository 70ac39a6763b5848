"""What questions say of numbers, dates, units and orders, read from their words: "under 400 euros", "since 2022".

Use it to read bounds or a period, or to find them in a question. Knows no collection and no field.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
