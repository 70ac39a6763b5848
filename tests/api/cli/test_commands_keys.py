"""`aidre keys`, `api/cli/commands.py`: what is made is accepted by configuration and server; a secret is shown once."""

from __future__ import annotations

import hashlib
import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from aidre.api.access.credentials import ApiKeys
from aidre.api.cli.commands import make_caller_key
from aidre.api.cli.main import run
from aidre.api.config.settings import load_settings, parse_settings
from aidre.api.protocols.provenance.keys import read_keys
from aidre.engine.errors import ConfigurationError
from tests.support.clients import a_document, fill, serving

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def aidre(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str | Path) -> tuple[int, str, str]:
        status = run([str(word) for word in words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def test_a_new_key_opens_what_its_lines_list(aidre: Run, tmp_path: Path) -> None:
    status, out, err = aidre("keys", "new", "--name", "reader")
    assert status == 0
    secret, _, lines = out.partition("\n\n")
    assert secret not in lines + err
    fill(tmp_path, "shut", [a_document("a", "alpha")], visibility="private")
    with serving(tmp_path, lines.replace("collections = []", 'collections = ["shut"]')) as client:
        assert client.get("/collections/shut").status_code == 404
        assert client.get("/collections/shut", headers={"authorization": f"Bearer {secret}"}).status_code == 200
        assert client.get("/collections/shut", headers={"authorization": f"Bearer {secret}x"}).status_code == 401


def test_a_program_reads_the_key_as_json(aidre: Run) -> None:
    status, out, _ = aidre("keys", "new", "--json")
    made = json.loads(out)
    assert (status, set(made)) == (0, {"secret", "configuration"})
    [key] = parse_settings(made["configuration"]).keys
    assert key.name.startswith("key-")


def test_a_key_that_signs_is_put_into_a_file_and_takes_the_place_of_the_one_before(aidre: Run, tmp_path: Path) -> None:
    file, configuration = tmp_path / 'a "b" ü.pem', tmp_path / "aidre.toml"
    status, out, _ = aidre("keys", "new", "--provenance", file)
    assert status == 0
    configuration.write_text(out, encoding="utf-8")
    assert load_settings(configuration).provenance.key == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [first] = read_keys(file).published
    status, out, _ = aidre("keys", "new", "--provenance", file, "--json")
    second, former = read_keys(file).published
    assert (json.loads(out), former.id) == ({"key": second.id, "configuration": None}, first.id)
    assert aidre("keys", "new", "--provenance", file)[1].startswith("key ")
    assert "PRIVATE" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["keys"], "Missing command"),
        (["keys", "old"], "old"),
        (["keys", "new", "--name", 'a"b'], "--name must be"),
        (["keys", "new", "--name", "a", "--provenance", "x.pem"], "has no name"),
        (["keys", "new", "--provenance", "/nowhere/x.pem"], "no key can be written to /nowhere/x.pem"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(words: list[str], message: str, aidre: Run) -> None:
    status, out, err = aidre(*words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_the_configuration_holds_what_knows_the_secret_and_not_the_secret() -> None:
    secret, text = make_caller_key("a reader")
    assert secret not in text
    [key] = parse_settings(text).keys
    assert (key.name, key.collections, key.scopes) == ("a reader", (), ("search",))
    assert key.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    holder = ApiKeys([key]).grant(secret.encode())
    assert holder is not None
    assert holder.caller.account == "key a reader"


def test_no_secret_is_like_another_and_each_fits_a_header_and_a_shell() -> None:
    secrets = {make_caller_key()[0] for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(secret) >= 40 and secret.replace("-", "_").isidentifier() for secret in secrets)
    names = [tomllib.loads(make_caller_key()[1])["keys"][0]["name"] for _ in range(10)]
    assert len(set(names)) == 10


@pytest.mark.parametrize("name", ["Zeitung für Ökonomie", "a.b:c@d+e/f-g_h", "x" * 64])
def test_names_of_many_kinds_come_back_whole(name: str) -> None:
    assert parse_settings(make_caller_key(name)[1]).keys[0].name == name


@pytest.mark.parametrize("name", ["", " ", "x" * 65, 'a"b', "a\\b", "a\nb", "a\x7fb", " a", "a\u202eb", "a\udcffb"])
def test_names_that_would_break_the_file_or_fool_a_reader_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="--name"):
        make_caller_key(name)
