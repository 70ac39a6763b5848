"""`python -m aidre`: the command line, by the code of the folder that it is run in."""

from __future__ import annotations

import sys


def main() -> None:
    from aidre.api.cli.main import main as run_command
    from aidre.engine.checkout import missing_kernel

    message = missing_kernel()
    if message is not None:
        sys.stderr.write(f"aidre: {message}\n")
    run_command()


if __name__ == "__main__":
    main()
