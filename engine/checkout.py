"""The checkout that this code runs from, if it runs from one: what is imported from it, whether its kernel is built.

In a checkout `aidre/engine` is a link to `engine/`; in an installed package it is a folder. The distributions beside
aidre are in its folder `packages/`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1]
"""The folder of the package `aidre`."""


def checkout_root(package: Path = PACKAGE) -> Path | None:
    """The folder of the checkout; None for an installed package."""
    return package.parent if (package / "engine").is_symlink() else None


def search_path(root: Path) -> list[str]:
    """The folders of a checkout that Python imports from: its own, and those of the distributions beside aidre."""
    return [str(root), *sorted(str(path.parent) for path in root.glob("packages/*/pyproject.toml"))]


def child_environment() -> dict[str, str]:
    """The environment of a child process that runs modules of aidre.

    The environment of Python may belong to another checkout: without PYTHONPATH the child would run the code of that
    one. The path of an installed package is not needed, and would come before the standard library.
    """
    root = checkout_root()
    if root is None:
        return dict(os.environ)
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (*search_path(root), inherited)))}


def missing_kernel() -> str | None:
    """One line that says that the C kernel of this checkout is not built, and the cure; None where it is built."""
    root = checkout_root()
    if root is None or os.environ.get("AIDRE_KERNEL") or find_spec("aidre.engine.native.kernel") is not None:
        return None
    cure = "build it there: python setup.py build_ext --inplace"
    return f"the C kernel of {root} is not built: searches use FAISS and numpy, slower; {cure}"
