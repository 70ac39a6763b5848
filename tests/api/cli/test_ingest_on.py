"""`aidre ingest --on`, whose work is done by a package of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.api.cli import ingest
from tests.support.shell import Shell


def test_without_its_package_it_says_what_to_install(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "find_spec", lambda name: None)
    (tmp_path / "soup.md").write_text("A soup of lentils.", encoding="utf-8")
    status, _, err = shell.ingest(tmp_path / "soup.md", "--on", "ray")
    assert (status, err.count("\n")) == (2, 1)
    assert "--on needs the package aidre-ray" in err
    assert "in a checkout: pip install ./packages/ray" in err
    assert not (shell.store / "docs").exists()
