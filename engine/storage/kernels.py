"""Arrow's compute functions, imported at the first use: that takes a tenth of a second, and a search needs none.

Untyped, since their stubs reject arrays of `Any`.
"""

from __future__ import annotations

from typing import Any, Final


class _Kernels:
    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        return getattr(pyarrow.compute, name)


kernels: Final[Any] = _Kernels()
