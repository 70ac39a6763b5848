"""Operations on a whole store: backup, restore, verification, scrub, history.

For operators' commands and the server's background scrub. Nothing here is on the path of a search or a commit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
