"""Cursors: what they are bound to, how long they hold, and the secret under which they are written."""

from __future__ import annotations

import base64
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aidre.api.retrieval.cursor import (
    LIFETIME_SECONDS,
    SECRET_VARIABLE,
    Cursors,
    SearchCursor,
    lineage_digest,
    store_secret,
)
from aidre.engine.errors import InvalidInput

BINDING = b"a caller and a query"


def a_place(started: float | None = None) -> SearchCursor:
    return SearchCursor(7, 10, 40, int(time.time() if started is None else started), lineage_digest("lineage"))


def test_a_cursor_says_where_to_go_on() -> None:
    cursors = Cursors(b"s" * 32)
    place = a_place()
    assert cursors.read(cursors.write(place, BINDING), BINDING) == place


def test_a_cursor_is_good_for_what_it_was_made_for_alone() -> None:
    cursors = Cursors(b"s" * 32)
    cursor = cursors.write(a_place(), BINDING)
    with pytest.raises(InvalidInput):
        cursors.read(cursor, b"another query")
    with pytest.raises(InvalidInput):
        Cursors(b"t" * 32).read(cursor, BINDING)


def test_a_cursor_with_any_bit_changed_is_refused() -> None:
    cursors = Cursors(b"s" * 32)
    sealed = base64.urlsafe_b64decode(cursors.write(a_place(), BINDING))
    for position in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(InvalidInput):
            cursors.read(base64.urlsafe_b64encode(changed).decode().rstrip("="), BINDING)


@pytest.mark.parametrize("cursor", ["", "abc", "%", "é", "A" * 4_000, "eyJvZmZzZXQiOjEwMH0"])
def test_what_never_was_a_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput):
        Cursors(b"s" * 32).read(cursor, BINDING)


def test_a_cursor_has_one_spelling() -> None:
    cursors = Cursors(b"s" * 32)
    cursor = cursors.write(a_place(), BINDING)
    for spelling in (cursor + "=", cursor + "\n", " " + cursor):
        with pytest.raises(InvalidInput):
            cursors.read(spelling, BINDING)


def test_a_place_expires_ten_minutes_after_the_first_page() -> None:
    assert not a_place().expired
    assert not a_place(time.time() - LIFETIME_SECONDS + 60).expired
    assert a_place(time.time() - LIFETIME_SECONDS - 2).expired


def test_the_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: store_secret(tmp_path / ".log"), range(16)))
    assert len(found) == 1
    assert len(found.pop()) == 32
    path = tmp_path / ".log" / "cursor.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["cursor.key"]


def test_a_truncated_secret_is_made_anew(tmp_path: Path) -> None:
    store_secret(tmp_path / ".log")
    path = tmp_path / ".log" / "cursor.key"
    path.write_bytes(b"")
    assert len(store_secret(tmp_path / ".log")) == 32
    assert len(path.read_bytes()) == 32


def test_workers_over_a_store_that_cannot_be_written_share_what_they_inherit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".log").write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv(SECRET_VARIABLE, "ab" * 32)
    assert store_secret(tmp_path / ".log") == bytes.fromhex("ab" * 32)
    monkeypatch.delenv(SECRET_VARIABLE)
    assert store_secret(tmp_path / ".log") != store_secret(tmp_path / ".log")
