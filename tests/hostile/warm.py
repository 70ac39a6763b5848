"""What every child would do first, done once in the process that forks them; nothing here begins a thread."""

from __future__ import annotations

import contextlib
import io

import numpy.ma  # noqa: F401 - numpy loads it with the first `unique`
import typer._adapters  # noqa: F401 - loaded by the first command, for a tenth of a second

from aidre.api.cli import commands, main, maintenance, progress  # noqa: F401
from aidre.api.config import settings  # noqa: F401
from aidre.engine.index.text.inversion import split_tokens
from aidre.ingest.formats.tables import json_lines  # noqa: F401
from aidre.ingest.pipeline.ingest import ingest  # noqa: F401
from tests.hostile import bulk, chaos, cuts, full, kills, points, receipts, stages, steps, unsynced  # noqa: F401 - all that children run

receipts.bind_key()
steps.vectors_of(stages.SHAPE, [(one, 1) for one in stages.IDS])
split_tokens("a word")
with contextlib.redirect_stderr(io.StringIO()):
    for command in ("ingest", "compact", "delete"):
        main.run([command, "--store"])
