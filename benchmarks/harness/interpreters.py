"""Runs a benchmark of this checkout under another interpreter, in an environment of its own in the cache folder.

    python -m benchmarks.harness.interpreters PATH      installs this checkout under it, and prints its environment

The libraries have the versions of constraints.txt; aidre is installed anew each time, from a copy of the checkout. The
printed python is also good for `--previous`, which measures it in turns with the running one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from benchmarks.harness.real import bench_cache, say

ROOT: Final = Path(__file__).resolve().parents[2]
INSTALL_SECONDS: Final = 1_800
LEFT_OUT: Final = (".*", "build", "dist", "*.egg-info", "__pycache__", "tests", "benchmarks", "demo", "docs")
_VERSION: Final = "import platform; print('python_' + platform.python_version())"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", type=Path, metavar="PATH", help="run under this interpreter instead")
    parser.add_argument("--variant", metavar="NAME", help="store the figures under this name, beside the others")


def rerun(program: Path, module: str, argv: Sequence[str]) -> int:
    """Runs a module of `benchmarks` under the interpreter, without the option --python; returns its status."""
    found = environment(program)
    version = subprocess.run([found, "-c", _VERSION], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "benchmarks").symlink_to(ROOT / "benchmarks")  # without the packages beside it
        command: list[str | Path] = [found, "-m", module, *without_python(argv), "--variant", version]
        return subprocess.run(command, cwd=folder, check=False).returncode


def without_python(argv: Sequence[str]) -> list[str]:
    left = []
    words = iter(argv)
    for word in words:
        if word == "--python":
            next(words, None)
        elif not word.startswith("--python="):
            left.append(word)
    return left


def environment(program: Path) -> Path:
    """The python of an environment with this checkout installed. Raises CalledProcessError."""
    root = bench_cache() / "interpreters" / blake2b(str(program.resolve()).encode(), digest_size=6).hexdigest()
    python = root / "bin" / "python"
    if not python.exists():
        say(f"making an environment of {program} in {root} ...")
        subprocess.run([program, "-m", "venv", "--clear", root], check=True, timeout=INSTALL_SECONDS)
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "aidre"
        shutil.copytree(ROOT, copied, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", copied], check=True, timeout=INSTALL_SECONDS)
        subprocess.run([*pip, "--no-deps", "--force-reinstall", copied], check=True, timeout=INSTALL_SECONDS)
    return python


if __name__ == "__main__":
    print(environment(Path(sys.argv[1])))
