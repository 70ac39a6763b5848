"""What `aidre doctor`, `aidre status` and `aidre publish` say of signatures of publications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aidre.api.cli.doctor.findings import Finding, Subject
from aidre.api.cli.doctor.store import publications
from aidre.engine.collection.store import Store
from tests.support.buckets import FolderPlace, folder_place
from tests.support.shell import Shell
from tests.support.signers import PublisherKey
from tests.support.stores import NAME, write

__all__ = ["folder_place"]


def configured(path: Path, section: str, **members: str) -> Path:
    path.write_text("\n".join([f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in members.items())]))
    return path


def of(store: Path, config: Path | None) -> list[Finding]:
    return list(publications(Subject(store, config, "127.0.0.1", 0)))


def test_a_publisher_is_told_whether_it_signs(tmp_path: Path) -> None:
    write(tmp_path / "store", ["a"])
    config = configured(tmp_path / "aidre.toml", "store", publish="s3://bucket/a")
    assert [(one.level, one.cure is None) for one in of(tmp_path / "store", config)] == [("note", False)]
    key = PublisherKey.made(tmp_path)
    config.write_text(f'{config.read_text()}\n[provenance]\nkey = "{key.path}"\n')
    [finding] = of(tmp_path / "store", config)
    assert (finding.level, str(key.path) in finding.text) == ("ok", True)


def test_a_replica_is_told_whether_what_it_has_was_verified(folder_place: FolderPlace, tmp_path: Path) -> None:
    key, cache = PublisherKey.made(tmp_path), tmp_path / "cache"
    write(tmp_path / "store", ["a"])
    folder_place.publish(tmp_path / "store", key.signer)
    folder_place.replica(cache)
    config = configured(tmp_path / "aidre.toml", "store", publisher_keys=str(key.public))
    assert [one.level for one in of(cache, None)] == ["note"]
    [finding] = of(cache, config)
    assert (finding.level, NAME in finding.text) == ("warning", True)
    folder_place.replica(cache, keys=key.trusted)
    [finding] = of(cache, config)
    assert (finding.level, key.trusted.ids[0] in finding.text) == ("ok", True)
    key.public.write_text("no key")
    assert [one.level for one in of(cache, config)] == ["refuses"]


def status_of(shell: Shell, store: Path) -> tuple[str, dict[str, Any]]:
    _, text, _ = shell.run("status", "--store", store)
    _, facts, _ = shell.run("status", "--store", store, "--json")
    return text, json.loads(facts)


def test_status_says_whether_a_replica_has_verified_what_it_has(
    shell: Shell, folder_place: FolderPlace, tmp_path: Path
) -> None:
    key, cache = PublisherKey.made(tmp_path), tmp_path / "cache"
    write(tmp_path / "store", ["a"])
    folder_place.publish(tmp_path / "store", key.signer)
    assert "publication" not in status_of(shell, tmp_path / "store")[0]
    folder_place.replica(cache)
    text, facts = status_of(shell, cache)
    assert "not verified" in text
    assert facts["signed_at"] is None
    folder_place.replica(cache, keys=key.trusted)
    text, facts = status_of(shell, cache)
    assert "signed, of 20" in text
    assert facts["signed_at"] > 1_700_000_000


def test_publish_signs_with_the_key_of_the_configuration_and_keys_public_prints_its_public_half(
    shell: Shell, folder_place: FolderPlace, tmp_path: Path
) -> None:
    key = PublisherKey.made(tmp_path)
    write(tmp_path / "store", ["a"])
    config = configured(tmp_path / "aidre.toml", "provenance", key=key.path.name)
    sent = shell.run(
        "publish", "--store", tmp_path / "store", "--to", folder_place.address.url, "--config", config, "--json"
    )
    assert json.loads(sent[1])["signed"] is True
    status, printed, _ = shell.run("keys", "public", key.path)
    assert status == 0
    assert "PRIVATE" not in printed
    key.public.write_text(printed)
    assert folder_place.replica(tmp_path / "cache", keys=key.trusted).source.collections() == [NAME]


def test_the_publication_of_one_collection_leaves_what_was_dropped_to_that_of_all(
    shell: Shell, folder_place: FolderPlace, tmp_path: Path
) -> None:
    for name in ("other", "docs"):
        assert shell.ingest(collection=name)[0] == 0
    to = ("--to", folder_place.address.url)
    shell.json("publish", *to)
    Store(shell.store).drop("other")
    assert [line["collection"] for line in shell.json("publish", *to, "--collection", "docs")] == ["docs"]
    folder_place.replica(tmp_path / "before")
    assert Store(tmp_path / "before").collections() == ["docs", "other"]
    shell.json("publish", *to)
    folder_place.replica(tmp_path / "after")
    assert Store(tmp_path / "after").collections() == ["docs"]
