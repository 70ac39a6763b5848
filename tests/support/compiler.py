"""The sources of the kernel, compiled by hand: with warnings, with sanitizers, for other machines."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests import ROOT
from tests.support.tools import install_python, made

NATIVE = ROOT / "engine" / "native"
DRIVER = ROOT / "tests" / "engine" / "native" / "driver.c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SMALL_BLOCKS = ("-DWORD_BLOCK=32", "-DPENDING=8")
"""Words are searched in several blocks in the small cases of the driver."""
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
COVERED = (*SANITIZED, "-fsanitize-coverage=trace-pc", "-fPIC")
COUNTERS = ROOT / "tests" / "engine" / "native" / "counters.c"


def sources(*, of_python: bool) -> list[Path]:
    """The files that need Python's headers, or the others."""
    return [path for path in sorted(NATIVE.glob("*.c")) if ('"objects.h"' in path.read_text()) is of_python]


def compile_driver(compiler: Sequence[str], output: Path, *options: str) -> None:
    """AssertionError with what the compiler says if it says anything."""
    files = [str(path) for path in (DRIVER, *sources(of_python=False))]
    run([*compiler, *options, *SMALL_BLOCKS, f"-I{NATIVE}", *files, "-lm", "-o", str(output)])


def compile_modules(compiler: Sequence[str], folder: Path, *options: str) -> None:
    """The files that need Python's headers, without linking them."""
    headers = f"-I{sysconfig.get_paths()['include']}"
    for path in sources(of_python=True):
        run([*compiler, *options, headers, "-c", str(path), "-o", str(folder / f"{path.stem}.o")])


def compile_sanitized_kernel(folder: Path) -> bool:
    """The module that Python loads, for whoever has loaded AddressSanitizer with libFuzzer before; it counts for that
    which branches it takes. False without gcc or Python's headers."""
    gcc = shutil.which("gcc")
    if gcc is None or not has_headers():
        return False
    headers = [f"-I{sysconfig.get_paths()['include']}", "-DPy_LIMITED_API=0x030b0000"]
    for path in sorted(NATIVE.glob("*.c")):
        run([gcc, "-std=c11", *COVERED, *headers, "-c", str(path), "-o", str(folder / f"{path.stem}.o")])
    run([gcc, "-std=c11", "-O1", "-fPIC", "-c", str(COUNTERS), "-o", str(folder / "counters.o")])
    objects = [str(path) for path in sorted(folder.glob("*.o"))]
    run([gcc, "-shared", *objects, "-lm", "-o", str(folder / "kernel.abi3.so")])
    return True


def driver_by(name: str, compiler: Sequence[str], *options: str) -> Path:
    """The driver by a compiler, for this machine or another; compiled where its sources, the compiler or what that is
    told have changed since it was. `name` is one of its own for each set of options."""

    def make(folder: Path) -> None:
        compile_driver(compiler, folder / "driver", *options)

    told = (*compiler, *options, *SMALL_BLOCKS)
    return made(f"driver-{name}", make, DRIVER.read_bytes(), *of_sources(), version_of(compiler), *told) / "driver"


def of_sources() -> list[bytes]:
    """The content of the kernel's files."""
    return [path.read_bytes() for path in sorted(NATIVE.glob("*.[ch]"))]


def version_of(compiler: Sequence[str]) -> bytes:
    return subprocess.run([*compiler, "--version"], capture_output=True, check=True).stdout


def run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr


@cache
def compilers() -> tuple[str, ...]:
    return tuple(path for path in map(shutil.which, ("gcc", "clang")) if path)


def has_headers() -> bool:
    return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()


def sanitizes(compiler: str, folder: Path, options: Sequence[str] = SANITIZED) -> bool:
    """Whether programs of this compiler run with these sanitizers here."""
    source, program = folder / "empty.c", folder / "empty"
    source.write_text("int main(void) { return 0; }\n", encoding="ascii")
    done = subprocess.run([compiler, *options, str(source), "-o", str(program)], capture_output=True, check=False)
    return done.returncode == 0 and subprocess.run([program], capture_output=True, check=False).returncode == 0


def zig() -> list[str]:
    """The C compiler of zig; it compiles for any machine."""
    return [str(install_python("ziglang") / "ziglang" / "zig"), "cc"]
