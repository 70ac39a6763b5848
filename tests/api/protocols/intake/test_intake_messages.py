"""Ids of sessions and offers: a UUID as RFC 9562 writes it, in either case, and no other form that Python reads."""

from __future__ import annotations

import pytest

from aidre.api.protocols.intake.intake_messages import parse_uuid

PLAIN = "0190a5c4-7d3e-7f2a-9b1c-3d5e7f9a1b2c"


@pytest.mark.parametrize("text", [PLAIN, PLAIN.upper()])
def test_a_uuid_is_read_in_either_case(text: str) -> None:
    assert str(parse_uuid(text)) == PLAIN


@pytest.mark.parametrize(
    "text", [f"urn:uuid:{PLAIN}", f"{{{PLAIN}}}", PLAIN.replace("-", ""), PLAIN[:-1], f"{PLAIN}0", "", "session"]
)
def test_other_forms_are_refused(text: str) -> None:
    assert parse_uuid(text) is None
