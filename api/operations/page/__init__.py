"""The pages for people: search at `/` and the API documentation at `/docs`, each one file without a build step.

Their parts are HTML, CSS and scripts in this folder. Not for what programs read, which is beside this room.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
