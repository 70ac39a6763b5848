from __future__ import annotations

import hashlib
import tomllib

import pytest

from aidre.api.access.credentials import Keys
from aidre.api.cli.keys import new_key
from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError


def test_the_configuration_holds_what_knows_the_secret_and_not_the_secret() -> None:
    made = new_key("a reader")
    text = "\n".join(made.lines)
    assert made.secret not in text
    [key] = parse_settings(text).keys
    assert (key.name, key.collections, key.scopes) == ("a reader", (), ("search",))
    assert key.sha256 == hashlib.sha256(made.secret.encode()).hexdigest()
    holder = Keys([key]).grant(made.secret.encode())
    assert holder is not None
    assert holder.caller.account == "key a reader"


def test_no_secret_is_like_another_and_each_fits_a_header_and_a_shell() -> None:
    secrets = {new_key().secret for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(secret) >= 40 and secret.replace("-", "_").isidentifier() for secret in secrets)
    names = [tomllib.loads("\n".join(new_key().lines))["keys"][0]["name"] for _ in range(10)]
    assert len(set(names)) == 10


@pytest.mark.parametrize("name", ["Zeitung für Ökonomie", "a.b:c@d+e/f-g_h", "x" * 64])
def test_names_of_many_kinds_come_back_whole(name: str) -> None:
    assert parse_settings("\n".join(new_key(name).lines)).keys[0].name == name


@pytest.mark.parametrize("name", ["", " ", "x" * 65, 'a"b', "a\\b", "a\nb", "a\x7fb", " a", "a\u202eb", "a\udcffb"])
def test_names_that_would_break_the_file_or_fool_a_reader_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="--name"):
        new_key(name)
