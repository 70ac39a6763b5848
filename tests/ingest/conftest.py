from __future__ import annotations

from tests.support.ingests import bench
from tests.support.sites import body
from tests.support.websites import site
