"""The configuration of intakes: what is refused by name, and what follows from what is left out."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from aidre.api.config.intake import retention_of
from aidre.api.config.json_schema import schema_violation
from aidre.api.config.settings import load_settings, parse_settings
from aidre.api.protocols.intake import offers
from aidre.engine.errors import ConfigurationError
from tests.support.clients import serving
from tests.support.intakes import CONFIGURATION, fill_all


def an_intake(text: str = "", id: str = "ask") -> str:
    return f'[[intakes]]\nid = "{id}"\n{text}\n'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('id = "Ask"', "intakes[0].id"),
        ('id = "bind"', "intakes[0].id"),
        ('id = ""', "intakes[0].id"),
        ('id = "a"\ncategory = "b2b/vendor"', "intakes[0].category"),
        ('id = "a"\ncategory = "tool/vector-search"', "intakes[0].category"),
        ('id = "a"\ntop_k = 0', "intakes[0].top_k"),
        ('id = "a"\ntop_k = 1001', "intakes[0].top_k"),
        ('id = "a"\nmin_score = nan', "intakes[0].min_score"),
        ('id = "a"\nexpires_in = "0s"', "intakes[0].expires_in"),
        ('id = "a"\nexpires_in = "9999999d"', "intakes[0].expires_in"),
        ('id = "a"\noffer_type = " "', "intakes[0].offer_type"),
        ('id = "a"\nterms_url = "terms"', "intakes[0].terms_url"),
        ('id = "a"\nbind_requires = ["email", "email"]', "intakes[0].bind_requires"),
        ('id = "a"\nbind_requires = [""]', "intakes[0].bind_requires"),
        ('id = "a"\ncollection = ".log"', "intake"),
        ('id = "a"\nfilter = { x = { near = 1 } }', "intakes[0].filter"),
        ('id = "a"\nprivacy = { data_retention = "2_days" }', "intakes[0].privacy.data_retention"),
        ('id = "a"\nprivacy = { pii_required = "no" }', "intakes[0].privacy.pii_required"),
        ('id = "a"\nprivacy = { secret = true }', "intakes[0].privacy.secret"),
        ('id = "a"\nrate_limit = { requests_per_minute = 0 }', "intakes[0].rate_limit.requests_per_minute"),
        ('id = "a"\nrate_limit = { requests_per_hour = 5 }', "intakes[0].rate_limit.requests_per_hour"),
        ('id = "a"\nquery = "plumber"', "intakes[0].query"),
        ('id = "a"\nsummary = "{hits.best}"', "intakes[0].summary"),
        ('id = "a"\nsummary = "{city}"', "intakes[0].summary"),
        ('id = "a"\ndetails = { a = ["{city}"] }', "intakes[0].details"),
        ('id = "a"\ndetails = { items = 1 }', "intakes[0].details.items"),
        ('id = "a"\ninput_schema = { type = "thing" }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { "$ref" = "https://example.com/schema" }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { "$ref" = "file:///etc/passwd" }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { "$ref" = "#/$defs/absent" }', "intakes[0].input_schema"),
        (
            'id = "a"\ninput_schema = { "$schema" = "http://json-schema.org/draft-07/schema#" }',
            "intakes[0].input_schema",
        ),
        ('id = "a"\ninput_schema = { pattern = "(?=a)b" }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { const = 2026-11-22 }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { maxProperties = 9223372036854775808 }', "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { const = ' + "[" * 300 + "]" * 300 + " }", "intakes[0].input_schema"),
        ('id = "a"\ninput_schema = { type = "array" }', "intakes[0].input_schema.type"),
        ('id = "a"\ninput_schema = { type = ["string", "null"] }', "intakes[0].input_schema.type"),
        ('id = "a"\ndetails = { a = [9223372036854775808] }', "intakes[0].details"),
        ('id = "a"\nrate_limit = { requests_per_day = 9223372036854775808 }', "intakes[0].rate_limit"),
        ('id = "a"\nquery = "{need}"\ninput_schema = { properties = { x = {} } }', "intakes[0].query"),
        (
            'id = "a"\nquery = "{at.town}"\ninput_schema = { properties = { at = { properties = { city = {} } } } }',
            "intakes[0].query: {at.town}",
        ),
        (
            'id = "a"\nquery = "{place.city}"\ninput_schema = { properties = { place = { type = "string" } } }',
            "intakes[0].query: {place.city}",
        ),
        ('id = "a"\nquery = "{place} {place.city}"', "intakes[0].query: {place.city}"),
        ('id = "a"\n[[intakes]]\nid = "a"', "intakes[1].id"),
        ('id = "a"\n[intake]\nwebhook = "http://hooks.example/x"', "intake.webhook"),
        ('id = "a"\n[intake]\nwebhook = "hooks"', "intake.webhook"),
        ('id = "a"\n[intake]\nkey = "x"', "intake.key"),
        ('id = "a"\n[intake]\nretention = "0s"', "intake.retention"),
        ('id = "a"\n[intake]\nmax_offers = 0', "intake.max_offers must be at least 1"),
        ('id = "a"\n[intake]\nbind_key = "fifteen letters"', "intake.bind_key must have at least 16 characters"),
    ],
)
def test_what_cannot_be_is_named(text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(f"[[intakes]]\n{text}\n")
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_webhook_is_a_secret_and_may_have_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example/take?token=hidden")
    settings = parse_settings('[intake]\nwebhook = "env:HOOK"')
    assert settings.intake.webhook == "https://hooks.example/take?token=hidden"
    assert "hidden" not in repr(settings)
    monkeypatch.setenv("HOOK", "ftp://hooks.example/hidden")
    with pytest.raises(ConfigurationError) as caught:
        parse_settings('[intake]\nwebhook = "env:HOOK"')
    assert "hidden" not in str(caught.value)


def test_the_key_file_stands_beside_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(an_intake())
    assert load_settings(path).intake.key_file == str(tmp_path / "shop.bind-key")
    path.write_text(f'[intake]\nkey_file = "{tmp_path}/elsewhere"')
    assert load_settings(path).intake.key_file == f"{tmp_path}/elsewhere"
    assert load_settings(None).intake.key_file is None


def test_without_a_schema_the_names_of_the_query_are_asked_for() -> None:
    [intake] = parse_settings(an_intake('query = "{need} {place.city} {need}"')).intakes
    assert intake.schema["required"] == ["need", "place"]
    assert schema_violation(intake.schema, {"need": "a", "place": {"city": "b"}}, "data") is None
    assert schema_violation(intake.schema, {"need": "a"}, "data") == "missing required field: data.place"
    # A string in its place would be taken, and never asked for.
    assert (
        schema_violation(intake.schema, {"need": "a", "place": "b"}, "data")
        == "data.place does not fit its schema: type (object)"
    )
    assert (
        schema_violation(intake.schema, {"need": "a", "place": {}}, "data") == "missing required field: data.place.city"
    )


@pytest.mark.parametrize(
    ("text", "intake", "declared", "seconds"),
    [
        ('bind_requires = ["email"]', "", "30_days", 30 * 86_400),
        ('bind_requires = ["email"]', 'retention = "7d"', "30_days", 7 * 86_400),
        ('bind_requires = ["email"]', 'retention = "90d"', "1_year", 90 * 86_400),
        ('bind_requires = ["email"]', 'retention = "900d"', "indefinite", 900 * 86_400),
        ("", "", "none", 30 * 86_400),
        (
            'bind_requires = ["email"]\nprivacy = { data_retention = "30_days" }',
            'retention = "90d"',
            "30_days",
            30 * 86_400,
        ),
        ('bind_requires = ["email"]\nprivacy = { data_retention = "none" }', 'retention = "7d"', "none", 7 * 86_400),
        (
            'bind_requires = ["email"]\nprivacy = { data_retention = "session" }\nexpires_in = "2h"',
            "",
            "session",
            7_200,
        ),
        (
            'bind_requires = ["email"]\nprivacy = { data_retention = "indefinite" }',
            'retention = "7d"',
            "indefinite",
            7 * 86_400,
        ),
    ],
)
def test_the_retention_is_declared_and_never_longer_than_declared(
    text: str, intake: str, declared: str, seconds: float
) -> None:
    base = '[server]\nbase_url = "https://example.com"\n'
    settings = parse_settings(f"{base}{an_intake(text)}\n[intake]\n{intake}")
    [said] = offers.build_manifest(settings).intakes
    assert said.privacy.data_retention == declared
    assert retention_of(settings.intakes[0], settings.intake) == seconds


def test_at_start_the_operator_is_told_of_intakes_that_nobody_can_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill_all(tmp_path)
    mistaken = CONFIGURATION.replace("{ open = true }", "{ opened = true }")
    keys = mistaken[mistaken.index("[[keys]]") : mistaken.index("[collections.textless]")]
    mistaken = mistaken.replace(keys, "")
    with serving(tmp_path, mistaken) as client, caplog.at_level(logging.WARNING):
        client._runner.run(client.app.state.intake.open())
    assert "the filter of intake inside asks for opened, which no document has" in caplog.text
    assert "intake members requires_auth, but there are no [[keys]]" in caplog.text
    assert "find-a-plumber" not in caplog.text


@pytest.mark.parametrize("url", ["https://a.example/#x", "https://u:geheim@a.example", "https://:geheim@a.example"])
def test_a_webhook_has_no_user_and_no_fragment_and_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(f'[intake]\nwebhook = "{url}"')
    rule = "intake.webhook must be a URL such as https://ai.example.com, without user and fragment"
    assert str(caught.value) == rule
