"""`python -m aidre`: the command line, by the code of the folder that it is run in."""

from __future__ import annotations

import sys


def main() -> None:
    from aidre.engine.checkout import checkout_root, missing_kernel, search_path

    root = checkout_root()
    if root is not None:
        sys.path[:0] = search_path(root)  # its packages, too, and not those of the checkout that is installed
    from aidre.api.cli.main import main as run_command

    message = missing_kernel()
    if message is not None:
        sys.stderr.write(f"aidre: {message}\n")
    run_command()


if __name__ == "__main__":
    main()
