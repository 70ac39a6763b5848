"""What a reader yields (a document, a batch of rows, or the reason for a failure), and the file that it reads.

Use it in readers and sources: it checks the members of rows and opens files safely. It parses no file format.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
