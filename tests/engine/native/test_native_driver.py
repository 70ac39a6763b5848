"""The kernel without Python: it compiles without a warning, and random searches of it show nothing to sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.commands.kernel_wheels import TARGETS
from tests.support.compiler import (
    SANITIZED,
    STRICT,
    compile_modules,
    compilers,
    driver_by,
    has_headers,
    sanitizes,
    sources,
    zig,
)

SECONDS = 2
"""`make hostile` takes thirty minutes."""

pytestmark = [pytest.mark.slow, pytest.mark.process]
needs_compiler = pytest.mark.skipif(not compilers(), reason="gcc or clang is not installed")


@pytest.fixture(scope="module", params=compilers())
def strict(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A compiler, and the driver by it: compiled without a warning."""
    return request.param, driver_by(f"strict-{Path(request.param).name}", [request.param], *STRICT, "-O1")


@needs_compiler
def test_the_sources_compile_without_a_warning(strict: tuple[str, Path], tmp_path: Path) -> None:
    if has_headers():
        compile_modules([strict[0]], tmp_path, *STRICT, "-O1")
    assert len(sources(of_python=False)) > len(sources(of_python=True)) > 3


@needs_compiler
def test_a_case_is_repeated_from_its_file(strict: tuple[str, Path], tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"case{number}").write_bytes(bytes(range(number)) * 5)
    words = [str(strict[1]), *(str(tmp_path / f"case{number}") for number in range(40))]
    subprocess.run(words, check=True, capture_output=True)


@needs_compiler
def test_random_searches_show_nothing_to_sanitizers(tmp_path: Path) -> None:
    compiler = next((one for one in compilers() if sanitizes(one, tmp_path)), None)
    if compiler is None:
        pytest.skip("no compiler has sanitizers here")
    driver = driver_by("sanitized", [compiler], *STRICT, *SANITIZED)
    seed = os.environ.get("AIDRE_SEED", "1")
    words = [str(driver), str(SECONDS), seed if seed.isdigit() else str(os.getpid())]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 10


@pytest.mark.network
def test_the_sources_compile_for_other_machines() -> None:
    """Without optimisation: clang warns before it, and zig adds sanitizers to what it does not optimise."""
    compiler = zig()
    for target in TARGETS.values():
        driver = driver_by(target, [*compiler, "-target", target], *STRICT, "-O0", "-fno-sanitize=undefined")
        assert driver.stat().st_size > 10_000
