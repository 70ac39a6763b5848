"""What the kit is told of a server, and what it learns once, `aidre_conformance/target.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import InvalidInput
from aidre_conformance import Failed, Fixtures, NotTestable, Sender, Target, is_loopback, read_fixtures


def target(**fixtures: str) -> Target:
    return Target("http://127.0.0.1:1", Fixtures(**fixtures), Sender())  # type: ignore[arg-type]


def test_fixtures_are_read_from_toml_and_secrets_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fixtures.toml"
    monkeypatch.setenv("A_KEY", "s3cret")
    file.write_text('key = "env:A_KEY"\nquery = "tea"\nbrief_seconds = 3\n[intake_data]\nneed = "x"\n')
    fixtures = read_fixtures(file)
    assert (fixtures.key, fixtures.query, fixtures.brief_seconds) == ("s3cret", "tea", 3)
    assert fixtures.intake_data == {"need": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queri = 'x'", "queri is unknown"),
        ("query = 7", "query must be a string"),
        ("intake_data = 'x'", "intake_data must be a table"),
        ("brief_seconds = 'x'", "brief_seconds must be a number"),
        ("key = 'env:NO_SUCH_VARIABLE'", "NO_SUCH_VARIABLE"),
        ("query = ", "is not TOML"),
    ],
)
def test_a_misused_fixture_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fixtures.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_fixtures(file)


def test_a_missing_fixture_is_no_failure() -> None:
    with pytest.raises(NotTestable, match="no fixture `site`"):
        target().fixture("site")


def test_the_key_is_sent_to_the_server_under_test_or_over_https_alone() -> None:
    keyed = target(key="s3cret")
    assert keyed.authorization("http://127.0.0.1:1/search") == {"authorization": "Bearer s3cret"}
    assert keyed.authorization("https://ai.example/search") == {"authorization": "Bearer s3cret"}
    with pytest.raises(NotTestable):
        keyed.authorization("http://ai.example/search")


def test_a_fact_is_asked_for_once_and_its_failure_is_a_missing_prerequisite() -> None:
    asked = []

    def find() -> str:
        asked.append(1)
        raise Failed("it is broken")

    one = target()
    for _ in range(2):
        with pytest.raises(NotTestable, match="it is broken"):
            one.once("fact", find)
    assert asked == [1]


@pytest.mark.parametrize(
    ("url", "is_near"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost/x", True),
        ("http://[::1]:1", True),
        ("http://127.example.com", False),
        ("https://example.com", False),
    ],
)
def test_loopback_is_known_by_its_address(url: str, is_near: bool) -> None:
    assert is_loopback(url) is is_near
