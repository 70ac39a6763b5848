"""What release 0.1.0 can read of what this one wrote: docs/upgrade.md says so. Needs the history of the repository."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.api.cli.main import run
from tests import ROOT
from tests.support.processes import running
from tests.upgrade import corpus
from tests.upgrade.make import COMMIT, Release, checked_out

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    command = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    if subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip(f"commit {COMMIT} is not in this clone")
    with checked_out() as one:
        yield one


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_collections_can_be_read_and_written_by_the_old_release(release: Release, old: Path) -> None:
    release.place = old
    corpus.write_rows(old / "table" / "rows.jsonl", corpus.live_rows())
    words = ["--collection", "rows", "--store", str(old / "store")]
    assert run(["ingest", str(old / "table" / "rows.jsonl"), *words]) == 0
    assert run(["compact", "--store", str(old / "store")]) == 0
    (report,) = lines(release.run("verify", "--store", "store", "--json"))
    assert report["ok"]
    done = lines(release.run("ingest", "table/rows.jsonl", "--collection", "rows", "--store", "store", "--json"))[-1]
    assert (done["documents"], done["embedded"]) == (397, 0)
    assert run(["verify", "--store", str(old / "store")]) == 0


def test_receipts_are_refused_by_the_old_release_and_a_backup_brings_them_back(
    release: Release, old: Path, answers: dict[str, Any]
) -> None:
    release.place = old
    with running(old / "store", settings=old / "aidre.toml"):
        pass
    with pytest.raises(SystemExit, match=r"no such table|newer release"):
        release.run("events", "--store", "store")
    release.run("restore", "backup.tar", "--store", "before")
    found = lines(release.run("events", "--store", "before", "--json"))
    assert [event["event_id"] for event in found] == answers["events"]
