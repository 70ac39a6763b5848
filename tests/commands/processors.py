"""The tests of numbers, on every kernel that this processor can run: `make processors`.

Recall, scores and the oracles of durability must hold on whatever machine they run. OpenBLAS, behind numpy, and FAISS
choose their kernels when they are loaded; both let a variable of the environment choose a lesser one. A kernel that the
processor cannot run ends its process at once, and is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tests import ROOT

NUMBERS = (
    "tests/engine/embedding",
    "tests/engine/index/vectors",
    "tests/engine/search",
    "tests/hostile/test_kills.py",
    "tests/hostile/test_points.py",
    "tests/integration/test_segmentation.py",
    "tests/integration/test_stored_lists.py",
    "tests/quality/test_filter_recall.py",
    "tests/quality/test_recall.py",
    "tests/quality/test_retrieval.py",
)
SAMPLE = ("tests/engine/index/vectors/test_distance.py", "tests/engine/search/test_dense.py")
"""A minute's worth at most; `tests/quality/test_processors.py` runs it on one kernel."""
CORE_TYPES = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX", "Cooperlake", "Sapphirerapids")
"""The x86-64 kernels of OpenBLAS, from the least processor to the newest; it maps other names to these."""
SIMD_LEVELS = ("NONE", "AVX2", "AVX512", "AVX512_SPR")
"""The kernels of FAISS."""
_NAMED = """
import faiss, numpy, threadpoolctl
numpy.ones((64, 64), numpy.float32) @ numpy.ones((64, 64), numpy.float32)
codes = faiss.IndexScalarQuantizer(64, faiss.ScalarQuantizer.QT_8bit)
codes.train(numpy.eye(64, dtype=numpy.float32))
codes.add(numpy.eye(64, dtype=numpy.float32))
codes.search(numpy.eye(64, dtype=numpy.float32), 3)
blas = [one["architecture"] for one in threadpoolctl.threadpool_info() if one["internal_api"] == "openblas"]
print(blas[0] if blas else "other", faiss.SIMDConfig.get_level_name())
"""


@dataclass(frozen=True, slots=True)
class Kernels:
    """What the libraries are told to run; None leaves the choice to them."""

    core_type: str | None
    simd_level: str | None
    threads: int

    @property
    def environment(self) -> dict[str, str]:
        told = {"OPENBLAS_CORETYPE": self.core_type, "FAISS_SIMD_LEVEL": self.simd_level}
        threads = {"OMP_NUM_THREADS": str(self.threads), "OPENBLAS_NUM_THREADS": str(self.threads)}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        for name in told:
            inherited.pop(name, None)
        return {**inherited, **threads, **{name: value for name, value in told.items() if value is not None}}

    def __str__(self) -> str:
        return f"OpenBLAS {self.core_type or 'chosen'}, FAISS {self.simd_level or 'chosen'}, threads {self.threads}"


@cache
def running(kernels: Kernels) -> tuple[str, str] | None:
    """The kernels that numpy and FAISS then report; None where the processor cannot run them."""
    done = subprocess.run(
        [sys.executable, "-c", _NAMED], env=kernels.environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return None
    blas, simd = done.stdout.split()
    return blas, simd


def core_types() -> list[str]:
    """Those of OpenBLAS that run here and differ from each other, the least first."""
    found: dict[str, str] = {}
    for name in CORE_TYPES:
        reported = running(Kernels(name, "NONE", 1))
        if reported is not None:
            found.setdefault(reported[0], name)
    return list(found.values())


def simd_levels() -> list[str]:
    return [name for name in SIMD_LEVELS if (running(Kernels(None, name, 1)) or ("", ""))[1] == name]


def combinations() -> Iterator[Kernels]:
    """Each core type with one thread and two, FAISS held to AVX2; then the other kernels of FAISS."""
    levels = simd_levels()
    held = "AVX2" if "AVX2" in levels else None
    for core_type in core_types():
        for threads in (1, 2):
            yield Kernels(core_type, held, threads)
    for level in levels:
        if level != held:
            yield Kernels(None, level, 2)


def run_tests(kernels: Kernels, files: Sequence[str], options: Sequence[str] = ()) -> int:
    """The status of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", *files, *options]
    return subprocess.run(command, env=kernels.environment, cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """What is not an option of this command goes to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the combinations and run nothing")
    asked, options = parser.parse_known_args(arguments)
    failed = []
    for kernels in combinations():
        print(kernels, flush=True)  # noqa: T201
        if not asked.list and run_tests(kernels, NUMBERS, options) != 0:
            failed.append(kernels)
    for kernels in failed:
        print(f"FAILED: {kernels}")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
