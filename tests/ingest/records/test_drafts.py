"""What keeps a document from being published: flags and dates of a front matter, and directives for robots."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aidre.ingest.records.drafts import DraftStatus, read_publication, read_robots

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "members",
    [
        {"draft": True},
        {"Draft": "true"},
        {"draft": "Yes"},
        {"draft": 1},
        {"published": False},
        {"published": "false"},
        {"PUBLISHED": "off"},
        {"publish": False},
        {"publishDate": "2026-06-01T12:00:01Z"},
        {"publishdate": "2026-06-02"},
        {"PublishDate": "2026-06-01T12:00:00-01:00"},
        {"expiryDate": "2026-06-01"},
        {"expirydate": "2026-06-01T12:00:00Z"},
        {"publishDate": "in spring"},
        {"expiryDate": ["2027-01-01"]},
        {"title": "x", "draft": False, "publishDate": "2020-01-01", "expiryDate": "2026-05-31"},
    ],
    ids=str,
)
def test_a_document_that_its_author_has_not_published(members: dict[str, Any]) -> None:
    reason = read_publication(members, NOW).reason
    assert reason is not None
    assert next(name for name in reversed(members)) in reason


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"draft": False},
        {"draft": "no"},
        {"draft": None},
        {"draft": "see below"},
        {"published": True},
        {"published": "2026-01-01"},
        {"published": None},
        {"publish": "yes"},
        {"publishDate": "2026-06-01T12:00:00Z"},
        {"publishDate": ""},
        {"expiryDate": None},
        {"metadata": {"draft": True}},
        {"drafts": True},
    ],
    ids=str,
)
def test_a_published_document(members: dict[str, Any]) -> None:
    assert read_publication(members, NOW) == DraftStatus()


def test_a_document_is_published_until_it_expires() -> None:
    members = {"publishDate": "2026-01-01", "expiryDate": "2026-06-01 14:30:00 +0200"}
    assert read_publication(members, NOW) == DraftStatus(None, "2026-06-01T12:30:00Z")


@pytest.mark.parametrize(
    "values",
    [
        ["noindex"],
        ["NONE"],
        ["nofollow, NoIndex"],
        ["index", "noindex"],
        ["robots: noindex"],
        ["aidre: nofollow, noindex"],
        ["googlebot: nofollow, aidre: noindex"],
        ["unavailable_after: 25 Jun 2010 15:00:00 PST"],
        ["unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, nofollow"],
        ["unavailable_after: 2026-06-01T12:00:00Z"],
        ["max-snippet: 20, noindex"],
        ["noindex nofollow"],
        ["follow;noindex"],
    ],
    ids=str,
)
def test_a_page_that_asks_all_robots_or_this_one_not_to_be_indexed(values: list[str]) -> None:
    assert read_robots(values, NOW).reason is not None


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["all"],
        ["index, follow"],
        ["nofollow, noarchive, noimageindex"],
        ["nofollow noimageindex"],
        ["googlebot: noindex"],
        ["otherbot: noindex, nofollow"],
        ["otherbot: unavailable_after: Fri, 25 Jun 2010 15:00:00 PST"],
        ["unavailable_after: some day"],
    ],
    ids=str,
)
def test_a_page_that_may_be_indexed(values: list[str]) -> None:
    assert read_robots(values, NOW) == DraftStatus()


def test_a_page_may_be_indexed_until_it_is_unavailable() -> None:
    values = ["unavailable_after: Wed, 02 Dec 2026 15:00:00 PST"]
    assert read_robots(values, NOW) == DraftStatus(None, "2026-12-02T23:00:00Z")
