"""Documents of office programs, books and mail: DOCX, PPTX, ODT and ODP, EPUB, RTF, EML.

Use it in the sandbox. Files and addresses are unknown here: the room around it reads them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
