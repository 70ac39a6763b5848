"""The `[oauth]` part of the configuration, `api/config/settings.py`."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError
from tests.support.issuer import AUDIENCE, ISSUER

WHOLE = {"issuer": repr(ISSUER), "audience": repr(AUDIENCE), "jwks_uri": '"https://x.example/keys"'}


def text(members: dict[str, str]) -> str:
    return "[oauth]\n" + "\n".join(f"{name} = {value}" for name, value in members.items() if value)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"issuer": '""'}, "oauth.issuer must not be blank"),
        ({"audience": '""'}, "oauth.audience must not be blank"),
        ({"audience": ""}, "oauth.audience is missing"),
        ({"jwks": '"keys.json"'}, "oauth needs exactly one of jwks_uri"),
        ({"jwks_uri": ""}, "oauth needs exactly one of jwks_uri"),
        ({"jwks_uri": '"https://x.example/keys?secret=1"'}, "oauth.jwks_uri must be a URL"),
        ({"jwks_uri": '"https://x.example/keys?"'}, ""),
        ({"jwks_uri": '"http://x.example/keys"'}, "oauth.jwks_uri must begin with https"),
        ({"algorithms": "[]"}, "oauth.algorithms must name at least one"),
        ({"algorithms": '["HS256"]'}, "oauth.algorithms[0] must be one of"),
        ({"leeway": '"301s"'}, "oauth.leeway must be at most 5m"),
        ({"scope_claim": '""'}, "oauth.scope_claim must not be blank"),
        ({"grants": '{ "a b" = { collections = [".log"] } }'}, 'oauth.grants."a b".collections[0] must be 1 to 64'),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(members: dict[str, str], named: str) -> None:
    assert parse_settings(text(WHOLE)).oauth is not None
    if not named:
        parse_settings(text(WHOLE | members))
        return
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text(WHOLE | members))
    assert str(caught.value).startswith(named)
