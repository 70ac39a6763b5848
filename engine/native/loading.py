"""Which kernel this process uses: AIDRE_KERNEL names one, else the fastest that the processor can run.

It is chosen once, when it is first used, so that all scores of a process come from one distance function.
"""

from __future__ import annotations

import os
from typing import Any

from aidre.engine.errors import ConfigurationError

VARIABLE = "AIDRE_KERNEL"
FALL_BACK = "faiss"
"""The name for running without the kernel."""


def _load() -> tuple[Any, str]:
    """The extension, if there is one and it is wanted, and the name of what is used."""
    wanted = os.environ.get(VARIABLE) or None
    if wanted == FALL_BACK:
        return None, FALL_BACK
    try:
        from aidre.engine.native import kernel
    except ImportError as problem:
        if wanted is None:
            return None, FALL_BACK
        raise ConfigurationError(
            f"{VARIABLE} is {wanted!r}, but the C kernel was not built here: unset it"
        ) from problem
    try:
        return kernel, kernel.choose(wanted)
    except ValueError as problem:
        message = f"{VARIABLE} is {wanted!r}: use vnni, avx512, avx2, neon, scalar or faiss, if the processor can"
        raise ConfigurationError(message) from problem


native, _name = _load()


def kernel_name() -> str:
    """The instruction set of the kernel in use, or `faiss`."""
    return _name
