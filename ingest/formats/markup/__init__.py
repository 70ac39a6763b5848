"""Texts in light markup: reStructuredText, AsciiDoc, Org, MDX, notebooks, source code; and the writer of their blocks.

Use it to turn such a text into the text of a document with its headings. Files and addresses are unknown here, but for
notebooks, which are Markdown.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
