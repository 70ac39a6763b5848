"""For tests of sources that are fetched: what a site publishes, and a run over some of its addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.ingest.fetch.client import FetchRules
from aidre.ingest.pipeline.progress import Summary
from tests.support.ingests import Bench

ALLOWED = FetchRules(allow_private_addresses=True, timeout=20, robots=False)
FEED = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>News of tea</title><link>/</link><language>en</language>{}</channel></rss>"""
ITEM = """<item><guid isPermaLink="false">urn:tea:{0}</guid><title>Entry {0}</title><link>/news/{0}</link>
<pubDate>Sat, 0{0} Aug 2026 10:00:00 GMT</pubDate><description>{1}</description></item>"""


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """Where the body of an answer is written."""
    return tmp_path / "body"


def item(number: int | str, text: str) -> str:
    return ITEM.format(number, text)


def feed(*items: str, **texts: str) -> str:
    """A feed of items, or of those with the texts `e1`, `e2` and so on."""
    return FEED.format("".join([*items, *(item(name[1:], text) for name, text in texts.items())]))


def page(text: str, title: str = "A page") -> str:
    return f"<!doctype html><html lang='en'><head><title>{title}</title></head><body><p>{text}</p></body></html>"


def sitemap(*entries: tuple[str, str | None]) -> str:
    urls = "".join(f"<url><loc>{loc}</loc>{f'<lastmod>{d}</lastmod>' if d else ''}</url>" for loc, d in entries)
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'


def run(bench: Bench, *addresses: str, rules: FetchRules = ALLOWED, **options: Any) -> Summary:
    return bench.run(*addresses, fetching=rules, **options)


def counts(summary: Summary) -> tuple[int, int, int, int, int]:
    return summary.documents, summary.updated, summary.unchanged, summary.deleted, summary.failed
