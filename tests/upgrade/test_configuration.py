"""Configurations of release 0.1.0 mean what they meant."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aidre.api.config.settings import load_settings
from tests.upgrade.make import RELEASE


@pytest.mark.parametrize("name", ["aidre.toml", "every_key.toml"])
def test_every_key_of_the_old_release_is_taken_with_its_value(name: str) -> None:
    settings = load_settings(RELEASE / name)
    missing = list(lost(tomllib.loads((RELEASE / name).read_text(encoding="utf-8")), settings, ""))
    assert not missing


def lost(table: Any, read: Any, where: str) -> Iterator[str]:
    """The keys that are not where they were, and numbers and words that became others; durations become seconds, and
    paths absolute."""
    if isinstance(table, dict):
        for key, value in table.items():
            found = read.get(key) if isinstance(read, Mapping) else getattr(read, key, None)
            yield from [f"{where}.{key}"] if found is None else lost(value, found, f"{where}.{key}")
    elif isinstance(table, list):
        for number, (value, found) in enumerate(zip(table, read, strict=True)):
            yield from lost(value, found, f"{where}[{number}]")
    elif isinstance(table, str) == isinstance(read, str) and read not in {table, str(Path(str(table)).absolute())}:
        yield f"{where}: {read!r}"
