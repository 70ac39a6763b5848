"""What engines with tables share: documents and chunks as rows, and a writer whose changes wait for one commit.

For a package that puts another engine behind the seam (`aidre.engine.ports`), as `aidre_postgres` and `aidre_milvus`
do. Knows no engine and no HTTP. Start with `rows`, then `sink`, then `lacking`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
