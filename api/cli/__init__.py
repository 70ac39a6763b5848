"""The command `aidre`: one module for each family of commands.

Nothing but its rooms `report` and `doctor` imports this room. Heavy imports happen inside the commands.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
