from __future__ import annotations

from tests.support.recipes import client, filled
