"""robots.txt: which pages it closes, and what holds where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.fetcher import Fetcher, Robots
from aidre.ingest.fetch.urls import read_url
from tests.support.websites import ALLOWED, Site

RULES = """\ufeffUser-agent: tester
Disallow: /closed/

User-agent: *
Disallow: /
"""


def robots(folder: Path, **rules: object) -> Robots:
    return Robots(Fetcher(replace(ALLOWED, robots=True, **rules)), folder)  # type: ignore[arg-type]


def allowed(robots: Robots, site: Site, *paths: str) -> list[bool]:
    return [robots.allow(read_url(site.url(path))) for path in paths]


def test_a_page_is_closed_to_those_that_its_rules_name(site: Site, tmp_path: Path) -> None:
    site.put("/robots.txt", RULES, "text/plain")
    assert allowed(robots(tmp_path, user_agent="tester"), site, "/open", "/closed/a") == [True, False]
    assert allowed(robots(tmp_path, user_agent="other"), site, "/open", "/closed/a") == [False, False]


def test_the_rules_of_a_host_are_fetched_once(site: Site, tmp_path: Path) -> None:
    site.put("/robots.txt", RULES, "text/plain")
    allowed(robots(tmp_path), site, "/a", "/b", "/c")
    assert site.asked == ["/robots.txt"]


def test_who_does_not_ask_for_the_rules_may_fetch_everything(site: Site, tmp_path: Path) -> None:
    site.put("/robots.txt", RULES, "text/plain")
    assert allowed(Robots(Fetcher(ALLOWED), tmp_path), site, "/closed/a") == [True]
    assert site.asked == []


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_without_rules_everything_is_open(site: Site, tmp_path: Path, status: int) -> None:
    site.fail("/robots.txt", status)
    assert allowed(robots(tmp_path), site, "/a", "/closed/a") == [True, True]


@pytest.mark.parametrize("status", [500, 503])
def test_rules_that_cannot_be_read_close_everything_for_now(site: Site, tmp_path: Path, status: int) -> None:
    site.fail("/robots.txt", status)
    with pytest.raises(FetchFailed, match=r"^robots\.txt, which says what may be fetched: answered") as caught:
        allowed(robots(tmp_path), site, "/a")
    assert caught.value.details["status"] == status


def test_only_the_first_bytes_of_very_long_rules_are_read(site: Site, tmp_path: Path) -> None:
    site.put("/robots.txt", "User-agent: *\n" + "#\n" * (256 << 10) + "Disallow: /\n", "text/plain")
    assert allowed(robots(tmp_path), site, "/a") == [True]
