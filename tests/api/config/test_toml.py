"""How tables become dataclasses, `api/config/toml.py`: unknown keys, secrets, rates, durations."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import parse_settings
from aidre.api.config.toml import Rate
from aidre.engine.errors import ConfigurationError


def test_secrets_do_not_show_in_a_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORM_SECRET", "a secret that is long")
    settings = parse_settings('[intent.keys]\nplatform = "env:PLATFORM_SECRET"\n')
    assert settings.intent.keys == {"platform": "a secret that is long"}
    assert "a secret that is long" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[servers]", ["servers", "'server'"]),
        ('[server]\nbase_uri = "x"', ["server.base_uri", "'base_url'"]),
        ("[limits]\ntopk_max = 5", ["limits.topk_max", "'top_k_max'"]),
        ("[collections.docs]\nreturn_txt = true", ["collections.docs.return_txt", "'return_text'"]),
        ('[[spaces]]\nid = "a"\ndimension = 3', ["spaces[0].dimension", "'dimensions'"]),
        ("[intent.editorial_domains.a]\ncollecton = 'docs'", ["intent.editorial_domains.a.collecton", "'collection'"]),
    ],
)
def test_an_unknown_key_names_the_nearest_valid_one(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_unlike_all_others_lists_the_valid_ones() -> None:
    with pytest.raises(
        ConfigurationError, match="body_bytes, chunks_per_day, concurrency, deadline, query_chars, rate"
    ):
        parse_settings("[limits]\nzzz = 1")


def test_a_rate_of_none_means_no_limit() -> None:
    assert parse_settings('[limits]\nrate = "none"').limits.rate == Rate(0, 1)
