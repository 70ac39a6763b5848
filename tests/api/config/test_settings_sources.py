"""The table `[sources]` of the configuration: the rules of a fetch, and values that are refused by name."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict

from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError
from aidre.ingest.fetch.fetcher import FetchRules


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("page_bytes = 0", "sources.page_bytes must be at least 1"),
        ("total_bytes = -1", "sources.total_bytes"),
        ("pages = 0", "sources.pages"),
        ('timeout = "0s"', "sources.timeout"),
        ("timeout = 5", "sources.timeout must be a duration"),
        ('parse_timeout = "0s"', "sources.parse_timeout"),
        ('user_agent = "a\\nb"', "sources.user_agent"),
        ('user_agent = ""', "sources.user_agent"),
        ('sandbox = "off"', "sources.sandbox"),
        ('ocr_languages = "-c x"', r"sources.ocr_languages must be names as deu\+eng"),
        ("allow_private = true", "did you mean 'allow_private_addresses'"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(line: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        parse_settings(f"[sources]\n{line}")


def fetching(text: str) -> FetchRules:
    rules = asdict(parse_settings(text).sources)
    assert (rules.pop("sandbox"), rules.pop("ocr"), rules.pop("ocr_languages")) == ("available", False, "eng")
    assert rules.pop("parse_timeout") == 30
    return FetchRules(**rules)


def test_the_rules_of_the_configuration_are_those_of_a_fetch() -> None:
    assert fetching("") == FetchRules()
    rules = fetching('[sources]\ndelay = "2s"\ntimeout = "5m"\nrobots = false\npages = 7')
    assert rules == FetchRules(delay=2.0, timeout=300.0, robots=False, pages=7)
