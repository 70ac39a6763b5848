"""Folders, files, crawled sites and single addresses as streams of documents.

Use it to resolve paths and addresses to sources, and to read all items of a source, each file by its reader. It writes
nothing and embeds nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
