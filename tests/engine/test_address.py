"""Which engine opens a store: that of an installed package, found by its entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.engine import Address, open_source
from aidre.engine.collection import Store
from aidre.engine.errors import ConfigurationError


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """A distribution with the engine `name`, the function `opened` of its code, on the path of this process."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[aidre.engines]\n{name} = {name}:opened\n", encoding="utf-8")
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)


def test_without_an_address_a_store_is_segments_in_its_folder(tmp_path: Path) -> None:
    assert isinstance(open_source(tmp_path), Store)
    assert isinstance(open_source(tmp_path, Address("local", "")), Store)


def test_an_engine_of_any_package_opens_a_store_at_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "drawers", "def opened(*where): return where")
    opened: Any = open_source(tmp_path, Address("drawers", "drawers://oak"))
    assert opened == (tmp_path, "drawers://oak")


def test_an_engine_that_nobody_installed_is_told_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    cure = (
        r"aidre-milvus: pip install 'aidre\[milvus\]', or in a checkout: pip install ./packages/rows ./packages/milvus"
    )
    with pytest.raises(ConfigurationError, match=cure):
        open_source(tmp_path, Address("milvus", "milvus://host"))
    with pytest.raises(ConfigurationError, match="the engine postgres needs the package aidre-postgres") as refused:
        aidre.open(tmp_path, uri="postgresql://host/database")
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="no installed package has an engine 'drawers'"):
        open_source(tmp_path, Address("drawers", ""))


def test_an_engine_without_its_driver_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "shelves", "import driver_of_shelves")
    with pytest.raises(ConfigurationError, match="the engine shelves needs driver_of_shelves, which is not installed"):
        open_source(tmp_path, Address("shelves", "shelves://oak"))
