"""The files of release 0.1.0, unpacked once, and a copy for each test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.api.protocols.intake import bind_key
from tests.support.keys import COST
from tests.support.stores import copied
from tests.upgrade import kills


@pytest.fixture(autouse=True)
def true_bind_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost by which the old release derived its key; other folders of tests lower it for the whole process."""
    monkeypatch.setattr(bind_key, "SCRYPT_COST", COST)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kills.unpack(tmp_path_factory.mktemp("release"))


@pytest.fixture
def old(unpacked: Path, tmp_path: Path) -> Path:
    """A folder with `store`, `backup.tar`, `aidre.toml` and keys, as that release left them."""
    return copied(unpacked, tmp_path / "old")


@pytest.fixture(scope="session")
def answers() -> dict[str, Any]:
    """What that release answered."""
    return kills.old_answers()
