"""Buckets: what S3 and folders do alike, and one clear error, without a credential, for each way to fail."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from aidre.engine.errors import AidreError, BucketFailed, ConfigurationError, StorageFailed, StoreDamaged
from aidre.engine.maintenance import bucket as module
from aidre.engine.maintenance.bucket import Bucket, BucketAddress
from tests.support.buckets import CREDENTIALS, S3, FolderPlace, Once, Place, S3Place, denied, proxy_of
from tests.support.clocks import WAIT_SECONDS
from tests.support.fault_proxy import RESET_AFTER, RESET_BEFORE, Fault, answering, foreign


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short attempts a request."""
    retry = {
        "max_retries": 1,
        "retry_timeout": timedelta(seconds=5),
        "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2},
    }
    monkeypatch.setattr(module, "_RETRY", retry)
    monkeypatch.setattr(module, "_TIMEOUT", timedelta(seconds=1))


def failed(bucket: Bucket, *, exists: bool = True) -> BucketFailed:
    """How each of its methods fails: alike, but for two that are not told that a bucket is missing."""
    calls = (
        *((lambda: bucket.size("a"), lambda: bucket.swap("a", b"x", '"etag"')) if exists else ()),
        lambda: bucket.get("a"),
        lambda: bucket.put("a", b"x"),
        lambda: bucket.put_new("a", b"x"),
        lambda: list(bucket.list("a")),
        lambda: bucket.delete(["a"]),
    )
    errors = []
    for call in calls:
        with pytest.raises(BucketFailed) as raised:
            call()
        errors.append(raised.value)
        is_clear(raised.value)
    assert len({error.details["reason"] for error in errors}) == 1, [str(error) for error in errors]
    return errors[0]


def is_clear(error: AidreError) -> None:
    """One line, and no credential in it or in what it came from."""
    text = str(error)
    assert "\n" not in text
    assert len(text) < 300
    assert not [value for name, value in CREDENTIALS.items() if name != "AWS_REGION" and value in text]


# -- what a bucket does ------------------------------------------------------------------------------------------


def test_what_was_put_is_got_and_nothing_else(place: Place) -> None:
    bucket = place.bucket
    assert bucket.get("docs/CURRENT") is None
    bucket.put("docs/CURRENT", b"one")
    content, etag = bucket.get("docs/CURRENT") or (b"", "")
    assert content == b"one"
    assert bucket.get("docs/CURRENT", unless=etag) is None
    bucket.put("docs/CURRENT", b"two!")
    found = bucket.get("docs/CURRENT", unless=etag)
    assert found is not None
    assert found[0] == b"two!"
    assert bucket.size("docs/CURRENT") == 4
    assert bucket.size("docs/MISSING") is None


def test_an_object_that_is_gone_is_not_taken_for_one_that_has_not_changed(place: Place) -> None:
    bucket = place.bucket
    bucket.put("a/b", b"x")
    _, etag = bucket.get("a/b") or (b"", "")
    bucket.delete(["a/b"])
    with pytest.raises(StoreDamaged, match="a/b"):
        bucket.get("a/b", unless=etag)


def test_a_new_object_replaces_none(place: Place, tmp_path: Path) -> None:
    bucket = place.bucket
    (tmp_path / "file").write_bytes(b"file")
    assert bucket.put_new("a/b", tmp_path / "file")
    assert not bucket.put_new("a/b", b"other")
    assert place.contents() == {"a/b": b"file"}


def test_a_file_that_goes_in_parts_replaces_none_either(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SINGLE_PUT_BYTES", 1 << 10)
    content = bytes(range(256)) * (1 << 15)
    (tmp_path / "file").write_bytes(content + b"end")
    bucket = place.bucket
    assert bucket.put_new("a/b", tmp_path / "file")
    assert bucket.size("a/b") == len(content) + 3
    assert not bucket.put_new("a/b", tmp_path / "file")
    with (tmp_path / "back").open("wb") as target:
        assert bucket.download("a/b", target)
        assert not bucket.download("a/c", target)
    assert (tmp_path / "back").read_bytes() == content + b"end"


def test_a_swap_replaces_what_was_read_and_nothing_else(place: Place) -> None:
    bucket = place.bucket
    assert bucket.swap("a", b"1", None)
    assert not bucket.swap("a", b"2", None)
    _, etag = bucket.get("a") or (b"", "")
    assert bucket.swap("a", b"22", etag)
    assert not bucket.swap("a", b"3", etag)
    assert not bucket.swap("missing", b"3", etag)
    assert place.contents() == {"a": b"22"}


def test_of_many_who_swap_at_once_one_wins(place: Place) -> None:
    bucket = place.bucket
    for before in (None, b"start"):
        if before is not None:
            bucket.put("a", before)
        found = bucket.get("a")
        etag = None if found is None else found[1]
        start = threading.Barrier(6)

        def swap(number: int, etag: str | None = etag, start: threading.Barrier = start) -> bool:
            mine = place.bucket
            start.wait(WAIT_SECONDS)
            return mine.swap("a", b"from %d" % number, etag)

        with ThreadPoolExecutor(6) as threads:
            won = [number for number, swapped in enumerate(threads.map(swap, range(6))) if swapped]
        assert len(won) == 1
        assert place.contents() == {"a": b"from %d" % won[0]}


def test_a_listing_is_of_whole_folders(place: Place) -> None:
    bucket = place.bucket
    for key in ("docs/a/1", "docs/b", "docs2/c", "other"):
        bucket.put(key, b"x")
    assert sorted(one.key for one in bucket.list("docs")) == ["docs/a/1", "docs/b"]
    assert list(bucket.list("none")) == []


def test_many_are_deleted_and_the_missing_count_as_deleted(place: Place) -> None:
    bucket = place.bucket
    keys = [f"a/{number}" for number in range(20)]
    for key in keys[:10]:
        bucket.put(key, b"x")
    bucket.delete(keys)
    bucket.delete([])
    assert place.contents() == {}


def test_more_are_deleted_than_one_request_takes(s3: S3, s3_place: S3Place) -> None:
    bucket = s3_place.bucket
    bucket.put("a/0", b"x")
    with proxy_of(s3) as proxy:
        s3_place.through(proxy).bucket.delete([f"a/{number}" for number in range(1_001)])
    assert [asked.method for asked in proxy.asked] == ["POST", "POST"]
    assert s3_place.contents() == {}


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    place = FolderPlace(BucketAddress((tmp_path / "with space and ümlaut").as_uri()))
    bucket = place.bucket
    bucket.put("a", b"1")
    _, etag = bucket.get("a") or (b"", "")
    assert bucket.swap("a", b"2", etag)


# -- what fails --------------------------------------------------------------------------------------------------


def test_a_bucket_that_does_not_exist_is_named(s3: S3, credentials: None, quick: None) -> None:
    error = failed(Bucket(BucketAddress("s3://no-such-bucket/a", s3.url, "us-east-1")), exists=False)
    assert error.details["reason"] == "missing"
    assert f"s3://no-such-bucket/a at 127.0.0.1:{s3.port} does not exist" in str(error)


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (403, "InvalidAccessKeyId"), (403, "SignatureDoesNotMatch"), (401, "X")]
)
def test_wrong_credentials_are_told_as_such(s3_place: S3Place, quick: None, status: int, code: str) -> None:
    with foreign(lambda asked: denied(status, code)) as proxy:
        error = failed(s3_place.through(proxy).bucket)
    assert error.details["reason"] == "denied"
    assert "AWS_SECRET_ACCESS_KEY" in str(error)


