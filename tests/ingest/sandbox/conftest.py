from __future__ import annotations

from tests.support.sandboxes import sandbox
