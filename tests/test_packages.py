"""The distributions in packages/: of one version with aidre, packed whole, and named by the extras of aidre."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from setuptools import find_packages

from aidre import __version__
from aidre.engine.address import ENTRY_POINTS
from aidre.engine.checkout import search_path
from tests import ROOT
from tests.test_architecture import (
    folders_import_one_way,
    heavy_libraries_wait_until_they_are_needed,
    packages_import_the_seam,
    planted,
)

FOLDERS = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
NAMES = [folder.name for folder in FOLDERS]
ENGINES = {"milvus", "postgres"}
WITHOUT_EXTRA = {"client", "rows"}
"""What aidre or others need, and no user asks for."""
WITHOUT_AIDRE = {"client", "conformance"}
"""They run where aidre is not installed."""

every_package = pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)


def settings_of(folder: Path) -> Mapping[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def needed(folder: Path) -> dict[str, Requirement]:
    return {one.name: one for one in map(Requirement, settings_of(folder)["project"]["dependencies"])}


def test_the_packages_are_those_of_the_documents() -> None:
    assert NAMES == ["client", "conformance", "milvus", "postgres", "ray", "rows"]
    assert search_path(ROOT)[1:] == [str(folder) for folder in FOLDERS]


@every_package
def test_a_package_has_the_version_of_aidre_and_needs_that_version_alone(folder: Path) -> None:
    project = settings_of(folder)["project"]
    assert (project["name"], project["version"]) == (f"aidre-{folder.name}", __version__)
    ours = {name: str(one.specifier) for name, one in needed(folder).items() if name.startswith("aidre")}
    assert ("aidre" in ours) == (folder.name not in WITHOUT_AIDRE), "aidre needs the client, and not the client aidre"
    assert set(ours.values()) <= {f"=={__version__}"}
    assert {name.removeprefix("aidre-") for name in ours} - {"aidre"} <= set(NAMES)


@every_package
def test_a_package_is_packed_whole_and_with_its_types(folder: Path) -> None:
    settings = settings_of(folder)["tool"]["setuptools"]
    assert settings["packages"] == sorted(find_packages(str(folder)))
    assert settings["packages"][0] == f"aidre_{folder.name}"
    shipped = {path for pattern in settings["package-data"]["*"] for path in folder.rglob(pattern)}
    code = folder / f"aidre_{folder.name}"
    files = {path for path in code.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert shipped == files >= {code / "py.typed", code / "__init__.pyi"}
    assert settings["package-data"].keys() == {"*"}


@every_package
def test_a_package_says_how_it_is_installed_with_all_that_it_needs(folder: Path) -> None:
    ours = [name.removeprefix("aidre-") for name in needed(folder) if name != "aidre" and name.startswith("aidre")]
    aidre = [] if folder.name in WITHOUT_AIDRE else ["./packages/client", "."]
    line = " ".join(["pip install", *aidre, *(f"./packages/{name}" for name in (*ours, folder.name))])
    assert f"\n{line}\n" in (folder / "README.md").read_text("utf-8")


def test_aidre_needs_the_client_of_its_version_and_what_that_needs_is_left_to_it() -> None:
    names = {one.name: str(one.specifier) for one in map(Requirement, settings_of(ROOT)["project"]["dependencies"])}
    assert names["aidre-client"] == f"=={__version__}"
    assert "http-message-signatures" not in names


def test_the_extras_of_aidre_name_the_packages_of_this_version() -> None:
    extras = settings_of(ROOT)["project"]["optional-dependencies"]
    assert {name: extras[name] for name in set(NAMES) - WITHOUT_EXTRA} == {
        name: [f"aidre-{name}=={__version__}"] for name in set(NAMES) - WITHOUT_EXTRA
    }


def test_the_engines_are_found_by_their_entry_points() -> None:
    found = {folder.name: settings_of(folder)["project"].get("entry-points") for folder in FOLDERS}
    assert {name: points for name, points in found.items() if points} == {
        name: {ENTRY_POINTS: {name: f"aidre_{name}:{name.title()}Source"}} for name in ENGINES
    }


def test_what_the_packages_need_is_among_the_versions_that_were_tested_together() -> None:
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    assert {name for folder in FOLDERS for name in needed(folder) if not name.startswith("aidre")} <= pinned


def test_a_package_imports_itself_the_seam_and_public_names_of_what_it_depends_on(tmp_path: Path) -> None:
    files = {
        "packages/milvus/pyproject.toml": '[project]\ndependencies = ["aidre==1.0", "aidre-rows==1.0"]\n',
        "packages/milvus/aidre_milvus/tables.py": "from aidre_rows import digest\nimport aidre_milvus.server\n",
        "packages/rows/pyproject.toml": '[project]\ndependencies = ["aidre==1.0"]\n',
        "packages/rows/aidre_rows/__init__.pyi": "from .rows import digest as digest\n",
        "packages/rows/aidre_rows/rows.py": "from aidre.engine.model import Query\n",
    }
    assert list(packages_import_the_seam(planted(tmp_path, files))) == []
    inside = {"packages/milvus/aidre_milvus/tables.py": "from aidre_rows.rows import digest, digested\n"}
    assert len(list(packages_import_the_seam(planted(tmp_path, inside)))) == 2
    undeclared = {"packages/rows/aidre_rows/rows.py": "from aidre_milvus import MilvusSource\n"}
    assert len(list(packages_import_the_seam(planted(tmp_path, undeclared)))) == 3


def test_aidre_loads_a_package_only_where_the_command_line_needs_it(tmp_path: Path) -> None:
    tree = planted(tmp_path, {"api/cli/ingest.py": "from aidre_ray import connect\n"})
    breach = "api/cli/ingest.py imports aidre_ray at module level"
    assert list(heavy_libraries_wait_until_they_are_needed(tree)) == [breach]
    tree = planted(tmp_path, {"engine/address.py": "def f() -> None:\n    import aidre_rows\n"})
    assert list(folders_import_one_way(tree)) == ["engine/address.py imports packages"]
