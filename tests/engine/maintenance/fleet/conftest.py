"""A store of many collections, which every test copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.maintenance.fleet.tenants import make_tenants, tenants
from tests.support.stores import copied

MANY = 20


@pytest.fixture(scope="package")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "store"
    make_tenants(path, tenants(MANY))
    return path


@pytest.fixture
def many(written: Path, tmp_path: Path) -> Path:
    """A store of twenty small collections."""
    return copied(written, tmp_path / "store")
