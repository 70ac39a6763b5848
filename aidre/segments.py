"""Segments outside of a store: executors of a cluster write them, and a collection adopts them in one commit.

`write` needs no store and no lock, and runs in any process or container that has aidre. `Collection.adopt` or
`aidre adopt` takes what is whole, each segment once.
"""

from aidre.library.loose_segments import write

__all__ = ["write"]
