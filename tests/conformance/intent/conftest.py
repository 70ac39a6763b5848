from __future__ import annotations

from tests.support.publishers import client, platform, store
