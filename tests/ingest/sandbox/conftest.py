from __future__ import annotations

from tests.ingest.sandbox.sandboxes import sandbox
