"""The list of checks, `aidre_conformance/registry.py`."""

from __future__ import annotations

import re
from collections import Counter

from aidre_conformance import Checks, Target, checks_of


def test_each_check_has_an_id_a_level_and_a_sentence() -> None:
    checks = [*checks_of("letter"), *checks_of("compat")]
    assert [one for one, times in Counter(check.id for check in checks).items() if times > 1] == []
    for check in checks:
        assert re.fullmatch(r"[a-z]+\.[a-z0-9.-]+\.[a-z0-9-]+", check.id), check.id
        assert check.id.startswith(f"{check.protocol}.")
        assert check.level in {"MUST", "SHOULD"}
        assert len(check.sentence) > 10
        assert check.section


def test_the_four_protocols_and_http_are_covered() -> None:
    counted = Counter(check.protocol for check in checks_of("letter"))
    assert set(counted) == {"aidre", "nlweb", "mcp", "intent", "intake", "http"}
    assert min(counted.values()) >= 8


def test_an_id_is_made_of_protocol_section_and_function() -> None:
    checks = Checks("aidre", "AIDRE")

    @checks.add("23.1 x", "MUST", "A sentence.", reading="so")
    def _some_check(target: Target) -> None: ...

    [check] = checks
    assert (check.id, check.section, check.reading) == ("aidre.23.1-x.some-check", "AIDRE 23.1 x", "so")
