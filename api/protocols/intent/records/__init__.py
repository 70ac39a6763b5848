"""What the ledger notes of answers: records of its journal, and what each key was ever given of a document.

Use it to write, look up and forget such notes within a transaction of the ledger. It opens no file.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
