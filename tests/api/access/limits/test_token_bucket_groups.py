"""Accounts that share a group of slots: none takes from another's bucket."""

from __future__ import annotations

from aidre.api.access.limits.token_bucket import TokenBuckets
from aidre.api.config.toml import Rate


def test_accounts_of_one_group_have_a_bucket_each() -> None:
    buckets = TokenBuckets([], lambda: 1_800_000_000_000_000_000)
    accounts = [f"address {number}" for number in range(2_000)]
    assert all(buckets.take(account, Rate(1, 3_600)).admitted for account in accounts)
    assert not any(buckets.take(account, Rate(1, 3_600)).admitted for account in accounts)
    buckets.close()