def test_an_endpoint_where_nobody_listens_is_told_as_such(quick: None, credentials: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failed(Bucket(BucketAddress("s3://bucket/a", f"http://127.0.0.1:{port}", "us-east-1")))
    assert error.details["reason"] == "unreachable"
    assert f"s3://bucket/a at 127.0.0.1:{port} does not answer" in str(error)


def test_an_endpoint_that_says_nothing_is_given_up(
    quick: None, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY", {"max_retries": 0})
    with socket.create_server(("127.0.0.1", 0)) as mute:
        bucket = Bucket(BucketAddress("s3://bucket/a", f"http://127.0.0.1:{mute.getsockname()[1]}", "us-east-1"))
        with pytest.raises(BucketFailed) as raised:
            bucket.get("a")
    is_clear(raised.value)
    assert raised.value.details["reason"] == "unreachable"


@pytest.mark.parametrize(
    "answer", [answering(500, b"oops"), answering(503, b"slow down"), answering(418, b"tea"), Fault(b"no http", cut=7)]
)
def test_an_answer_that_makes_no_sense_is_told_as_such(s3_place: S3Place, quick: None, answer: Fault) -> None:
    with foreign(lambda asked: answer) as proxy:
        error = failed(s3_place.through(proxy).bucket)
    assert error.details["reason"] == "unreachable"


@pytest.mark.parametrize("fault", [RESET_BEFORE, RESET_AFTER, answering(500, b"oops"), answering(503, b"slow down")])
def test_one_failure_is_tried_again(s3: S3, s3_place: S3Place, quick: None, fault: Fault) -> None:
    s3_place.put("a", b"content")
    with proxy_of(s3, Once("GET", "/a", fault)) as proxy:
        found = s3_place.through(proxy).bucket.get("a")
    assert found is not None
    assert found[0] == b"content"
    assert len(proxy.asked) == 2


def test_an_object_that_was_cut_on_the_way_is_no_content(s3: S3, s3_place: S3Place, quick: None) -> None:
    s3_place.put("a", b"content" * 1_000)
    with proxy_of(s3, lambda asked: Fault(cut=2_000)) as proxy, pytest.raises(BucketFailed) as raised:
        s3_place.through(proxy).bucket.get("a")
    is_clear(raised.value)


def test_an_object_is_not_read_beyond_what_it_may_have(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_GET_BYTES", 100)
    place.put("a", b"x" * 101)
    with pytest.raises(StoreDamaged, match="101 bytes"):
        place.bucket.get("a")


def test_a_disk_that_is_full_is_not_the_buckets_fault(place: Place) -> None:
    place.put("a", b"x")
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="No space left"):
        place.bucket.download("a", full)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing"):
        Bucket(BucketAddress((tmp_path / "missing").as_uri()))


@pytest.mark.parametrize("url", ["s3:/", "s3://", "nonsense://a", "file://", "http://", "memory://", "s3://a b/c"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Bucket(BucketAddress(url, region="us-east-1"))
    is_clear(raised.value)
    assert url in str(raised.value)


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Bucket(BucketAddress("s3://AKIAOFTHETESTS:s3cr3t-of-the-tests@bucket/a", region="us-east-1"))
    is_clear(raised.value)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "a").write_bytes(b"a file where a folder should be")
    with pytest.raises(StorageFailed):
        FolderPlace(BucketAddress((tmp_path / "bucket").as_uri())).bucket.put("a/b", b"x")
