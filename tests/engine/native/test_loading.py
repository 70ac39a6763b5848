"""Which kernel a process uses: that of AIDRE_KERNEL, the fastest, or none; and what is said where it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aidre.engine.native import kernel_name
from aidre.engine.native.loading import FALL_BACK, VARIABLE
from tests import ROOT
from tests.support.native import kernel, runnable

pytestmark = [pytest.mark.process, pytest.mark.slow]

CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"},
    "vnni": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"},
    "neon": {"asimd"},
}
"""What /proc/cpuinfo calls what a kernel needs."""
NAMED = "from aidre.engine.native import kernel_name, native; print(kernel_name(), native is not None)"
WITHOUT_KERNEL = "import sys; sys.modules['aidre.engine.native.kernel'] = None; "
SEARCH = """
import sys, pathlib
import numpy as np
from tests.support.stores import ask, fill, normal, space_of
space, rows = space_of("cosine", 16), normal(500, 16)
snapshot = fill(pathlib.Path(sys.argv[1]), space, rows, commits=3)
print(*ask(snapshot, rows[7], 5))
"""


def run(program: str, *words: str, wanted: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if wanted is not None:
        environment[VARIABLE] = wanted
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_fastest_kernel_is_used_and_any_can_be_named() -> None:
    fastest = [FALL_BACK, "False"] if kernel is None else [kernel.choose(None), "True"]
    assert run(NAMED).stdout.split() == run(NAMED, wanted="").stdout.split() == fastest
    assert run(NAMED, wanted=FALL_BACK).stdout.split() == [FALL_BACK, "False"]
    for name in runnable():
        assert run(NAMED, wanted=name).stdout.split() == [name, "True"]


@pytest.mark.skipif(not CPUINFO.exists(), reason="what the processor can is read from Linux")
def test_the_instruction_sets_are_those_that_the_system_says_the_processor_has() -> None:
    """Whatever compiled the kernel: with some compilers `__builtin_cpu_supports` says no to all."""
    flags = set(re.findall(r"^(?:flags|Features)\s*: (.*)$", CPUINFO.read_text("utf-8"), re.MULTILINE)[0].split())
    found = {name for name, needed in INSTRUCTIONS.items() if needed <= flags}
    assert set(runnable()) == (found | {"scalar"} if kernel is not None else set())


def test_a_kernel_that_this_processor_cannot_run_is_refused_in_one_line() -> None:
    done = run(NAMED, wanted="sse9")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "ConfigurationError: AIDRE_KERNEL is 'sse9': use vnni, avx512, avx2, neon, scalar or faiss" in last


def test_a_machine_without_the_kernel_uses_faiss_and_a_kernel_that_was_not_built_is_refused() -> None:
    assert run(WITHOUT_KERNEL + NAMED).stdout.split() == [FALL_BACK, "False"]
    assert run(WITHOUT_KERNEL + NAMED, wanted=FALL_BACK).stdout.split() == [FALL_BACK, "False"]
    done = run(WITHOUT_KERNEL + NAMED, wanted="scalar")
    assert done.returncode == 1
    message = done.stderr.strip().splitlines()[-1]
    assert "ConfigurationError: AIDRE_KERNEL is 'scalar'" in message
    assert "was not built here: unset it" in message


def test_a_machine_without_the_kernel_answers_alike(tmp_path: Path) -> None:
    answers = [
        run(WITHOUT_KERNEL + SEARCH, str(tmp_path / "without")),
        *(run(SEARCH, str(tmp_path / name), wanted=name) for name in runnable()[-1:]),
    ]
    assert all(done.returncode == 0 for done in answers), [done.stderr for done in answers]
    assert len({done.stdout for done in answers}) == 1
    assert answers[0].stdout.split()[0] == "d000007"


def test_the_name_of_the_kernel_in_use_is_known() -> None:
    assert kernel_name() in {FALL_BACK, *runnable()}
