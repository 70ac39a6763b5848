"""robots.txt (RFC 9309): the pages of a site that crawlers may fetch. Applied to pages that a sitemap lists."""

from __future__ import annotations

from pathlib import Path
from urllib.robotparser import RobotFileParser

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.client import Fetcher
from aidre.ingest.fetch.urls import Url, read_url

_MAX_BYTES = 500 << 10
"""Bytes that are parsed, as RFC 9309 requires at least."""


class Robots:
    """The rules of each host, fetched once into `folder`."""

    def __init__(self, fetcher: Fetcher, folder: Path) -> None:
        self._fetcher, self._file = fetcher, folder / "robots.txt"
        self._rules: dict[str, RobotFileParser] = {}

    def allow(self, url: Url) -> bool:
        """Whether a page may be fetched; raises FetchFailed if robots.txt fails with anything but a 4xx status."""
        if not self._fetcher.rules.robots:
            return True
        site = f"{url.scheme}://{url.authority}"
        if site not in self._rules:
            self._rules[site] = self._fetch_rules(read_url(f"{site}/robots.txt"))
        return self._rules[site].can_fetch(self._fetcher.rules.user_agent, str(url))

    def _fetch_rules(self, url: Url) -> RobotFileParser:
        rules = RobotFileParser()
        lines: list[str] = []
        try:
            self._fetcher.get(url, self._file)
            with self._file.open("rb") as file:
                lines = file.read(_MAX_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
        except FetchFailed as error:
            if error.details.get("status", 500) // 100 != 4:
                reason = f"robots.txt, which says what may be fetched: {error.message}"
                raise FetchFailed(reason, **error.details) from None
        rules.parse(lines)
        return rules
