"""The systemd unit and the Dockerfile: their commands are understood, and they fit to what the server does.

Where systemd is installed its own tools read the unit. The image is not built.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement

from aidre.api.cli.main import app
from aidre.api.cli.serve import SHUTDOWN_SECONDS
from tests import ROOT
from tests.support.programs import needs, path_of

UNIT = ROOT / "docs" / "systemd" / "aidre.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
ANALYZE = path_of("systemd-analyze")
MOST_EXPOSED = 2.5


def settings() -> dict[str, list[str]]:
    """The values of each key of the unit, in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*(?:\\\n.*)*)$", DOCKERFILE, re.MULTILINE)


def understood(words: Sequence[str]) -> None:
    """Fails where the command line would refuse the words."""
    assert Path(words[0]).name == "aidre"
    COMMANDS[words[1]].make_context(words[1], list(words[2:]))


def test_every_command_of_the_unit_is_understood() -> None:
    unit = settings()
    given = dict(pair.split("=", 1) for line in unit["Environment"] for pair in shlex.split(line))
    lines = [value for name, values in unit.items() if name.startswith("Exec") for value in values]
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], line.lstrip("-")))
        assert words[0].startswith("/")
        understood(words)


def test_the_unit_lets_a_server_finish_and_write_where_it_is_told_to() -> None:
    unit = settings()
    assert SHUTDOWN_SECONDS < int(unit["TimeoutStopSec"][0]) <= 2 * SHUTDOWN_SECONDS
    assert (unit["KillMode"], unit["Restart"], unit["RestartPreventExitStatus"]) == (["mixed"], ["on-failure"], ["2"])
    writable = unit["ReadWritePaths"][0].split()
    given = dict(pair.split("=", 1) for pair in shlex.split(unit["Environment"][0]))
    for name in ("AIDRE_STORE", "AIDRE_CACHE"):
        assert any(Path(given[name]).is_relative_to(path) for path in writable)
    port = shlex.split(unit["ExecStart"][0])[shlex.split(unit["ExecStart"][0]).index("--port") + 1]
    assert unit["SocketBindAllow"] == [f"tcp:{port}"]


@pytest.mark.process
@needs("systemd-analyze")
def test_systemd_understands_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    unit = tmp_path / "aidre.service"
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/aidre/bin/aidre", "/bin/true"), "utf-8")
    verified = subprocess.run([str(ANALYZE), "verify", unit], capture_output=True, text=True, check=False)
    assert not [line for line in verified.stderr.splitlines() if "aidre.service" in line], verified.stderr
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", str(unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    score = re.search(r"exposure level for aidre.service: ([0-9.]+)", judged.stdout)
    if score is None:
        pytest.skip(f"this systemd does not judge files: {judged.stderr.strip()}")
    assert float(score[1]) < MOST_EXPOSED


def test_the_commands_of_the_image_are_understood_and_its_folders_are_on_the_volume() -> None:
    [command], [health], [volume] = (instructions(name) for name in ("CMD", "HEALTHCHECK", "VOLUME"))
    [environment] = instructions("ENV")
    given = dict(pair.split("=", 1) for pair in environment.split())
    assert all(given[name].startswith(f"{volume}/") for name in ("AIDRE_STORE", "AIDRE_CACHE"))
    words = json.loads(command)
    understood([*words, "--store", given["AIDRE_STORE"]])
    probe = json.loads(health.partition("CMD ")[2])
    assert probe[:2] == ["python3", "-c"]
    compile(probe[2], "probe", "exec")
    assert "/healthz" in probe[2]
    assert instructions("USER") == ["10001:10001"]


def test_what_the_image_is_made_of_is_there_and_holds_no_torch() -> None:
    shown = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in shown)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {Requirement(one).name for one in project["dependencies"]}
    assert needed.isdisjoint({"torch", "sentence-transformers", "transformers"})
    assert "sentence-transformers" in {Requirement(one).name for one in project["optional-dependencies"]["models"]}
    assert instructions("ARG").count('MODELS="default"') == 1
    assert "aidre model add $name --into /opt/aidre/share/aidre" in DOCKERFILE
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    extras = re.findall(r'\bEXTRAS="(.*?)"', DOCKERFILE)
    assert extras == ["obstore", "obstore psycopg psycopg-binary"]
    assert set(" ".join(extras).split()) <= pinned


def test_what_the_image_has_for_postgresql_is_all_that_its_package_needs() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    [(packages, extras)] = re.findall(r'PACKAGES="(.+?)" --build-arg EXTRAS="(.+?)"', page)
    assert f'"{packages}" adds PostgreSQL, whose driver EXTRAS="{extras}" brings' in DOCKERFILE
    brought = {"aidre", *extras.split(), *(f"aidre-{name}" for name in packages.split())}
    for name in packages.split():
        settings = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text("utf-8"))
        assert {Requirement(one).name for one in settings["project"]["dependencies"]} <= brought


def test_what_others_made_is_named_by_its_commit_or_its_whole_version() -> None:
    workflows = "".join(path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    actions = re.findall(r"uses: (\S+)", workflows)
    assert actions and all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action) for action in actions)
    installed = [words for words in re.findall(r"pip install (.+)", workflows) if "-c constraints.txt" not in words]
    assert all("==" in words for words in installed)
    assert "pip_audit --requirement constraints.txt" in workflows
    compose = yaml.safe_load((ROOT / "docs" / "compose" / "compose.yaml").read_text("utf-8"))
    images = [one["image"] for one in compose["services"].values() if "build" not in one]
    images += re.findall(r"^ARG (?:BUILD|BASE)=(\S+)", DOCKERFILE, re.MULTILINE)
    whole = re.compile(r"\S+:(\d+\.\d+\.\d+(-[a-z-]+)?|RELEASE\.\d{4}-\S+)(@sha256:[0-9a-f]{64})?")
    assert len(images) == 5 and all(whole.fullmatch(image) for image in images), images


def test_compose_runs_that_image_read_only() -> None:
    compose = yaml.safe_load((ROOT / "docs" / "compose" / "compose.yaml").read_text("utf-8"))
    home, replica = compose["services"]["home"], compose["services"]["replica"]
    for one in (home, replica):
        assert (ROOT / "docs" / "compose" / one["build"] / "Dockerfile").is_file()
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert any(volume == "/data" or volume.endswith(":/data") for volume in one["volumes"])
