"""Text to the numbers that a model reads: WordPiece and Unigram of the known models, package tokenizers for others.

Package tokenizers brings the client of a model hub, a twentieth of an installation, which known models do not need.
"""
