"""A publisher of news whom platforms ask; no test changes its collections."""

from __future__ import annotations

from tests.support.publishers import client, numbers, platform, store
