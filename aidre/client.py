"""The former address of the client, which is the package `aidre_client` now."""

from __future__ import annotations

import warnings
from typing import Any

import aidre_client


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    warnings.warn("aidre.client is aidre_client now: import it from there", DeprecationWarning, stacklevel=2)
    return getattr(aidre_client, name)
