"""What a generator's module is made of: settings read as data, paths, patterns, slugs, and the place of a file.

Use it to read configuration files without executing anything. It knows no generator.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
