"""The `[oauth]` part of the configuration, `api/config/oauth.py`."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.config.oauth import OAuth, check_oauth
from aidre.api.config.toml import Duration
from aidre.engine.errors import ConfigurationError
from tests.support.issuer import AUDIENCE, ISSUER, oauth


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"issuer": ""}, "oauth.issuer"),
        ({"audience": ""}, "oauth.audience"),
        ({"jwks": "keys.json"}, "jwks_uri"),
        ({"jwks_uri": None}, "jwks_uri"),
        ({"jwks_uri": "https://x.example/keys?secret=1"}, "jwks_uri"),
        ({"algorithms": ()}, "oauth.algorithms"),
        ({"leeway": Duration(301.0)}, "oauth.leeway"),
        ({"scope_claim": ""}, "oauth.scope_claim"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(members: dict[str, Any], named: str) -> None:
    check_oauth(oauth())
    wrong = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_uri": "https://x.example/keys", **members}
    with pytest.raises(ConfigurationError, match=named.replace(".", r"\.")):
        check_oauth(OAuth(**wrong))
