"""Runs the benchmarks, which are part of a checkout but of no wheel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aidre.engine.errors import ConfigurationError

CHECKOUT: Final = Path(__file__).resolve().parents[2]


def run_benchmarks(arguments: Sequence[str], checkout: Path = CHECKOUT) -> int:
    """Run `python -m benchmarks ARGUMENTS`; returns its exit status. Raises ConfigurationError without a checkout."""
    if not (checkout / "benchmarks" / "__main__.py").is_file():
        raise ConfigurationError(
            "bench: the benchmarks are no part of the installed package: run `make bench` in a clone of the repository"
        )
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=checkout, check=False).returncode
