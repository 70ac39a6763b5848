"""Installs or lists the peers: `python -m benchmarks.peers install [NAME ...]`; without an argument, lists them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.peers import words
from benchmarks.peers.engines.protocol import ENTRIES
from benchmarks.peers.environments import folder, install, python


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="peers", description=__doc__)
    parser.add_argument("verb", choices=("list", "install"), nargs="?", default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="peers; default: all")
    options = parser.parse_args(argv)
    peers = [one for one in (*ENTRIES, *words.ENTRIES) if one.environment]
    if unknown := set(options.names) - {one.name for one in peers}:
        parser.error(f"no peer is named {min(unknown)!r}; choose from: {', '.join(one.name for one in peers)}")
    problems = install(options.names) if options.verb == "install" else []
    for one in peers:
        where = folder(one.environment or "") if python(one).exists() else "not installed"
        print(f"{one.name:14}{one.index:40}{where}")
    for problem in problems:
        print(f"not installed: {problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
