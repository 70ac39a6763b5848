"""The configuration file `aidre.toml`: every section as a frozen struct, checked when it is read.

Use it to read settings. It opens no store and knows no protocol's requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
