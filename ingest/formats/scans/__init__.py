"""Pages that are pictures: how the sandbox decodes them, and how tesseract reads them where it is asked for.

What surrounds the words of a PDF is read in `pdf.py`, and tesseract is started by the room `sandbox`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
