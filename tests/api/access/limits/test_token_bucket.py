"""Buckets of tokens, `api/access/limits/token_bucket.py`: against a model, and shared by processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from aidre.api.access.limits import token_bucket
from aidre.api.access.limits.token_bucket import NAME, SECOND, WAYS, BucketState, TokenBuckets
from aidre.api.config.toml import Rate
from aidre.api.http.shared_file import HEADER

START = 1_800_000_000 * SECOND


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Bucket:
    """The textbook's: so many tokens, refilled evenly, in exact fractions."""

    def __init__(self, rate: Rate) -> None:
        self.rate, self.left, self.at = rate, Fraction(rate.count), START

    def take(self, now: int) -> bool:
        refill = Fraction((now - self.at) * self.rate.count, self.rate.seconds * SECOND)
        self.left, self.at = min(Fraction(self.rate.count), self.left + refill), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@settings(max_examples=60, deadline=None)
@given(
    count=st.sampled_from([1, 2, 5, 60, 600]),
    seconds=st.sampled_from([1, 60, 3_600]),
    pauses=st.lists(st.integers(0, 3_000), min_size=1, max_size=200),
)
def test_a_bucket_admits_what_the_textbook_admits(count: int, seconds: int, pauses: list[int]) -> None:
    rate, clock = Rate(count, seconds), Clock()
    buckets, model = TokenBuckets([], clock), Bucket(rate)
    for pause in pauses:
        clock.now += pause * seconds * SECOND // 1_000
        taken = buckets.take("somebody", rate)
        assert taken.admitted == model.take(clock.now)
        assert taken.remaining == math.floor(model.left) * taken.admitted
    buckets.close()


def test_a_full_bucket_holds_as_many_as_the_rate_says_and_then_one_an_interval() -> None:
    clock = Clock()
    buckets, rate = TokenBuckets([], clock), Rate(7, 1)
    assert [buckets.take("a", rate).remaining for _ in range(7)] == [6, 5, 4, 3, 2, 1, 0]
    assert buckets.take("a", rate) == BucketState(False, 0, 1)
    clock.now += SECOND // 7
    assert buckets.take("a", rate).admitted
    assert not buckets.take("a", rate).admitted
    assert buckets.take("b", rate).remaining == 6
    buckets.close()


def test_a_refusal_says_when_one_more_is_admitted_and_costs_nothing() -> None:
    clock = Clock()
    buckets, rate = TokenBuckets([], clock), Rate(10, 3_600)
    for _ in range(10):
        assert buckets.take("a", rate).admitted
    refused = {buckets.take("a", rate) for _ in range(50)}
    assert refused == {BucketState(False, 0, 360)}
    clock.now += 359 * SECOND
    assert buckets.take("a", rate) == BucketState(False, 0, 1)
    clock.now += SECOND
    assert buckets.take("a", rate).admitted
    buckets.close()


@pytest.mark.parametrize("away", [-86_400, 86_400 * 365])
def test_a_clock_that_jumps_locks_nobody_out_for_longer_than_one_bucket(away: int) -> None:
    clock = Clock()
    buckets, rate = TokenBuckets([], clock), Rate(10, 60)
    for _ in range(10):
        buckets.take("a", rate)
    clock.now += away * SECOND
    assert buckets.take("a", rate).reset <= 60
    clock.now += 60 * SECOND
    assert buckets.take("a", rate).remaining == 9
    buckets.close()


def test_a_rate_that_became_smaller_holds_at_once() -> None:
    clock = Clock()
    buckets = TokenBuckets([], clock)
    for _ in range(600):
        buckets.take("a", Rate(600, 3_600))
    clock.now += SECOND
    assert buckets.take("a", Rate(1, 1)) == BucketState(False, 0, 1)
    clock.now += SECOND
    assert buckets.take("a", Rate(1, 1)).admitted
    buckets.close()


