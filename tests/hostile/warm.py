"""What every child would do first, done once in the process that forks them; nothing here begins a thread."""

from __future__ import annotations

import contextlib
import io

import numpy.ma  # noqa: F401 - numpy loads it with the first `unique`
import typer._adapters  # noqa: F401 - loaded by the first command, for a tenth of a second

from aidre.api import cli, commands, maintenance, reporter, settings  # noqa: F401
from aidre.engine.vocabulary import read_tokens
from aidre.ingest import pipeline, rows  # noqa: F401
from hostile import bulk, cuts, full, kills, points, receipts, stages, steps  # noqa: F401 - all that children run

receipts.bind_key()
steps.vectors_of(stages.SHAPE, [(one, 1) for one in stages.IDS])
read_tokens("a word")
with contextlib.redirect_stderr(io.StringIO()):
    for command in ("ingest", "compact", "delete"):
        cli.run([command, "--store"])
