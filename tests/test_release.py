"""The parts of `make release` that are ours: what must agree, the notes, and what the SBOM lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre import __version__
from tests import ROOT
from tests.commands.distributions import version_of
from tests.commands.release import faults, narrowed, needed, notes_of, requirements

CHANGELOG = "# Changelog\n\n## [1.2.3] - 2026-11-25\n\n### Fixed\n\n- A fault.\n\n## [1.2.2] - 2026-11-01\n\n- Older.\n"


def checkout(folder: Path, version: str = "1.2.3", changelog: str = CHANGELOG) -> Path:
    (folder / "aidre").mkdir()
    (folder / "aidre" / "__init__.py").write_text(f'"""aidre."""\n\n__version__ = "{version}"\n', encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    project = '[project]\nname = "aidre"\ndynamic = ["version"]\nrequires-python = ">=3.11"\n'
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    return folder


def test_what_agrees_is_released(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    assert list(faults(root, "", {})) == []
    assert list(faults(root, "", {"v1.2.3": True, "v1.2.2": False})) == []


@pytest.mark.parametrize(
    ("version", "changelog", "changes", "tags", "said"),
    [
        ("1.2", CHANGELOG.replace("1.2.3", "1.2"), "", {}, "aidre.__version__ is '1.2': write it as 1.2.3"),
        ("1.2.4", CHANGELOG, "", {}, "begins with the section 1.2.3: rename it to [1.2.4]"),
        ("1.2.3", CHANGELOG.replace("[1.2.3] - 2026-11-25", "[Unreleased]"), "", {}, "begins with the section Unrel"),
        ("1.2.3", CHANGELOG.replace(" - 2026-11-25", ""), "", {}, "needs a date"),
        ("1.2.3", CHANGELOG.replace("2026-11-25", "2026-13-25"), "", {}, "needs a date"),
        ("1.2.3", "# Changelog\n\n## [1.2.3] - 2026-11-25\n\n## [1.2.2] - 2026-11-01\n", "", {}, "is empty"),
        ("1.2.3", CHANGELOG, " M README.md\n?? notes.txt\n", {}, "not clean: commit or remove README.md, notes.txt"),
        ("1.2.3", CHANGELOG, "", {"v1.2.2": True}, "this commit has the tag v1.2.2"),
        ("1.2.3", CHANGELOG, "", {"v1.2.3": False}, "the tag v1.2.3 is at another commit"),
    ],
)
def test_what_does_not_agree_is_named_with_its_cure(
    tmp_path: Path, version: str, changelog: str, changes: str, tags: dict[str, bool], said: str
) -> None:
    found = list(faults(checkout(tmp_path, version, changelog), changes, tags))
    assert any(said in one for one in found), found


def test_the_notes_are_the_section_of_the_version() -> None:
    assert notes_of(CHANGELOG, "1.2.3") == "### Fixed\n\n- A fault."
    assert notes_of(CHANGELOG, "1.2.2") == "- Older."
    assert notes_of(CHANGELOG, "1.2.1") == ""


def test_this_checkout_has_one_version() -> None:
    assert version_of(ROOT) == __version__
    assert not [one for one in faults(ROOT, "", {}) if "CHANGELOG" not in one]


def test_the_sbom_lists_what_the_wheel_needs_and_no_tool_of_tests() -> None:
    bom: dict[str, Any] = {
        "metadata": {"component": {"bom-ref": "root", "name": "aidre"}},
        "components": [{"bom-ref": ref, "name": ref.partition("@")[0]} for ref in ("Typer@1", "click@8", "pytest@9")],
        "dependencies": [
            {"ref": "root", "dependsOn": ["Typer@1", "click@8", "pytest@9"]},
            {"ref": "Typer@1", "dependsOn": ["click@8"]},
            {"ref": "click@8"},
            {"ref": "pytest@9", "dependsOn": ["click@8"]},
        ],
    }
    found = narrowed(bom, "1.2.3", {"typer"}, {"typer", "click"})
    assert [one["name"] for one in found["components"]] == ["Typer", "click"]
    assert found["metadata"]["component"]["version"] == "1.2.3"
    graph = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert graph == {"root": ["Typer@1"], "Typer@1": ["click@8"], "click@8": []}


def test_what_the_wheel_needs_is_read_from_what_is_installed() -> None:
    direct = {name for name, _ in requirements("aidre")}
    assert {"faiss-cpu", "starlette"} <= direct
    assert direct < needed("aidre")
    assert "pytest" not in needed("aidre")