def test_the_fastest_rate_that_can_be_written_is_counted_too() -> None:
    clock = Clock()
    buckets, rate = TokenBuckets([], clock), Rate(999_999_999, 1)
    assert buckets.take("a", rate) == BucketState(True, 999_999_998, 1)
    buckets.close()


def test_more_accounts_than_fit_push_out_those_that_used_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_bucket, "GROUPS", 1)  # all accounts share WAYS slots
    clock = Clock()
    buckets, rate = TokenBuckets([], clock), Rate(5, 3_600)
    for _ in range(5):
        buckets.take("spent", rate)
    addresses = [f"address 10.{number}" for number in range(WAYS * 3)]
    for address in addresses:
        assert buckets.take(address, rate).remaining == 4
    assert not buckets.take("spent", rate).admitted
    assert [buckets.take(address, rate).remaining for address in addresses].count(4) >= WAYS * 2
    buckets.close()


def test_a_name_of_any_letters_has_a_bucket() -> None:
    buckets = TokenBuckets([], Clock())
    for name in ("", "é" * 10_000, "\udcff", "a\x00b"):
        assert buckets.take(name, Rate(2, 60)).remaining == 1
    buckets.close()


def test_two_workers_share_one_bucket_and_it_outlives_them(tmp_path: Path) -> None:
    clock, rate = Clock(), Rate(10, 60)
    one, other = TokenBuckets([tmp_path], clock), TokenBuckets([tmp_path], clock)
    assert [bucket.take("a", rate).remaining for bucket in (one, other) * 3] == [9, 8, 7, 6, 5, 4]
    one.close()
    other.close()
    later = TokenBuckets([tmp_path], clock)
    assert later.take("a", rate).remaining == 3
    later.close()


def test_what_stands_in_the_file_by_chance_never_locks_out_for_long(tmp_path: Path) -> None:
    TokenBuckets([tmp_path]).close()
    path = tmp_path / NAME
    content = path.read_bytes()
    path.write_bytes(content[: HEADER.size] + os.urandom(len(content) - HEADER.size))
    buckets = TokenBuckets([tmp_path])
    for number in range(500):
        assert buckets.take(f"a{number}", Rate(3, 60)).reset <= 60
    buckets.close()


def test_who_only_asks_is_told_the_same_and_spends_nothing() -> None:
    rate, buckets = Rate(2, 60), TokenBuckets([], Clock())
    for _ in range(3):
        asked = [buckets.take("a", rate, spend=False) for _ in range(3)]
        assert [buckets.take("a", rate)] * 3 == asked
    assert not buckets.take("a", rate, spend=False).admitted
    buckets.close()


HAMMER = """
import sys
from pathlib import Path
from aidre.api.http import shared_file
from aidre.api.access.limits import token_bucket
from aidre.api.access.limits.token_bucket import TokenBuckets
from aidre.api.config.toml import Rate
shared_file.LOCK_TRIES = 10**9  # else a worker counts without the lock whenever its holder is not running
buckets = TokenBuckets([Path(sys.argv[1])])
sys.stdout.write("ready\\n"); sys.stdout.flush()
sys.stdin.readline()
print(sum(buckets.take("a", Rate(1000, 10**7)).admitted for _ in range(1500)))
"""


def hammer(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HAMMER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.process
def test_workers_that_run_at_the_same_time_admit_exactly_the_rate(tmp_path: Path) -> None:
    workers = [hammer(tmp_path) for _ in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    admitted = [int(worker.communicate()[0]) for worker in workers]
    assert sum(admitted) == 1_000, admitted  # the next one comes back after hours


def test_the_file_is_free_for_other_workers_after_each_take(tmp_path: Path) -> None:
    def broken() -> int:
        raise OSError("no clock")

    taken = TokenBuckets([tmp_path], Clock())
    taken.take("a", Rate(1, 1))
    with pytest.raises(OSError, match="no clock"):
        TokenBuckets([tmp_path], broken).take("a", Rate(1, 1))
    other = TokenBuckets([tmp_path])._file
    assert other.lock()
    other.unlock()
