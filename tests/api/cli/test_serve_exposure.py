"""When a server may listen, and where, `api/cli/serve.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.api.cli.serve import check_exposure, private_collections
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from tests.support.clients import TEXT, a_document, fill

CLEAR = '[server]\nbase_url = "https://ai.example.com"\n'
SERVED = CLEAR + 'tls = "proxy"\n'
OAUTH = '[oauth]\nissuer = "https://login.example.com"\naudience = "x"\njwks = "keys.json"\n'
KEY = f'[[keys]]\nname = "k"\nsha256 = "{"0" * 64}"\n'
INTENT = """
[intent]
enabled = true
publisher = { id = "example", name = "The Example", domain = "ai.example.com" }
[intent.editorial_domains.archive]
collection = "vault"
[intent.keys]
platform = "test-secret-0123456789abcdef"
"""
BEYOND = ["0.0.0.0", "::", "192.0.2.1", "ai.example.com"]


def check(configuration: str, host: str, *private: str) -> None:
    check_exposure(parse_settings(configuration), host, private)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9"])
def test_on_loopback_nothing_needs_to_be_declared(host: str) -> None:
    check("", host, "vault")


@pytest.mark.parametrize("host", BEYOND)
@pytest.mark.parametrize("tls", ["", 'tls = "none"\n'])
def test_beyond_loopback_tls_must_be_declared(host: str, tls: str) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.tls"):
        check(CLEAR + tls, host)
    check(SERVED, host)


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_loopback_the_addresses_must_be_known(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.base_url"):
        check("", host)
    with pytest.raises(ConfigurationError, match=r"server\.base_url is http://127\.0\.0\.1"):
        check('[server]\nbase_url = "http://127.0.0.1:8000"\ntls = "proxy"\n', host)  # it has no rate by default


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_loopback_a_private_collection_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigurationError, match="'vault' is private"):
        check(SERVED, host, "vault")
    check(SERVED + KEY, host, "vault")
    check(SERVED + OAUTH, host, "vault")


def test_a_private_collection_that_a_protocol_opens_needs_no_key() -> None:
    check(SERVED + INTENT, "0.0.0.0", "vault")
    with pytest.raises(ConfigurationError, match="'cellar' is private"):
        check(SERVED + INTENT, "0.0.0.0", "vault", "cellar")


def test_a_collection_is_private_by_its_manifest_by_the_configuration_or_while_it_cannot_be_read(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "open", [a_document("x", "alpha")], (TEXT,))
    fill(tmp_path, "configured", [a_document("x", "alpha")], (TEXT,))
    fill(tmp_path, "broken", [a_document("x", "alpha")], (TEXT,))
    fill(tmp_path, "private", [a_document("x", "alpha")], (TEXT,), visibility="private")
    [manifest] = (tmp_path / "broken" / "manifests").iterdir()
    manifest.chmod(0o600)
    manifest.write_bytes(b"{}")
    settings = parse_settings('[collections.configured]\nvisibility = "private"\n')
    assert private_collections(Store(tmp_path), settings) == ["broken", "configured", "private"]
