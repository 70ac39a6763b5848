"""Bind keys: where they come from, where they never stand, and what is sealed with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aidre.api.config.intake import IntakeSettings
from aidre.api.protocols.intake import bind_key
from aidre.api.protocols.intake.bind_key import BindKey, existing_bind_key, find_bind_key
from aidre.engine.errors import ConfigurationError


def test_the_key_never_stands_in_the_store(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for inside in (store / "sub" / "bind-key", store / ".." / store.name / "bind-key"):
        with pytest.raises(ConfigurationError, match=r"intake\.key_file .* is in the store"):
            find_bind_key(IntakeSettings(key_file=str(inside)), store)
    assert not (store / "sub").exists()
    key = find_bind_key(IntakeSettings(), store)
    assert find_bind_key(IntakeSettings(), store).id == key.id
    assert (tmp_path / "home" / "aidre" / "bind-key").exists()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(store))
    with pytest.raises(ConfigurationError, match=r"intake\.bind_key"):
        find_bind_key(IntakeSettings(), store)


def test_who_begins_at_once_takes_one_key(store: Path, tmp_path: Path) -> None:
    settings = IntakeSettings(key_file=str(tmp_path / "deep" / "key"))
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(lambda _: find_bind_key(settings, store).id, range(4)))
    assert len(set(keys)) == 1
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["key"]


def test_a_key_that_nobody_has_made_is_not_made_by_looking(store: Path, tmp_path: Path) -> None:
    settings = IntakeSettings(key_file=str(tmp_path / "key"))
    assert existing_bind_key(settings, store) is None
    made = find_bind_key(settings, store)
    found = existing_bind_key(settings, store)
    assert found is not None and found.id == made.id


def test_a_key_file_that_is_not_whole_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short")
    with pytest.raises(ConfigurationError, match="incomplete"):
        find_bind_key(IntakeSettings(key_file=str(tmp_path / "key")), store)


def test_what_is_sealed_opens_with_its_key_for_its_purpose_alone() -> None:
    key = BindKey("one secret")
    sealed = key.seal(b"content", "offer")
    assert key.open(sealed, "offer") == b"content"
    assert key.open(sealed, "another") is None
    assert BindKey("other secret").open(sealed, "offer") is None
    assert key.open(sealed[:-1], "offer") is None
    assert key.open(b"", "offer") is None
    assert key.seal(b"content", "offer") != sealed


def test_a_key_is_derived_at_full_cost_and_stays_the_same_in_every_version(
    cheap_bind_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cheap_bind_keys == 16_384
    monkeypatch.setattr(bind_key, "SCRYPT_COST", cheap_bind_keys)
    assert BindKey("x" * 20).id.hex() == "8e670d303f2d1eee"
