"""Set before any library is loaded: threads of OpenMP that wait must not spin while other processes work."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
