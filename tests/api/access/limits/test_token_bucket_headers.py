"""The fields that tell a caller of its limits, `api/access/limits/token_bucket.py`."""

from __future__ import annotations

import re

import pytest

from aidre.api.access.limits.token_bucket import BucketState, budget_fields, rate_limit_fields, rejection_fields
from aidre.api.config.toml import Rate


def structured(value: str) -> tuple[str, dict[str, int]]:
    """One String Item of RFC 9651 with Integer parameters."""
    found = re.fullmatch(r'"([ !#-\[\]-~]+)"((?:;[a-z]+=\d{1,15})+)', value)
    assert found is not None, value
    pairs = [part.split("=") for part in found[2][1:].split(";")]
    return found[1], {name: int(number) for name, number in pairs}


@pytest.mark.parametrize("state", [BucketState(True, 3, 24), BucketState(False, 0, 12)])
def test_the_new_field_and_the_three_before_it_say_the_same(state: BucketState) -> None:
    fields = {name.decode(): value.decode() for name, value in rate_limit_fields(Rate(5, 60), state)}
    assert structured(fields["ratelimit-policy"]) == ("default", {"q": 5, "w": 60})
    assert structured(fields["ratelimit"]) == ("default", {"r": state.remaining, "t": state.reset})
    assert (fields["ratelimit-limit"], fields["ratelimit-remaining"]) == ("5", str(state.remaining))
    assert fields["ratelimit-reset"] == str(state.reset)


def test_a_refusal_says_when_to_come_back() -> None:
    state = BucketState(False, 0, 12)
    fields = rejection_fields(Rate(5, 60), state)
    assert fields.pop("retry-after") == "12"
    assert fields == {name.decode(): value.decode() for name, value in rate_limit_fields(Rate(5, 60), state)}


def test_a_spent_day_says_when_it_ends() -> None:
    fields = budget_fields(20, 3_600)
    assert structured(fields["ratelimit"]) == ("chunks", {"r": 0, "t": 3_600})
    assert structured(fields["ratelimit-policy"]) == ("chunks", {"q": 20, "w": 86_400})
    assert (fields["retry-after"], fields["ratelimit-reset"]) == ("3600", "3600")
