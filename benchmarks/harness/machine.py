"""What the figures depend on beside the code: processor, instruction sets in use, and how the interpreter was built."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_LOOPS = 200_000


def machine() -> str:
    """One line for the report."""
    return "; ".join([processor(), interpreter(), *instruction_sets()])


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores, {platform.machine()}{f', {models[0]}' if models else ''}"


def interpreter() -> str:
    return f"Python {platform.python_version()} ({platform.python_compiler()}, {', '.join(build_flags())})"


def build_flags() -> list[str]:
    """Profile-guided and link-time optimisation, as far as sysconfig names them: Debian removes these flags from it."""
    given = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    names = ("PY_CFLAGS", "PY_CORE_CFLAGS", "PY_CFLAGS_NODIST", "PY_LDFLAGS", "PY_LDFLAGS_NODIST", "PY_CORE_LDFLAGS")
    flags = " ".join(str(sysconfig.get_config_var(name) or "") for name in names).split()
    profiled = "--enable-optimizations" in given or any(flag.startswith("-fprofile-use") for flag in flags)
    linked = "--with-lto" in given or any(flag.startswith("-flto") for flag in flags)
    level = next((flag for flag in reversed(flags) if flag.startswith("-O")), "-O unknown")
    if sys.flags.debug or "--with-pydebug" in given:
        return ["debug", level]
    return [level, "PGO" if profiled else "PGO not named", "LTO" if linked else "LTO not named"]


def loop_nanoseconds() -> float:
    """The best time of a step of a loop in Python, which tells builds apart whose flags are not named."""
    best = float("inf")
    for _ in range(5):
        kept = [0, 1, 2, 3]
        started = time.process_time()
        total = 0
        for step in range(_LOOPS):
            total += kept[step & 3]
            if total > 1_000_000:
                total = abs(-step)
        best = min(best, time.process_time() - started)
    return 1e9 * best / _LOOPS


def instruction_sets() -> Iterator[str]:
    import numpy as np

    found: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    features = found.get("SIMD Extensions", {}).get("found") or found.get("SIMD Extensions", {}).get("baseline", [])
    yield f"numpy {np.__version__} with {features[-1] if features else 'no extension'}{blas()}"
    if find_spec("faiss"):
        import faiss

        level = faiss.SIMDConfig.get_level_name() if hasattr(faiss, "SIMDConfig") else faiss.get_compile_options()
        yield f"FAISS {faiss.__version__} with {level}"
    yield f"aidre's kernel: {kernel()}"


def blas() -> str:
    """The kernel of numpy's OpenBLAS, if threadpoolctl is installed."""
    if not find_spec("threadpoolctl"):
        return ""
    pools = import_module("threadpoolctl").threadpool_info()
    kernels = [pool["architecture"] for pool in pools if "numpy" in pool["filepath"] and "architecture" in pool]
    return f", OpenBLAS {kernels[0]}" if kernels else ""


def kernel() -> str:
    """The kernel that aidre searches with; a release without one of its own searches with FAISS."""
    try:
        from aidre.engine.native import kernel_name
    except ImportError:
        return "FAISS"
    return kernel_name()
