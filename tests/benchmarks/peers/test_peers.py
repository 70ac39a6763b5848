"""The engines that aidre is compared with: each has its module and its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.client import PeerMissing, running
from benchmarks.peers.engines.protocol import ENTRIES
from tests import ROOT


def test_a_peer_that_is_not_installed_is_missing_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.peers.environments.folder", lambda environment: tmp_path / environment)
    with pytest.raises(PeerMissing, match="not installed"), running("hnswlib"):
        pass


def test_every_peer_has_its_module_and_its_environment() -> None:
    folder = ROOT / "benchmarks" / "peers"
    assert len({one.name for one in ENTRIES}) == len(ENTRIES) > 10
    for one in ENTRIES:
        assert f"class {one.made}" in (folder / f"{one.module.replace('.', '/')}.py").read_text()
        if one.environment:
            pinned = (folder / f"requirements-{one.environment}.txt").read_text()
            assert f"\n{one.distribution}==" in pinned or f"\n{one.distribution}[" in pinned
