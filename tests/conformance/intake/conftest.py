from __future__ import annotations

from tests.support.intakes import client
