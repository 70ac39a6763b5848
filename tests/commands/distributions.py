"""The distributions of this repository: aidre, those in packages/ and integrations/; what they say of each other.

A folder there with a `pyproject.toml` is one; nothing lists them.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

FOLDERS = ("packages", "integrations")
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Distribution:
    """`folder` is relative to the root; `depends` without the extras, `extras` what they name."""

    folder: str
    name: str
    version: str
    requires_python: str
    depends: tuple[Requirement, ...]
    extras: tuple[Requirement, ...]

    @property
    def stem(self) -> str:
        """How the names of its archives begin."""
        return f"{canonicalize_name(self.name).replace('-', '_')}-{self.version}"

    @property
    def has_own_version(self) -> bool:
        """Whether it is released when it changes, and not with each version of aidre."""
        return self.folder.startswith("integrations/")


def version_of(root: Path) -> str:
    found = VERSION.search((root / "aidre" / "__init__.py").read_text(encoding="utf-8"))
    return "" if found is None else found[1]


def distributions(root: Path) -> list[Distribution]:
    """Each after those that it depends on: in the order to upload."""
    files = [path for name in FOLDERS for path in sorted(root.glob(f"{name}/*/pyproject.toml"))]
    found = {one.name: one for path in (root / "pyproject.toml", *files) for one in [_read(root, path)]}
    needs = {name: [other.name for other in one.depends if other.name in found] for name, one in found.items()}
    return [found[name] for name in TopologicalSorter(needs).static_order()]


def _read(root: Path, path: Path) -> Distribution:
    project: Mapping[str, Any] = tomllib.loads(path.read_text("utf-8"))["project"]
    extras = (one for extra in project.get("optional-dependencies", {}).values() for one in extra)
    return Distribution(
        folder=path.parent.relative_to(root).as_posix(),
        name=project["name"],
        version=project["version"] if "version" in project else version_of(root),
        requires_python=project.get("requires-python", ""),
        depends=tuple(map(Requirement, project.get("dependencies", ()))),
        extras=tuple(map(Requirement, extras)),
    )


def disagreements(root: Path) -> Iterator[str]:
    """What the distributions say of each other that is not so."""
    found = distributions(root)
    [aidre] = (one for one in found if one.folder == ".")
    by_name = {one.name: one for one in found}
    for one in found:
        where = "pyproject.toml" if one is aidre else f"{one.folder}/pyproject.toml"
        if one.version != aidre.version and not one.has_own_version:
            yield f"{where}: the version is {one.version}, but aidre is {aidre.version}: raise it"
        if one.requires_python != aidre.requires_python:
            yield f"{where}: requires-python is {one.requires_python!r}, but aidre has {aidre.requires_python!r}"
        for need in (*one.depends, *one.extras):
            if need.name in by_name:
                yield from _wrong_pin(where, need, by_name[need.name], is_exact=not one.has_own_version)


def _wrong_pin(where: str, need: Requirement, other: Distribution, *, is_exact: bool) -> Iterator[str]:
    if is_exact and str(need.specifier) != f"=={other.version}":
        yield f"{where}: it needs {need}, but they are released together: write {need.name}=={other.version}"
    elif not _admits(need, other.version):
        yield f"{where}: it needs {need}, but {need.name} is {other.version}: admit that version"


def _admits(need: Requirement, version: str) -> bool:
    try:
        return need.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False  # said of the version itself


def unraised(root: Path, tag: str) -> Iterator[str]:
    """Distributions with a version of their own that changed since a tag and kept it: a registry would refuse them."""
    for one in distributions(root):
        if one.has_own_version:
            path = f"{one.folder}/pyproject.toml"
            before = _git(root, "show", f"{tag}:{path}")
            is_changed = _git(root, "diff", "--name-only", tag, "--", one.folder, f":!{one.folder}/tests").stdout
            if is_changed and before.returncode == 0 and f'version = "{one.version}"' in before.stdout:
                yield f"{path}: {one.name} changed since {tag}, and its version is still {one.version}: raise it"


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def missing_archives(names: Sequence[str], found: Sequence[Distribution], platforms: Sequence[str]) -> Iterator[str]:
    """What of a whole release is not among the names of files: a source archive of each distribution, and its wheel; of
    aidre one for each of the platforms, which are ends of names (`linux_x86_64` stands for every `manylinux`)."""
    for one in found:
        if f"{one.stem}.tar.gz" not in names:
            yield f"{one.stem}.tar.gz"
        wheels = [name for name in names if name.startswith(f"{one.stem}-") and name.endswith(".whl")]
        if one.folder != ".":
            yield from () if wheels else (f"{one.stem}-py3-none-any.whl",)
            continue
        built = {platform_of(name) for name in wheels}
        yield from (f"{one.stem}-cp311-abi3-{platform}.whl" for platform in platforms if platform not in built)


def platform_of(wheel: str) -> str:
    """The system and the machine of a wheel, without the system's version: `linux_x86_64`, `macosx_arm64`, `any`."""
    tag = wheel.removesuffix(".whl").rpartition("-")[2].rpartition(".")[2]
    found = re.fullmatch(r"(manylinux|linux|macosx)(?:\d+|(?:_\d+){2})?_(\w+)", tag)
    return tag if found is None else f"{found[1].removeprefix('many')}_{found[2]}"
