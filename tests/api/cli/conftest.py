from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.calibrations import quick_calibration
from tests.support.publishers import CONFIGURATION, fill_news
from tests.support.shell import changed, changed_folder, filled, filled_folder, ingested, read_only, shell


@pytest.fixture(scope="session")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a publisher beside its aidre.toml. Tests read it, or copy it."""
    folder = tmp_path_factory.mktemp("publisher")
    fill_news(folder / "store")
    (folder / "aidre.toml").write_text(CONFIGURATION, encoding="utf-8")
    return folder
