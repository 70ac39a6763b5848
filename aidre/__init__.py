"""aidre: a vector retrieval engine, and the AI Discovery and Retrieval Endpoint (AIDRE) on top of it.

For programs that say `import aidre`: the nouns of the engine and the errors that it raises. Importing it loads nothing
heavy; each name loads its module at the first use. Everything that is not listed here is private.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
