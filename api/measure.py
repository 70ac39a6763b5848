"""Runs the benchmarks, which stand in the checkout that this package is installed from and in no wheel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aidre.engine.errors import ConfigurationError

CHECKOUT: Final = Path(__file__).resolve().parent.parent


def measure(arguments: Sequence[str], checkout: Path = CHECKOUT) -> int:
    """`python -m benchmarks ARGUMENTS`, and its exit status. ConfigurationError where there is no checkout."""
    if not (checkout / "benchmarks" / "__main__.py").is_file():
        raise ConfigurationError(
            "bench: the benchmarks are no part of the installed package: run `make bench` in a clone of the repository"
        )
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=checkout, check=False).returncode
