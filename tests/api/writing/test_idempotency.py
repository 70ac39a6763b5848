"""Keys of requests: the first answer again, another request refused, and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.api.http.http_errors import ConflictingRequest, RateLimited, Unavailable, Unprocessable
from aidre.api.writing import idempotency
from aidre.api.writing.idempotency import CLAIM_SECONDS, KEY_SECONDS, IdempotencyKeys, StoredAnswer

NOW = 1_800_000_000.0


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[IdempotencyKeys]:
    made = IdempotencyKeys(tmp_path)
    yield made
    made.close()


def test_a_key_gives_the_first_answer_again(keys: IdempotencyKeys) -> None:
    assert keys.claim("key a", "k", b"request", NOW) is None
    keys.keep("key a", "k", b"answer")
    assert keys.claim("key a", "k", b"request", NOW + KEY_SECONDS - 1) == StoredAnswer(b"answer")


def test_a_key_is_known_for_a_day(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    keys.keep("key a", "k", b"answer")
    assert keys.claim("key a", "k", b"other", NOW + KEY_SECONDS) is None


def test_another_request_with_the_key_is_refused(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    keys.keep("key a", "k", b"answer")
    with pytest.raises(Unprocessable, match="another request"):
        keys.claim("key a", "k", b"other", NOW)


def test_a_key_belongs_to_its_caller(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    assert keys.claim("key b", "k", b"other", NOW) is None


def test_callers_and_keys_that_join_to_the_same_text_are_different(keys: IdempotencyKeys) -> None:
    keys.claim("ab", "c", b"request", NOW)
    keys.keep("ab", "c", b"answer")
    assert keys.claim("a", "bc", b"request", NOW) is None
    assert keys.claim("abc", "", b"request", NOW) is None


def test_a_running_request_is_not_run_again(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    with pytest.raises(ConflictingRequest, match="still running") as caught:
        keys.claim("key a", "k", b"request", NOW + CLAIM_SECONDS - 1)
    assert caught.value.headers == {"Retry-After": "1"}


def test_a_request_whose_server_was_killed_can_be_sent_again(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    assert keys.claim("key a", "k", b"request", NOW + CLAIM_SECONDS + 1) is None


def test_a_request_that_failed_leaves_its_key_free(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    keys.release("key a", "k")
    assert keys.claim("key a", "k", b"corrected", NOW) is None


def test_an_answer_is_not_released(keys: IdempotencyKeys) -> None:
    keys.claim("key a", "k", b"request", NOW)
    keys.keep("key a", "k", b"answer")
    keys.release("key a", "k")
    assert keys.claim("key a", "k", b"request", NOW) == StoredAnswer(b"answer")


def test_a_caller_has_its_share_of_the_keys(keys: IdempotencyKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEYS", 12)
    for number in range(3):
        assert keys.claim("key a", str(number), b"request", NOW) is None
    with pytest.raises(RateLimited):
        keys.claim("key a", "one more", b"request", NOW)
    assert keys.claim("key b", "k", b"request", NOW) is None
    assert keys.claim("key a", "one more", b"request", NOW + KEY_SECONDS) is None


def test_workers_share_the_keys(keys: IdempotencyKeys, tmp_path: Path) -> None:
    keys.claim("key a", "k", b"request", NOW)
    keys.keep("key a", "k", b"answer")
    other = IdempotencyKeys(tmp_path)
    try:
        assert other.claim("key a", "k", b"request", NOW) == StoredAnswer(b"answer")
    finally:
        other.close()


def test_a_file_that_cannot_be_written_refuses_the_request(tmp_path: Path) -> None:
    (tmp_path / "writes.sqlite").mkdir()
    keys = IdempotencyKeys(tmp_path)
    with pytest.raises(Unavailable, match="nothing was done"):
        keys.claim("key a", "k", b"request", NOW)
    keys.close()
