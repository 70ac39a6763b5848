from __future__ import annotations

from tests.support.signatures import clock, path, ring
