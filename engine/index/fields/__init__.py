"""Filters over documents: the filter grammar, typed columns of their fields, and the mask of the rows that pass.

Use it to parse a filter or to evaluate one in a segment. Knows no vectors and no text index.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
