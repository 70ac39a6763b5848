"""Which collections a command or a server means, `api/cli/select.py`: names that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.api.cli.main import run
from aidre.api.cli.select import check_granted_collections, missing_collections
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from tests.support.clients import TEXT, a_document, fill
from tests.support.publishers import CONFIGURATION
from tests.support.shell import Shell


def test_a_domain_over_a_collection_that_is_not_there_does_not_start(publisher: Path, tmp_path: Path) -> None:
    store = Store(publisher / "store")
    wrong = parse_settings(CONFIGURATION.replace('collection = "vault"', 'collection = "vaults"'))
    with pytest.raises(ConfigurationError, match=r"""intent\.editorial_domains\."archive" .*did you mean 'vault'\?"""):
        check_granted_collections(store, wrong)
    intake = parse_settings('[[intakes]]\nid = "ask"\ncollection = "zzz"')
    with pytest.raises(ConfigurationError, match=r"intake 'ask' opens collection 'zzz', .* it has news, open, vault"):
        check_granted_collections(store, intake)
    check_granted_collections(store, parse_settings(CONFIGURATION))
    (tmp_path / "empty").mkdir()
    check_granted_collections(Store(tmp_path / "empty"), wrong)


def test_a_server_that_opens_what_is_not_there_ends_in_one_line(
    publisher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "aidre.toml"
    config.write_text(CONFIGURATION.replace('collection = "vault"', 'collection = "vaults"'), encoding="utf-8")
    for command in ("serve", "mcp"):
        assert run([command, "--store", str(publisher / "store"), "--config", str(config)]) == 2
        assert "did you mean 'vault'?" in capsys.readouterr().err


def test_names_of_collections_that_are_not_there_are_told_of(tmp_path: Path) -> None:
    """A misspelled one leaves open what was to be private; an ingest may bring it yet, so nothing is refused."""
    fill(tmp_path, "archive", [a_document("x", "alpha")], (TEXT,))
    absent = parse_settings(
        '[server]\ndefault_collection = "zzz"\n[collections.archve]\nvisibility = "private"\n'
        f'[[keys]]\nname = "k"\nsha256 = "{"0" * 64}"\ncollections = ["archive", "other"]\n'
        '[oauth]\nissuer = "https://login.example.com"\naudience = "x"\njwks = "keys.json"\n'
        '[oauth.grants.reader]\ncollections = ["archives"]\n'
    )
    assert list(missing_collections(Store(tmp_path), absent)) == [
        "collections.archve: collection 'archve' is not in the store: did you mean 'archive'?",
        "server.default_collection: collection 'zzz' is not in the store: it has archive",
        "keys[0].collections: collection 'other' is not in the store: it has archive",
        """oauth.grants."reader".collections: collection 'archives' is not in the store: did you mean 'archive'?""",
    ]
    present = parse_settings('[collections.archive]\nvisibility = "private"\n')
    assert list(missing_collections(Store(tmp_path), present)) == []
    (tmp_path / "empty").mkdir()
    assert list(missing_collections(Store(tmp_path / "empty"), absent)) == []


def test_the_collection_must_be_named_where_there_are_several(filled: Shell) -> None:
    filled.ingest(collection="more")
    status, _, err = filled.run("search", "tea", "--store", filled.store)
    assert status == 2
    assert "docs" in err
    assert "more" in err
    assert filled.json("search", "tea", "--collection", "more")
