"""A backup that gets a signal in the middle of its work. It runs in a child that was forked with its modules loaded."""

from __future__ import annotations

import os
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aidre.api.cli import backup as log_copies
from aidre.api.cli.main import main
from aidre.engine.maintenance.backup import END
from aidre.engine.storage import durable
from tests.hostile.nursery import Say

STAGES = ("receipts are copied", "the second file is saved", "the last file is saved", "all is synced")


def interrupted_backup(say: Say, stage: str, number: int, store: Path, target: Path, temporary: Path) -> None:
    """`aidre backup`, which sends itself the signal when it has come to the stage. What it says goes into a file."""
    for usual in (signal.SIGTERM, signal.SIGHUP):  # whoever runs the tests may ignore some
        signal.signal(usual, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(temporary.with_suffix(".said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    tempfile.tempdir = str(temporary)

    def reached(name: str) -> None:
        if name == stage:
            os.kill(os.getpid(), number)

    def telling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def told(*arguments: Any) -> Any:
            result = function(*arguments)
            reached(name)
            return result

        return told

    add, files = tarfile.TarFile.addfile, []

    def addfile(self: tarfile.TarFile, tarinfo: tarfile.TarInfo, fileobj: Any = None) -> None:
        add(self, tarinfo, fileobj)
        files.append(tarinfo.name)
        reached(STAGES[2] if tarinfo.name == END else STAGES[1] if len(files) == 2 else "")

    tarfile.TarFile.addfile = addfile  # type: ignore[method-assign]
    log_copies._copy = telling(STAGES[0], log_copies._copy)
    durable.sync_file = telling(STAGES[3], durable.sync_file)
    sys.argv = ["aidre", "backup", str(target), "--store", str(store)]
    main()
