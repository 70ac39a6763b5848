"""One ingest run: change detection, chunks, embeddings, commits, mirroring, progress.

Use `ingest` to bring sources into a collection, `embed_space` to add a space to a stored one. It knows no file format
and fetches nothing: that is behind `ingest/sources/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
