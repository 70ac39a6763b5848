"""Text to the numbers that a model reads: WordPiece and Unigram of the known models, package tokenizers for others.

Package tokenizers brings the client of a model hub, a twentieth of an installation, which known models do not need.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
