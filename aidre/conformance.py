"""The former address of the conformance kit, which is the package `aidre_conformance` now."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aidre.engine.errors import not_installed


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if find_spec("aidre_conformance") is None:
        raise not_installed("aidre.conformance", "conformance")
    warnings.warn("aidre.conformance is aidre_conformance now: import it from there", DeprecationWarning, stacklevel=2)
    return getattr(import_module("aidre_conformance"), name)
