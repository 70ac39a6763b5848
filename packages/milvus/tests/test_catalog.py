"""Which rows a commit makes visible. What a server does with it is tested in test_milvus.py and in tests/backends."""

from __future__ import annotations

from aidre_milvus.catalog import Commit
from aidre_milvus.tables import RowExtent
from aidre_rows import CollectionState

STATE = CollectionState("notes", "lineage", "2026-04-01T10:00:00Z", "2026-04-01T10:00:00Z", (), token="old")


def test_visible_are_the_rows_that_were_born_by_then() -> None:
    assert Commit(STATE, serial=9, born=7).visible == "born <= 7"


def test_rows_of_failed_commits_and_of_deleted_documents_are_not_visible() -> None:
    commit = Commit(STATE, born=7, aborted=(3, 5), dead=(RowExtent(40, 2), RowExtent(50, 1)))
    assert commit.visible == "born <= 7 and born not in [3,5] and document not in [40,50]"


def test_a_commit_without_dead_rows_is_a_later_one_of_the_same_rows() -> None:
    before = Commit(STATE, serial=9, born=7, aborted=(3,), dead=(RowExtent(40, 2),))
    after = before.again(dead=())
    assert after.visible == "born <= 7 and born not in [3]"
    assert after.serial == 10
    assert after.state.token != before.state.token
