"""The `[intent]` part of the configuration, `api/config/intent.py`: what is refused, and how it is named."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from aidre.api.config.settings import load_settings, parse_settings
from aidre.engine.errors import ConfigurationError
from tests.support.publishers import CONFIGURATION


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[intent]\nenabled = true", "intent.editorial_domains is empty"),
        ("[intent]\nmax_chunks = 0", "intent.max_chunks must be at least 1"),
        ("[intent]\nmax_tokens = -1", "intent.max_tokens must be at least 1"),
        ("[intent]\nmax_document_fraction = 0", "intent.max_document_fraction must be above 0"),
        ("[intent]\nmax_document_fraction = 1.5", "intent.max_document_fraction"),
        ("[intent]\nmax_document_fraction = nan", "intent.max_document_fraction"),
        ("[intent]\nstate = 'closed'", "intent.state must be one of"),
        ("[intent]\npublisher = { id = 'A' }", "intent.publisher.id"),
        ("[intent]\npublisher = { name = '' }", "intent.publisher.name"),
        ("[intent]\npublisher = { domain = 'https://example.com' }", "intent.publisher.domain"),
        (
            "[intent.editorial_domains.real-estate]\ncollection = 'a'",
            "intent.editorial_domains.real-estate must be words",
        ),
        ("[intent.editorial_domains.a]\ncollection = 'a'\nfilter = { and = 5 }", "intent.editorial_domains.a.filter"),
        ("[intent.keys]\n'a b' = 'secret'", 'intent.keys."a b" must be a key id of 1 to 128'),
        ("[intent.keys]\na = 's'\nb = 's'", "give every partner its own"),
        ("[intent.keys]\na = 'fifteen letters'", "intent.keys.a must have at least 16 characters"),
        ("[intent.compliance]\nsunset = 'soon'", "intent.compliance.sunset must be a date"),
        ("[intent.compliance]\nlast_updated = 5", "intent.compliance.last_updated must be a date"),
        ("[intent.compliance]\nrevocation_reason = 'whim'", "intent.compliance.revocation_reason"),
    ],
)
def test_a_wrong_key_is_named_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_secret_stands_in_a_complaint() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings("[intent.keys]\na = 'hidden words'\nb = 'hidden words'")
    assert "hidden" not in str(caught.value)


def test_the_declaration_was_last_updated_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "aidre.toml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    moment = datetime(2025, 3, 4, 12, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    assert load_settings(path).intent.compliance.last_updated == date(2025, 3, 4)
    path.write_text(CONFIGURATION + "[intent.compliance]\nlast_updated = 2024-01-02", encoding="utf-8")
    assert load_settings(path).intent.compliance.last_updated == date(2024, 1, 2)
