"""`python -m aidre.api.cli` is the command `aidre`."""

from aidre.api.cli.main import main

main()
