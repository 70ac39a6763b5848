"""Folders as the generators of websites read them: which address a file has, what it includes, where its links lead.

Use it to find the generators of a folder and to ask for the page of a file. Configuration is read as data: nothing of
the folder is executed. It reads no document.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
