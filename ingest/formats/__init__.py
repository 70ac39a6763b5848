"""One module for each file format of documents: HTML, PDF, DOCX, Markdown, JSON-LD, feeds, sitemaps.

Use it to turn one file into documents. Formats of rows are in `tables`; which reader a file gets is in
`ingest/sources/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
