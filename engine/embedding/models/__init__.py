"""Models on this machine: which ones aidre knows, where their weights are, how they are fetched, added and removed.

Use `find_model` for the folder of a model that is here, `obtain` to fetch a known one that is not. It loads no model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
