"""Text to vectors: the Embedder, the exported ONNX graph that runs, sentence-transformers as the reference, endpoints.

Use `load_embedder` to embed documents or queries. It knows no store; heavy libraries load at the first text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
