"""/openapi.json of a server with every protocol, and of one without settings: linters find no error and no warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aidre.api.config.settings import Settings, load_settings
from tests.hostile.publisher import publish
from tests.support.clients import fill, serving
from tests.support.tools import install_npm, made, run_tool

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

PACKAGES = {
    "@stoplight/spectral-cli": "6.16.3",
    "@stoplight/spectral-rulesets": "1.23.1",
    "@redocly/cli": "2.77.0",
}
LINTERS = {
    "spectral": ("spectral", "lint", "--ruleset", "ruleset.yaml", "--fail-severity", "hint", "openapi.json"),
    "redocly": ("redocly", "lint", "--extends", "recommended-strict", "--format", "stylish", "openapi.json"),
}


def with_every_protocol(folder: Path) -> tuple[Path, Settings]:
    store, configuration = publish(folder)
    return store, load_settings(configuration)


def without_settings(folder: Path) -> tuple[Path, Settings]:
    fill(folder, "docs", [])
    return folder, Settings()


@pytest.mark.parametrize("linter", LINTERS)
@pytest.mark.parametrize("publisher", [with_every_protocol, without_settings])
def test_a_linter_has_nothing_to_say(
    publisher: Callable[[Path], tuple[Path, Settings]],
    linter: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(*publisher(tmp_path)) as client:
        document = json.dumps(client.get("/openapi.json").json(), indent=1)  # so that a complaint names a line
    monkeypatch.setenv("REDOCLY_TELEMETRY", "off")
    monkeypatch.setenv("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")

    def lint(folder: Path) -> None:
        packages = install_npm(folder, PACKAGES)
        (packages / "openapi.json").write_text(document, encoding="utf-8")
        (packages / "ruleset.yaml").write_text("extends: spectral:oas", encoding="utf-8")
        run_tool(packages, *LINTERS[linter])

    made(f"{linter}-{publisher.__name__}", lint, document, Path(__file__).read_bytes())
