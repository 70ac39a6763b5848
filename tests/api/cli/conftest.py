from __future__ import annotations

from tests.support.shell import filled, shell
