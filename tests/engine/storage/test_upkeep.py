"""The warnings of what follows a commit; what follows it is tested in tests/engine/collection."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import StorageFailed
from aidre.engine.storage.upkeep import upkeep


def test_a_cause_is_logged_once_until_the_work_succeeds(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def attempt(cause: str | None, **details: Any) -> None:
        with upkeep(tmp_path, "nothing was swept"):
            if cause is not None:
                raise StorageFailed(cause, **details)

    for cause in ("cannot write a", "cannot write a", "cannot write b"):
        attempt(cause)
    assert [one.getMessage().split("; ")[0] for one in caplog.records] == [
        f"{tmp_path}: nothing was swept: cannot write a",
        f"{tmp_path}: nothing was swept: cannot write b",
    ]
    attempt("cannot write a: full", reason="full")
    attempt("cannot write b: full", reason="full")  # another file of the same disk
    assert len(caplog.records) == 3
    attempt(None)
    attempt("cannot write c: full", reason="full")
    assert len(caplog.records) == 4


def test_the_traceback_of_a_defect_is_there_for_whoever_looks(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG), upkeep(tmp_path, "nothing was swept"):
        raise ZeroDivisionError("a defect,\nin two lines")
    warning, traceback = caplog.records
    assert warning.getMessage().startswith(
        f"{tmp_path}: nothing was swept: ZeroDivisionError: a defect, in two lines; "
    )
    assert traceback.exc_info is not None
