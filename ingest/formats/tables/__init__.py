"""File formats of rows: JSON Lines, JSON, CSV and Parquet.

Use it to read the rows of a file as documents, one by one or as columnar batches. Formats of single documents are in
the room around it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
