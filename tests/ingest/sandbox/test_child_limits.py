"""The child's limits: what it may use from the first document on, and how long one document may compute."""

from __future__ import annotations

import json
import subprocess
import sys

MEMORY = 1 << 30
CONFINED = f"""
import json, resource, sys
from aidre.ingest.sandbox import child
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
child._confine({MEMORY})
names = ("AS", "CORE", "FSIZE", "NOFILE", "NPROC")
found = {{name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names}}
usage = resource.getrusage(resource.RUSAGE_SELF)
used = usage.ru_utime + usage.ru_stime
child._limit_processor(20.0)
soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
found["CPU"] = [soft - used, hard]
found["bytecode"] = sys.dont_write_bytecode
print(json.dumps(found))
"""


def test_a_confined_child_has_little_to_use() -> None:
    said = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    assert found["AS"] == [MEMORY, MEMORY]
    assert found["CORE"] == found["FSIZE"] == found["NPROC"] == [0, 0]
    assert found["NOFILE"] == [8, 8], "a limit that was lower stays"
    assert found["bytecode"] is True
    left, hard = found["CPU"]
    assert 25 <= left < 27, "the seconds of a document and five more, beyond what was used before"
    assert hard == -1 or hard > left
