"""The long forms: `python -m tests.hostile [NAME ...] [--seed N] [--scale F]`; every proof where none is named.

Prints the figures of each proof, at the end once more those of all; the status is 1 where one did not hold. A proof
fails alone: the others run. The same seed gives the same rounds, in whatever company a proof runs.
"""

from __future__ import annotations

import argparse
import importlib
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.hostile.report import Proof, Report

EVERY = 6_000
"""More than there are points in a cycle: each of them."""

PROOFS = {
    # name: (module, function, rounds in full)
    "kills": ("tests.hostile.kills", "run", 650),
    "bulk-kills": ("tests.hostile.bulk", "run", 100),
    "receipt-kills": ("tests.hostile.receipts", "run", 250),
    "take-over-kills": ("tests.hostile.older_receipts", "run", 100),
    "upgrade-kills": ("tests.upgrade.kills", "run", 100),
    "write-kills": ("tests.hostile.http_writes", "run", 100),
    "cuts": ("tests.hostile.cuts", "run", 100),
    "crashes": ("tests.hostile.points", "crashes", EVERY),
    "faults": ("tests.hostile.points", "faults", EVERY),
    "traced-crashes": ("tests.hostile.points", "traced_crashes", EVERY),
    "traced-faults": ("tests.hostile.points", "traced_faults", EVERY),
    "unsynced": ("tests.hostile.unsynced", "run", 2_000),
    "full": ("tests.hostile.full", "run", 40),
    "flips": ("tests.hostile.damage", "flips", 1_000),
    "truncations": ("tests.hostile.damage", "truncations", 1_000),
    "foreign": ("tests.hostile.foreign", "run", 10_000),
    "buffers": ("tests.hostile.buffers", "run", 1_000_000),
    "fuzzing": ("tests.hostile.fuzzing", "run", 600),
    "kernel": ("tests.hostile.kernel", "run", 100_000),
    "kernel-fuzz": ("tests.hostile.kernel_fuzz", "run", 1_800),
    "replicas": ("tests.hostile.replicas", "run", 50),
    "promotions": ("tests.hostile.promotions", "run", 200),
    "publish-kills": ("tests.hostile.publishing", "run", 200),
    "patterns": ("tests.hostile.patterns", "run", 1_000),
    "engines": ("tests.hostile.engines", "run", 10_000),
    "schema": ("tests.hostile.schema", "run", 20_000),
    "slow": ("tests.hostile.slow", "run", 60),
    "saturation": ("tests.hostile.saturation", "run", 15),
    "hoards": ("tests.hostile.hoards", "run", 10_000),
    "growth": ("tests.hostile.growth", "run", EVERY),
    "timing": ("tests.hostile.timing", "run", 40),
    "chaos": ("tests.hostile.chaos", "run", 1_000),
    "soak": ("tests.hostile.soak", "run", 1_800),
    "planted": ("tests.hostile.planted", "run", 1_200),
    "sampled": ("tests.hostile.sampled", "run", 100),
    "rooms": ("tests.hostile.rooms", "run", 1_000),
}
"""Names in the order in which they run. A round of what lasts a time is a second."""


def proof(name: str) -> Proof:
    module, function, _ = PROOFS[name]
    found: Proof = getattr(importlib.import_module(module), function)
    return found


def rounds_of(name: str, scale: float) -> int:
    return max(1, round(PROOFS[name][2] * scale))


def holds(name: str, report: Report, scale: float, seed: int) -> bool:
    """Run one proof; what it raises is printed."""
    rounds = rounds_of(name, scale)
    report.say(f"{name}: {rounds:,} rounds, seed {seed}")
    try:
        proof(name)(report, rounds, random.Random(f"{seed} {name}"))
    except Exception:
        report.say(f"{name}: DOES NOT HOLD (seed {seed})\n{traceback.format_exc()}")
        return False
    return True


def run(names: Sequence[str], seed: int, scale: float, folder: Path) -> int:
    figures, failed = [], []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"hostile-{name}-", dir=folder) as place:
            report = Report(Path(place))
            if not holds(name, report, scale, seed):
                failed.append(name)
            figures += report.figures
    print(f"\nseed {seed}, scale {scale:g}")  # noqa: T201 - a program's output
    for name, text in figures:
        print(f"{name}: {text}")  # noqa: T201 - a program's output
    print(f"did not hold: {', '.join(failed)}" if failed else "all hold")  # noqa: T201 - a program's output
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description="Proofs under attack, in full.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(PROOFS)}")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts, 0.01 for a trial")
    parser.add_argument("--folder", type=Path, help="where files go meanwhile; a folder for temporary files otherwise")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in PROOFS]
    if unknown:
        parser.error(f"no proof is named {unknown[0]!r}: there are {', '.join(PROOFS)}")
    return run(asked.names or list(PROOFS), asked.seed, asked.scale, asked.folder)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # disks are unmounted, children ended
    sys.exit(main(sys.argv[1:]))
