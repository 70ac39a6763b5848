"""The inverted index of one segment: analysis of text into terms, and the postings of each term.

Use it to tokenize, or to read term frequencies and lengths. Scores are computed in `engine/search/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
